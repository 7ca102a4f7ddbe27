"""The sentences after an undo, a redo or a restore."""

from __future__ import annotations

from mulligan.model.plan import Keep, RestoreReport
from mulligan.present.outcome import outcome_lines


def test_a_few_files_are_named_in_one_sentence():
    report = RestoreReport("1" * 40, ["src/login.py"], ["src/shop.py"], ["junk.txt"], undo="2" * 40)
    assert outcome_lines(report, "Undone", again="redo") == [
        "Undone: restored src/login.py, src/shop.py; removed junk.txt. Redo: mulligan redo"
    ]


def test_many_files_are_counted_by_directory_and_the_first_are_named():
    report = RestoreReport("1" * 40, [f"src/{n}.py" for n in range(1200)] + ["top"], [], ["junk.txt"], undo="2" * 40)
    assert outcome_lines(report, "Undone", again="redo") == [
        "Undone: restored 1,201 files; removed 1 file. Redo: mulligan redo",
        "  restored  src/ 1,200, ./ 1: src/0.py, src/1.py, src/2.py, +1,198 more",
        "  removed   junk.txt",
    ]


def test_a_redo_tells_what_was_created_from_what_was_changed():
    report = RestoreReport("1" * 40, ["a"], ["b"], ["c"], undo="2" * 40)
    assert outcome_lines(report, "Redone", changed="changed", again="undo") == [
        "Redone: created a; changed b; removed c. Undo: mulligan undo"
    ]


def test_the_way_back_is_printed_only_where_there_is_one():
    assert outcome_lines(RestoreReport("1" * 40, ["a"]), "Undone", again="redo") == ["Undone: restored a."]


def test_each_reason_is_one_sentence():
    kept = [
        Keep("server.out", "busy", failed=True),
        Keep("d/x", "not writable", "owned by root", failed=True),
        Keep("a", "changed since by others", failed=True),
        Keep(".claude/settings.local.json", "agent settings"),
        Keep("b", "secret"),
        Keep("c", "secret"),
    ]
    assert outcome_lines(RestoreReport("1" * 40, kept=kept), "Undone")[1:] == [
        "Left alone because it keeps changing: server.out.",
        "Not restored, can't write: d/x (owned by root).",
        "Left alone because it was changed again since: a.",
        "Left alone because it holds settings of your agents: .claude/settings.local.json.",
        "Left alone, not saved (secret): b, c.",
    ]
