"""Finding checkpoints, and what becomes of the others when one is deleted."""

from __future__ import annotations

import pytest

import mulligan
from scans import settings_for
from tree import put

ODD = ["\ud800", "a\0b", "a\nb", "x" * 1_000_000, "\udcff", " ", "é"]


@pytest.fixture
def line(ws, project):
    """A history of one line: a, b, c."""
    saved = {}
    for name in "abc":
        put(project, name, name)
        saved[name] = ws.save(name)
    return ws, saved


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_any_text_is_a_name_a_description_a_key_and_a_value(ws, project, store, text):
    put(project, "f", "1")
    cp = ws.save(
        text, description=text, context={text: text}, state={text: text, "large": "y" * 20_000}, metadata={text: [text]}
    )
    ws.close()
    found = ws.get(text)
    assert found.id == cp.id and (found.name, found.description) == (text, text)
    assert found.context == {text: text} and found.metadata == {text: [text]}
    assert found.state == {text: text, "large": "y" * 20_000}


@pytest.mark.parametrize("bad", [{"a": object()}, {"a": float("nan")}, {"a": b"x"}, {"a": {(1, 2): 3}}])
@pytest.mark.parametrize("where", ["context", "state", "metadata"])
def test_what_is_not_json_is_refused_and_nothing_is_saved(ws, project, store, where, bad):
    with pytest.raises((TypeError, ValueError), match=f"{where} must be JSON"):
        ws.save("bad", **{where: bad})
    assert ws.log() == [] and not store.exists()


def test_a_reference_is_an_id_a_word_a_name_or_a_beginning(line):
    ws, saved = line
    for ref in (saved["b"], saved["b"].id, "b", saved["b"].id[:10], "latest~1"):
        assert ws.get(ref).id == saved["b"].id
    assert ws.get("@").id == ws.get("latest").id == saved["c"].id


@pytest.mark.parametrize("ref", ["nothing", "", "\ud801", "x\0", "latest~3", "latest~999999999", "f" * 99, "@ "])
def test_a_reference_to_nothing_is_a_key_error(line, ref):
    with pytest.raises(KeyError) as caught:
        line[0].get(ref)
    assert isinstance(caught.value, mulligan.UnknownCheckpoint)


def test_the_newest_of_a_name_is_meant(ws, project):
    for content in "12":
        put(project, "f", content)
        ws.save("same")
    assert ws.cat("same", "f") == b"2"


def test_the_children_of_a_deleted_checkpoint_belong_to_its_parent(line):
    ws, saved = line
    ws.delete("b")
    child = ws.get("c")
    assert child.parent == saved["a"].id and child.files_changed == ("b", "c")
    ws.delete("a")
    child = ws.get("c")
    assert child.parent is None and child.files_changed == ("a", "b", "c")


def test_the_position_moves_to_the_parent_of_a_deleted_checkpoint(line, project):
    ws, saved = line
    ws.delete("@")
    assert ws.get("@").id == saved["b"].id and (project / "c").exists()
    assert ws.diff().added == ["c"]


def test_everything_may_be_deleted_and_saving_goes_on(line, project):
    ws, _ = line
    for cp in ws.log():
        ws.delete(cp)
    assert ws.log() == [] and ws.position() is None
    assert ws.prune() > 0
    assert ws.save("again").parent is None and ws.cat("again", "a") == b"a"


def test_order_is_that_of_saving_whatever_the_clock_says(project, store):
    times = iter([9, 1, 5, 5, 20, 3])
    ws = mulligan.Workspace(settings_for(project), now_ns=lambda: now)
    for now in (seconds * 10**9 for seconds in times):
        put(project, "f", str(now))
        ws.save(str(now), kind="step")
    assert [cp.created_at.second for cp in ws.log()] == [3, 20, 5, 5, 1, 9]
    ws.undo()
    assert (project / "f").read_text() == str(20 * 10**9)


def test_what_was_read_of_a_checkpoint_is_not_kept_when_another_process_changes_it(line, project, store):
    ws, saved = line
    assert ws.get(saved["b"].id).parent == saved["a"].id
    with mulligan.open(project, store=store) as other:
        other.delete(saved["a"])
        assert ws.get(saved["b"].id).parent is None
        other.delete(saved["b"])
    with pytest.raises(mulligan.UnknownCheckpoint):
        ws.get(saved["b"].id)
    assert ws.get(saved["c"].id).parent is None


def test_a_value_that_its_reader_changed_is_not_what_the_next_one_gets(ws, project):
    put(project, "f", "1")
    cp = ws.save("one", context={"a": [1]})
    ws.get(cp.id).context["a"].append(2)
    assert ws.get(cp.id).context == {"a": [1]}
