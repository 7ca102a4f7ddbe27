"""
PraisonAI's checkpoints over this engine: each promised behaviour by its number, the document's own examples, and the
defects of the original shown mended.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime

import pytest

import mulligan
from mulligan.cli import main
from mulligan.cli.context import Context
from mulligan.dialects import praisonai
from mulligan.dialects.praisonai import (
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointResult,
    CheckpointService,
    FileDiff,
    SessionCheckpointManager,
)
from tools import plain_environment

run = asyncio.run


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "storage"


def make(project, storage, **options) -> CheckpointService:
    service = CheckpointService(workspace_dir=str(project), storage_dir=str(storage), **options)
    assert run(service.initialize()), service.last_error
    return service


@pytest.fixture
def service(project, storage):
    service = make(project, storage)
    yield service
    run(service.cleanup())


def saved(service, file, text, message="m", **options):
    """Writes a file, saves, and returns the result."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    result = run(service.save(message, **options))
    assert result.success, result.error
    return result


def tree(root) -> dict[str, bytes]:
    found = {}
    for top, _, names in os.walk(root):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


# -- 1 to 14: what the original's own tests ask ---------------------------------------------------


def test_01_configuration_defaults(private_home, tmp_path):
    config = CheckpointConfig(workspace_dir="/some/project")
    assert (config.enabled, config.auto_checkpoint, config.max_checkpoints) == (True, True, 100)
    assert (config.user_name, config.user_email) == ("PraisonAI Checkpoints", "checkpoints@praison.ai")
    assert config.exclude_patterns == []
    assert "checkpoints" in config.storage_dir and config.storage_dir in config.get_checkpoint_dir()
    assert len(os.path.basename(config.get_checkpoint_dir())) == 12
    home = CheckpointConfig(workspace_dir="~/p", storage_dir="~/s")
    assert (home.workspace_dir, home.storage_dir) == (f"{private_home}/p", f"{private_home}/s")


def test_01_the_author_comes_from_the_environment(monkeypatch, project, storage):
    monkeypatch.setenv("PRAISONAI_GIT_USER_NAME", "Ada")
    monkeypatch.setenv("PRAISONAI_GIT_USER_EMAIL", "ada@example.org")
    service = make(project, storage)
    assert saved(service, project / "a", "1").checkpoint.metadata["author"] == "Ada <ada@example.org>"


def test_02_types():
    when = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)
    made = Checkpoint("abcdef0123456789", "abcdef01", "hello", when, 3, 10, 2, 4)
    assert made.to_dict() == {
        "id": "abcdef0123456789", "short_id": "abcdef01", "message": "hello", "timestamp": "2025-01-15T10:30:00+00:00",
        "files_changed": 3, "insertions": 10, "deletions": 2, "step": 4,
    }  # fmt: skip
    commit = Checkpoint.from_git_commit("0123456789abcdef", "m", "2025-01-15T10:30:00Z")
    assert (commit.short_id, commit.timestamp) == ("01234567", when)
    diff = CheckpointDiff("a", "b", [FileDiff("x", "/x", "added", 10), FileDiff("y", "/y", "modified", 5, 3)])
    assert (diff.total_additions, diff.total_deletions) == (15, 3)
    assert "before_content" not in diff.files[0].to_dict()
    good, bad = CheckpointResult.ok(made), CheckpointResult.fail("no")
    assert (good.success, good.checkpoint, good.error) == (True, made, None)
    assert (bad.success, bad.checkpoint, bad.error) == (False, None, "no")


def test_02_the_documents_spelling_of_the_types():
    made = Checkpoint(id="abcdef0123", message="m", timestamp=datetime.now(UTC), files_changed=["a.py", "b.py"])
    assert (made.short_id, made.files_changed, made.metadata) == ("abcdef01", ["a.py", "b.py"], {})
    diff = CheckpointDiff(from_id="1" * 16, to_id="2" * 16, added_files=["a"], modified_files=[], deleted_files=["b"])
    assert (diff.from_checkpoint, diff.to_checkpoint, diff.added_files) == ("1" * 8, "2" * 8, ["a"])
    assert CheckpointConfig(auto_checkpoint=True, max_checkpoints=50, exclude_patterns=["*.log"]).max_checkpoints == 50


def test_02_both_spellings_of_the_events():
    assert CheckpointEvent.CREATED is CheckpointEvent.CHECKPOINT_CREATED
    assert CheckpointEvent.RESTORED is CheckpointEvent.CHECKPOINT_RESTORED
    assert CheckpointEvent("created") is CheckpointEvent("checkpoint_created") is CheckpointEvent.CREATED
    assert CheckpointEvent.DELETED == "checkpoint_deleted" and CheckpointEvent.PRUNED == "checkpoints_pruned"
    with pytest.raises(ValueError, match="nonsense"):
        CheckpointEvent("nonsense")


def test_02_names_are_loaded_when_asked_for_and_unknown_ones_are_errors():
    assert set(praisonai.__all__) >= {"CheckpointService", "Checkpoint", "CheckpointDiff", "CheckpointConfig"}
    with pytest.raises(AttributeError, match="Nothing"):
        praisonai.Nothing
    program = "import sys, mulligan.dialects.praisonai; print('asyncio' in sys.modules, 'sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], env=plain_environment(), capture_output=True, check=True)
    assert done.stdout == b"False False\n"


def test_03_initialize_makes_the_store(project, storage):
    service = CheckpointService(str(project), str(storage))
    assert not service.is_initialized and not storage.exists()
    assert run(service.initialize()) is True
    assert service.is_initialized and os.path.isdir(service.git_dir)
    assert service.checkpoint_dir == service.config.get_checkpoint_dir() and service.git_dir.startswith(str(storage))
    assert subprocess.run(["git", "--git-dir", service.git_dir, "log", "--all", "--oneline"], check=True)


def test_04_save_a_new_file(service, project):
    result = saved(service, project / "a.txt", "1", "First checkpoint")
    assert (result.checkpoint.message, result.checkpoint.files_changed) == ("First checkpoint", ["a.txt"])
    assert result.checkpoint.files_changed == 1 and result.checkpoint.files_changed > 0
    assert len(result.checkpoint.short_id) == 8 and result.checkpoint.timestamp.tzinfo is not None


def test_05_no_changes(service, project):
    empty = run(service.save("nothing"))
    assert not empty.success and "No changes" in empty.error
    assert run(service.save("nothing", allow_empty=True)).success
    first = saved(service, project / "a", "1")
    again = run(service.save("again"))
    assert (again.success, again.checkpoint, again.error) == (False, None, "No changes to checkpoint")
    assert again == first, "as an id it is the checkpoint that holds this state"
    (project / "a").write_text("2")
    assert run(service.restore(again)).success and (project / "a").read_text() == "1"


def test_05_the_first_save_after_initialize_is_one_even_if_nothing_changed_between(project, storage):
    (project / "a").write_text("1")
    service = make(project, storage)
    first = run(service.save("Before refactoring"))
    assert first.success
    assert not run(service.save("again")).success


def test_06_restore(service, project):
    v1 = saved(service, project / "a", "v1")
    saved(service, project / "a", "v2")
    result = run(service.restore(v1.checkpoint.id))
    assert result.success and (project / "a").read_text() == "v1"


def test_07_list_is_newest_first(service, project):
    saved(service, project / "a", "1", "one")
    saved(service, project / "a", "2", "two")
    assert [each.message for each in run(service.list_checkpoints())] == ["two", "one", "Initial checkpoint"]
    assert [each.message for each in run(service.list_checkpoints(limit=1))] == ["two"]


@pytest.mark.parametrize(("steps", "content"), [(1, "v2"), (2, "v1")])
def test_08_rewind(service, project, steps, content):
    for text in ("v1", "v2", "v3"):
        saved(service, project / "a", text)
    assert run(service.rewind(steps)).success
    assert (project / "a").read_text() == content


def test_08_rewind_refuses(service, project):
    for text in ("v1", "v2", "v3"):
        saved(service, project / "a", text)
    assert run(service.rewind(5)).error == "Cannot rewind 5 step(s): only 4 checkpoint(s) available"
    assert run(service.rewind(0)).error == run(service.rewind(-1)).error == "steps must be >= 1"
    assert (project / "a").read_text() == "v3"


def test_08_rewind_reaches_beyond_max_checkpoints_within_the_session(project, storage):
    service = make(project, storage, max_checkpoints=2)
    for number in range(5):
        saved(service, project / "a", str(number))
    assert run(service.rewind(4)).success and (project / "a").read_text() == "0"


def test_08_rewind_walks_on_and_new_work_branches_off(service, project):
    for text in ("v1", "v2", "v3"):
        saved(service, project / "a", text)
    run(service.rewind(1))
    run(service.rewind(1))
    assert (project / "a").read_text() == "v1"
    saved(service, project / "a", "other")
    run(service.rewind(1))
    assert (project / "a").read_text() == "v1"


def test_09_diff_after_an_edit(service, project):
    saved(service, project / "a", "one\n")
    (project / "a").write_text("one\ntwo\n")
    diff = run(service.diff())
    assert diff.from_checkpoint and diff.to_checkpoint is None
    assert [(file.path, file.status, file.additions) for file in diff.files] == [("a", "modified", 1)]
    assert diff.files[0].absolute_path == str(project / "a")


def test_10_protected_paths(private_home, storage):
    (private_home / "Documents" / "project").mkdir(parents=True)
    for path in ("~", "/", "/etc", "/tmp", "~/Documents"):
        service = CheckpointService(path, str(storage))
        assert run(service.initialize()) is False and not service.is_initialized and service.last_error
    assert not storage.exists()
    assert run(CheckpointService("~/Documents/project", str(storage)).initialize()) is True


def test_11_events_in_order(project, storage):
    service, seen = CheckpointService(str(project), str(storage)), []
    service.on(CheckpointEvent.INITIALIZED, lambda data: seen.append(("initialized", data)))
    service.on(CheckpointEvent.CHECKPOINT_CREATED, lambda data: seen.append(("created", data.message)))
    run(service.initialize())
    saved(service, project / "a", "1", "Test")
    assert seen == [("initialized", {"workspace": str(project)}), ("created", "Test")]


def test_12_cleanup_and_delete_all(service, project):
    saved(service, project / "a", "1")
    place = service.checkpoint_dir
    run(service.cleanup())
    assert not service.is_initialized and os.path.isdir(place)
    assert run(service.initialize()) and run(service.delete_all()) is True
    assert not service.is_initialized and not os.path.exists(place)
    assert (project / "a").read_text() == "1"
    assert run(service.delete_all()) is True


def test_13_steps(service, project):
    one = saved(service, project / "a", "1", "first", step=1)
    assert (one.checkpoint.step, one.checkpoint.message) == (1, "[step-1] first")
    saved(service, project / "a", "2", "second", step=2)
    saved(service, project / "a", "3", "[step-7] third", step=3)
    assert run(service.get_checkpoint_by_step(3)).message == "[step-3] third"
    back = run(service.restore(step=1))
    assert back.success and back.checkpoint.step == 1 and (project / "a").read_text() == "1"
    assert "step 99" in run(service.restore(step=99)).error
    assert "not both" in run(service.restore(one, step=1)).error
    assert not run(service.restore()).success
    assert not run(service.save("x", step=-1)).success
    retry = saved(service, project / "a", "retry", "retry", step=1)
    run(service.restore(step=2))
    assert run(service.restore(step=1)) == retry, "the newest of a step"


# -- 14: the session manager --------------------------------------------------------------------


class Sessions:
    """A session store in PraisonAI's style."""

    def __init__(self, *messages):
        self.messages = list(messages)
        self.cuts = []

    def get_messages(self, session_id):
        return list(self.messages)

    def revert_to_message(self, session_id, index):
        self.cuts.append(index)
        self.messages = self.messages[: index + 1]
        return True


class Clearable(Sessions):
    def clear_history(self, session_id):
        self.messages = []


def manager(project, storage, **options):
    return SessionCheckpointManager(str(project), enabled=True, storage_dir=str(storage), **options)


def test_14_disabled_does_nothing(project, storage):
    off = SessionCheckpointManager(str(project), storage_dir=str(storage))
    assert off.checkpoint_turn("x") is None and off.revert() is None and off.diff() is None and off.turns == []
    assert off.preview() == "" and off.dropped_message_count() is None and not storage.exists()
    assert "disabled" in off.render_diff(off.diff())


@pytest.mark.parametrize(
    ("config", "variable", "default", "enabled"),
    [
        (None, None, False, False),
        (None, None, True, True),
        ({"checkpoints": {"auto": True}}, None, False, True),
        ({"checkpoints": {"auto": False}}, None, True, False),
        ({"checkpoints": {"auto": True}}, "off", False, False),
        ({"checkpoints": {"auto": False}}, "YES", False, True),
        ({"checkpoints": "nonsense"}, None, True, True),
    ],
)
def test_14_the_environment_beats_the_config_beats_the_default(
    monkeypatch, project, config, variable, default, enabled
):
    if variable is not None:
        monkeypatch.setenv("PRAISONAI_CHECKPOINTS", variable)
    assert SessionCheckpointManager.from_config(str(project), config, default=default).enabled is enabled


def test_14_revert_walks_back(project, storage):
    turns = manager(project, storage)
    for text in ("v0", "v1", "v2"):
        (project / "a").write_text(text)
        assert turns.checkpoint_turn(f"about to change {text}")
    (project / "a").write_text("v3")
    assert turns.turns[0].message == "turn 1: about to change v0"
    assert turns.revert(2).turn == 2 and (project / "a").read_text() == "v1"
    assert turns.revert().turn == 1 and (project / "a").read_text() == "v0"
    assert turns.revert() is None and turns.revert(9) is None


def test_14_an_unchanged_turn_is_a_turn(project, storage):
    turns = manager(project, storage)
    assert len({turns.checkpoint_turn("a"), turns.checkpoint_turn("b")}) == 2


def test_14_the_conversation_goes_back_with_the_files(project, storage):
    store = Sessions("u1", "a1")
    turns = manager(project, storage, session_store=store, session_id="s")
    (project / "a").write_text("v1")
    turns.checkpoint_turn("next")
    (project / "a").write_text("v2")
    store.messages += ["u2", "a2", "a3"]
    assert turns.dropped_message_count() == 3
    assert "drop 3 conversation message(s)" in turns.preview() and "modified  a" in turns.preview()
    assert turns.revert().message_count == 2
    assert store.messages == ["u1", "a1"] and store.cuts == [1] and (project / "a").read_text() == "v1"
    with mulligan.open(project, store=turns._history.store_path) as ws:  # the same store, without the conversation
        ws.undo()
    assert (project / "a").read_text() == "v2"


def test_14_a_zero_boundary_clears_and_without_a_way_to_clear_messages_are_left(project, storage):
    for store, left in ((Clearable(), []), (Sessions(), ["u1"])):
        turns = manager(project, storage, session_store=store, session_id="s")
        (project / "a").write_text("v1")
        turns.checkpoint_turn("start")
        (project / "a").write_text("v2")
        store.messages.append("u1")
        assert turns.revert() and (project / "a").read_text() == "v1" and store.messages == left
        turns.close()


def test_14_diff_of_session_and_turn(project, storage):
    turns = manager(project, storage)
    turns.checkpoint_turn("start")
    (project / "a").write_text("1\n")
    turns.checkpoint_turn("second")
    (project / "sub").mkdir()
    (project / "sub/b").write_text("2\n")
    assert {file.path for file in turns.diff().files} == {"a", "sub/b"}
    assert {file.path for file in turns.diff(turn_only=True).files} == {"sub/b"}
    assert {file.path for file in turns.diff(path="b").files} == {"sub/b"}
    text = SessionCheckpointManager.render_diff(turns.diff())
    assert "Changes this session:" in text and "+2 / -0 across 2 file(s)" in text
    assert turns.render_diff(turns.diff(path="zzz"), "turn") == "No file changes this turn."


def test_14_a_turn_never_raises(project, storage):
    turns = manager(project, storage, conversation=["not json", {1, 2}])
    (project / "a").write_text("1")
    assert turns.checkpoint_turn("x") is None and "JSON" in turns.last_error
    gone = manager(project / "missing", storage)
    assert gone.checkpoint_turn("x") is None and "does not exist" in gone.last_error


def test_14_works_inside_a_running_loop(project, storage):
    async def inside():
        turns = manager(project, storage)
        (project / "a").write_text("1")
        assert turns.checkpoint_turn("x")
        (project / "a").write_text("2")
        assert turns.revert()

    run(inside())
    assert (project / "a").read_text() == "1"


def test_14_the_turns_of_an_earlier_process_are_found_again(project, storage):
    store = Sessions("u1")
    first = manager(project, storage, session_store=store, session_id="s")
    (project / "a").write_text("v1")
    first.checkpoint_turn("one")
    first.close()
    (project / "a").write_text("v2")
    store.messages.append("a1")
    second = manager(project, storage, session_store=store, session_id="s")
    assert second.checkpoint_turn("two") and [turn.turn for turn in second.turns] == [1, 2]
    assert second.revert(2).turn == 1
    assert (project / "a").read_text() == "v1" and store.messages == ["u1"]


def test_14_a_conversation_that_fails_to_follow_is_known_and_finished_later(project, storage):
    class Stubborn(Sessions):
        def revert_to_message(self, session_id, index):
            raise RuntimeError("locked")

    store = Stubborn("u1")
    turns = manager(project, storage, session_store=store, session_id="s")
    (project / "a").write_text("v1")
    turns.checkpoint_turn("one")
    (project / "a").write_text("v2")
    store.messages.append("a1")
    assert turns.revert().turn == 1 and turns.last_error == "locked"
    assert (project / "a").read_text() == "v1" and store.messages == ["u1", "a1"]
    turns.close()
    willing = Sessions(*store.messages)
    later = manager(project, storage, session_store=willing, session_id="s")
    later.checkpoint_turn("next")
    assert "match again" in later.recovered and willing.messages == ["u1"]


# -- 15 to 28 -----------------------------------------------------------------------------------


def test_15_uninitialized(project, storage):
    service = CheckpointService(str(project), str(storage))
    for result in (run(service.save("x")), run(service.restore("x")), run(service.rewind()), run(service.delete("x"))):
        assert (result.success, result.error) == (False, "Service not initialized")
    assert run(service.list_checkpoints()) == run(service.list()) == []
    assert run(service.get_checkpoint("x")) is run(service.get("x")) is run(service.get_checkpoint_by_step(1)) is None
    diff = run(service.diff())
    assert (diff.from_checkpoint, diff.to_checkpoint, diff.files) == ("", "", [])
    run(service.cleanup())
    assert not storage.exists()


def test_16_disabled_or_missing(project, storage, tmp_path):
    assert run(CheckpointService(str(project), str(storage), enabled=False).initialize()) is False
    assert run(CheckpointService(str(tmp_path / "missing"), str(storage)).initialize()) is False
    assert not storage.exists()
    with pytest.raises(TypeError, match="workspace_dir"):
        CheckpointService()


def test_17_additions_deletions_and_swaps_of_file_and_directory(service, project):
    (project / "gone").write_text("g")
    (project / "swap").write_text("file")
    (project / "empty").mkdir()
    (project / "mode").write_text("m")
    (project / "mode").chmod(0o600)
    before = saved(service, project / "other" / "x", "x")
    (project / "gone").unlink()
    (project / "swap").unlink()
    (project / "swap").mkdir()
    (project / "swap/inside").write_text("i")
    (project / "other/x").unlink()
    (project / "other").rmdir()
    (project / "other").write_text("now a file")
    (project / "empty").rmdir()
    (project / "mode").chmod(0o644)
    (project / "added").write_text("a")
    assert run(service.restore(before)).success
    assert tree(project) == {"gone": b"g", "swap": b"file", "other/x": b"x", "mode": b"m"}
    assert (project / "empty").is_dir() and (project / "mode").stat().st_mode & 0o777 == 0o600


def test_18_ignored_and_excluded_files_are_neither_captured_nor_removed(project, storage):
    (project / ".gitignore").write_text("ignored/\n")
    service = make(project, storage, exclude_patterns=["*.log", "cache"])
    before = saved(service, project / "a", "1")
    for name in ("ignored/x", "run.log", "deep/run.log", "cache/y"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("mine")
    result = saved(service, project / "a", "2")
    assert result.checkpoint.files_changed == ["a"]
    assert run(service.restore(before)).success
    for name in ("ignored/x", "run.log", "deep/run.log", "cache/y"):
        assert (project / name).read_text() == "mine"


def test_19_the_projects_own_repository_is_untouched(project, storage):
    def git(*words):
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)

    git("init", "-q")
    git("config", "user.email", "a@b")
    git("config", "user.name", "a")
    (project / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "one")
    before = tree(project / ".git")
    service = make(project, storage)
    first = saved(service, project / "a", "2")
    saved(service, project / "b", "3")
    run(service.restore(first))
    run(service.diff())
    assert tree(project / ".git") == before


def test_20_git_variables_do_not_leak(monkeypatch, project, storage, tmp_path):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    service = make(project, storage)
    first = saved(service, project / "a", "1")
    saved(service, project / "a", "2")
    assert run(service.restore(first)).success and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("bad", ["deadbeef", "", "--hard", "HEAD", "latest", "@", "first", "../x", "é", 7, None, b"x"])
def test_21_a_bad_id_touches_nothing(service, project, bad):
    saved(service, project / "a", "1", "first")
    (project / "untracked").write_text("precious")
    (project / "a").write_text("2")
    errors = []
    service.on(CheckpointEvent.ERROR, errors.append)
    before = tree(project)
    for result in (run(service.restore(bad)), run(service.delete(bad))):
        assert not result.success and result.error
    assert tree(project) == before and len(errors) == 2 and set(errors[0]) == {"error"}
    assert run(service.get(bad)) is None
    if bad is not None:
        assert run(service.diff(bad)).error


def test_21_a_failed_result_as_an_id_says_what_failed(service, project, storage, tmp_path):
    other = CheckpointService(str(project), str(storage))
    failed = run(other.save("x"))
    assert str(failed) == "" and not failed
    result = run(service.restore(failed))
    assert result.error == "That checkpoint was never made: Service not initialized. Nothing was changed."


def test_22_a_short_id_works_and_the_whole_one_comes_back(service, project):
    first = saved(service, project / "a", "1")
    saved(service, project / "a", "2")
    result = run(service.restore(first.checkpoint.short_id))
    assert result.success and result.checkpoint.id == first.checkpoint.id and len(result.checkpoint.id) > 8
    assert run(service.get(first.checkpoint.id[:6])).id == first.checkpoint.id


def test_23_the_documents_forms(project):
    (project / "main.py").write_text("one\n")

    async def example():
        config = CheckpointConfig(auto_checkpoint=True, max_checkpoints=50, exclude_patterns=["*.log"])
        service = CheckpointService(workspace_dir=str(project), config=config)
        seen = []
        service.on(CheckpointEvent.CREATED, lambda checkpoint: seen.append(checkpoint.id))
        await service.initialize()
        cp1 = await service.save("Before refactoring")
        (project / "main.py").write_text("two\n")
        (project / "new.py").write_text("n\n")
        cp2 = await service.save("After refactoring")
        diff = await service.diff(cp1, cp2)
        assert (diff.added_files, diff.modified_files, diff.deleted_files) == (["new.py"], ["main.py"], [])
        assert (diff.from_id, diff.to_id) == (cp1, cp2) and "+two" in diff.diff_content
        assert [each.id for each in await service.list()][:2] == [cp2, cp1] == seen[::-1]
        details = await service.get(cp2)
        assert (details.message, details.files_changed) == ("After refactoring", ["main.py", "new.py"])
        assert (details.insertions, details.deletions) == (2, 1)
        await service.restore(cp1)
        assert (project / "main.py").read_text() == "one\n" and not (project / "new.py").exists()
        assert await service.delete(cp2)
        assert await service.get(cp2) is None and cp2 not in [each.id for each in await service.list()]
        assert {cp1: 1}[str(cp1)] == 1 and f"{cp1}" == cp1.checkpoint.id and cp1[:8] == cp1.checkpoint.short_id
        assert json.loads(json.dumps({"id": cp1}))["id"] == cp1
        assert pickle.loads(pickle.dumps(cp1)).checkpoint == cp1.checkpoint
        await service.cleanup()

    run(example())


def test_23_without_a_storage_directory_mulligan_sees_the_same_checkpoints(project):
    service = CheckpointService(project)
    run(service.initialize())
    first = saved(service, project / "a", "1", "Before refactoring")
    saved(service, project / "a", "2", "After")
    with mulligan.open(project) as ws:
        assert [each.name for each in ws.log()] == ["After", "Before refactoring", "Initial checkpoint"]
        assert ws.store_path == service.git_dir == service.checkpoint_dir
        run(service.restore(first))
        ws.undo()
        assert (project / "a").read_text() == "2"
        own = ws.save("by hand")
    assert run(service.restore(own.id)).success, "any checkpoint can be restored by its id"
    assert own.id not in [each.id for each in run(service.list())]
    assert run(service.delete_all()) is True
    with mulligan.open(project) as ws:
        assert "by hand" in [each.name for each in ws.log()], "delete_all leaves what others saved"


def test_23_a_save_that_somebody_else_made_is_no_reason_to_refuse(service, project):
    saved(service, project / "a", "1")
    (project / "a").write_text("2")
    with mulligan.open(project, store=service.git_dir) as ws:
        ws.save("by a hook")
    assert run(service.save("mine")).success
    assert not run(service.save("again")).success


def test_24_max_checkpoints_prunes(project, storage):
    service, pruned = make(project, storage, max_checkpoints=3), []
    service.on(CheckpointEvent.CHECKPOINTS_PRUNED, pruned.append)
    ids = [str(saved(service, project / "a", os.urandom(5000).hex(), f"m{number}")) for number in range(5)]
    assert pruned == [{"action": "pruned", "removed_count": 1}] * 2
    assert [each.id for each in run(service.list())] == ids[:1:-1]
    assert run(service.get(ids[0])) is None
    objects = f"{service.git_dir}/objects"
    before = size(objects)
    run(service.cleanup())
    assert size(objects) < before - 5000, "the disk is freed"
    assert run(service.initialize()) and not run(service.restore(ids[0])).success
    with mulligan.open(project, store=service.git_dir) as ws:
        assert [each.name for each in ws.log(match={"dialect": "praisonai"})] == ["m4", "m3", "m2"]
    assert run(service.restore(ids[2])).success


def size(place) -> int:
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(place) for name in names)


def test_24_a_long_session_does_not_grow_without_end(monkeypatch, project, storage):
    monkeypatch.setattr("mulligan.dialects.praisonai.history.GRACE", 3)
    service, pruned = make(project, storage, max_checkpoints=2), []
    service.on(CheckpointEvent.PRUNED, pruned.append)
    for number in range(12):
        saved(service, project / "a", str(number))
    with mulligan.open(project, store=service.git_dir) as ws:
        assert len(ws.log()) == 5
    assert len(run(service.list())) == 2 and [each["removed_count"] for each in pruned] == [1] * 10


def test_24_zero_keeps_all(project, storage):
    service = make(project, storage, max_checkpoints=0)
    for number in range(4):
        saved(service, project / "a", str(number))
    assert len(run(service.list())) == 5


class Done:
    """What a command came to."""

    def __init__(self, returncode, output):
        self.returncode, self.stdout, self.stderr = returncode, output.out, output.err


@pytest.fixture
def command(capfd, monkeypatch):
    def call(directory, *words):
        monkeypatch.chdir(directory)
        return Done(main(["checkpoint", *words]), capfd.readouterr())

    return call


def test_25_the_command_line(command, project):
    assert command(project, "list").stdout == "No checkpoints found\n"
    for words in (["restore", "last"], ["restore", "zzz"], ["restore"], ["rewind"]):
        assert command(project, *words).returncode == 1
    (project / "a").write_text("1")
    done = command(project, "save", "before | refactor")
    assert done.returncode == 0 and done.stdout.startswith("✓ Checkpoint saved: ")
    first = done.stdout.split()[3]
    assert done.stdout.splitlines()[1] == "Message: before | refactor" and len(first) == 8
    again = command(project, "save", "again")
    assert again.returncode == 1 and "Failed to save checkpoint: No changes to checkpoint" in again.stderr
    assert command(project, "save", "again", "--allow-empty").returncode == 0
    (project / "a").write_text("2")
    assert "[step-2] two" in command(project, "save", "two", "--step", "2").stdout
    rows = command(project, "list").stdout.splitlines()
    assert rows[0].split() == ["ID", "Message", "Timestamp"] and len(rows) == 4
    assert len(command(project, "list", "-n", "1").stdout.splitlines()) == 2
    assert command(project, "diff").stdout == "No changes\n"
    assert "modified  a" in command(project, "diff", first).stdout
    assert command(project, "diff", "zzz").returncode == 0
    back = command(project, "restore", first[:6])
    assert back.stdout == f"✓ Restored to checkpoint: {first}\n" and (project / "a").read_text() == "1"
    assert command(project, "restore", "--step", "2").returncode == 0 and (project / "a").read_text() == "2"
    assert command(project, "restore", first, "--step", "2").returncode == 1
    assert command(project, "restore", "--step", "9").returncode == 1
    assert command(project, "rewind", "2").stdout == f"✓ Rewound 2 checkpoint(s) to: {first}\n"
    assert command(project, "rewind").returncode == 1 and command(project, "rewind", "0").returncode == 2
    assert command(project, "restore", "latest").returncode == 0 and (project / "a").read_text() == "2"


def test_25_delete_never_without_a_word(command, project):
    (project / "a").write_text("1")
    first = command(project, "save", "one").stdout.split()[3]
    (project / "a").write_text("2")
    command(project, "save", "two")
    for words in (["delete"], ["delete", first], ["delete", "--all"]):
        assert command(project, *words).returncode == 1
    assert command(project, "delete", first, "--all", "-y").returncode == 2
    assert command(project, "delete", "zzz", "-y").returncode == 1
    assert len(command(project, "list").stdout.splitlines()) == 3
    assert command(project, "delete", first, "-y").stdout == f"✓ Checkpoint deleted: {first}\n"
    assert len(command(project, "list").stdout.splitlines()) == 2
    assert command(project, "delete", "-y").stdout == "✓ All checkpoints deleted\n"
    assert command(project, "list").stdout == "No checkpoints found\n" and (project / "a").read_text() == "2"


@pytest.mark.parametrize(("answer", "said", "left"), [(False, "Cancelled", 1), (True, "✓ All checkpoints deleted", 0)])
def test_25_delete_asks_somebody_who_is_there(command, project, monkeypatch, answer, said, left):
    (project / "a").write_text("1")
    command(project, "save", "one")
    asked = []
    monkeypatch.setattr(Context, "interactive", True)
    monkeypatch.setattr(Context, "ask", lambda self, question: asked.append(question) or answer)
    done = command(project, "delete")
    assert (done.returncode, done.stdout.strip(), asked) == (0, said, ["Delete all checkpoints?"])
    assert len(json.loads(command(project, "list", "--json").stdout)["checkpoints"]) == left


def test_25_another_workspace_and_json(command, project, tmp_path):
    (project / "a").write_text("1")
    done = command(tmp_path, "save", "x", "-w", "project", "--json")
    made = json.loads(done.stdout)["checkpoint"]
    assert made["message"] == "x" and made["files"] == ["a"]
    assert json.loads(command(project, "list", "--json").stdout)["checkpoints"][0]["id"] == made["id"]


def test_26_reopen_in_a_new_process(service, project, storage):
    first = saved(service, project / "a", "1", "one")
    saved(service, project / "a", "2", "two", step=4)
    run(service.cleanup())
    program = """
import asyncio, sys
from mulligan.dialects.praisonai import CheckpointService
async def main(project, storage, first):
    service = CheckpointService(project, storage)
    await service.initialize()
    print([each.message for each in await service.list()], (await service.get(first)).message)
    print((await service.get_checkpoint_by_step(4)).step, (await service.restore(first)).success)
asyncio.run(main(*sys.argv[1:]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, project, storage, first],
        env=plain_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['[step-4] two', 'one', 'Initial checkpoint'] one\n4 True\n"
    assert (project / "a").read_text() == "1"


@pytest.mark.parametrize(
    "message",
    ["a|b|c", "one\ntwo\n\nthree", "ünïcode ✓ 日本", "", "  ", "-m x", "\x1b[31m", "x" * 5000, "nul\0", "\udcff"],
)
def test_27_messages_round_trip(service, project, storage, message):
    saved(service, project / "a", "1", message)
    assert run(service.list())[0].message == message
    again = make(project, storage)
    assert run(again.list())[0].message == message and len(run(again.list())) == 2


def test_28_storage_inside_the_workspace(project):
    storage = project / ".checkpoints"
    service = make(project, storage)
    first = saved(service, project / "a", "1")
    (storage / "of-another-workspace").write_text("x")
    second = saved(service, project / "a", "2")
    assert second.checkpoint.files_changed == ["a"]
    assert run(service.restore(first)).success and os.path.isdir(service.git_dir)
    assert (storage / "of-another-workspace").exists()
    assert run(service.restore(second)).success and (project / "a").read_text() == "2"


# -- the worst defects of the original, mended ----------------------------------------------------


def test_a_rewind_past_the_first_checkpoint_wipes_nothing(service, project):
    """The original lands on its empty first commit and deletes every file, with success."""
    saved(service, project / "a", "1", "first")
    before = tree(project)
    result = run(service.rewind(1))
    assert not result.success and result.error.startswith("Cannot rewind 1 step(s)") and tree(project) == before


def test_the_initial_checkpoint_is_the_workspace_as_it_was(project, storage):
    (project / "keep").write_text("k")
    service = make(project, storage)
    saved(service, project / "new", "n", "first")
    result = run(service.rewind(1))
    assert result.success and result.checkpoint.message == "Initial checkpoint" and tree(project) == {"keep": b"k"}
    assert run(service.rewind(1)).error == "Cannot rewind 1 step(s): only 1 checkpoint(s) available"
    with mulligan.open(project, store=service.git_dir) as ws:
        ws.undo()
    assert tree(project) == {"keep": b"k", "new": b"n"}


def test_a_restore_keeps_unsaved_work_and_hides_no_checkpoint(service, project):
    first = saved(service, project / "a", "1")
    second = saved(service, project / "a", "2")
    (project / "a").write_text("unsaved")
    (project / "untracked").write_text("u")
    result = run(service.restore(first))
    assert {each.id for each in run(service.list())} >= {first, second}
    assert run(service.restore(result.report.undo)).success, "what was there before has an id of its own"
    assert tree(project) == {"a": b"unsaved", "untracked": b"u"}


def test_relative_and_linked_workspaces_share_one_store(monkeypatch, project, storage, tmp_path):
    """The original cannot initialise a relative directory, and a slash at the end makes another store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(project)
    ways = ["project", "./project/", str(project), f"{project}/", str(tmp_path / "link")]
    services = [CheckpointService(way, str(storage)) for way in ways]
    assert len({service.checkpoint_dir for service in services}) == 1
    monkeypatch.chdir("/")
    assert run(services[0].initialize())
    saved(services[0], project / "a", "1", "one")
    assert run(services[4].initialize()) and run(services[4].list())[0].message == "one"


def test_diff_says_what_happened_to_each_file(service, project):
    (project / "append").write_text("1\n")
    (project / "shrink").write_text("1\n2\n")
    (project / "dead").write_text("1\n")
    (project / "moved").write_text("a\nb\nc\nd\n")
    saved(service, project / "bin", "x")
    (project / "append").write_text("1\n2\n")
    (project / "shrink").write_text("1\n")
    (project / "dead").unlink()
    (project / "moved").rename(project / "ünïcode name")
    (project / "empty").write_text("")
    (project / "bin").write_bytes(b"\0\1")
    diff = run(service.diff())
    assert {file.path: (file.status, file.additions, file.deletions) for file in diff.files} == {
        "append": ("modified", 1, 0),
        "shrink": ("modified", 0, 1),
        "dead": ("deleted", 0, 1),
        "moved": ("deleted", 0, 4),
        "ünïcode name": ("added", 4, 0),
        "empty": ("added", 0, 0),
        "bin": ("modified", 0, 0),
    }
    assert diff.total_additions == 5 and diff.total_deletions == 6
    assert run(service.save("x")).success, "a diff changes nothing"
    assert run(service.diff()).files == []


def test_a_nested_repository_is_captured_with_its_files(service, project):
    (project / "inner").mkdir()
    subprocess.run(["git", "init", "-q", "inner"], cwd=project, check=True)
    first = saved(service, project / "inner" / "x", "1")
    (project / "inner/x").write_text("2")
    assert run(service.restore(first)).success and (project / "inner/x").read_text() == "1"


def test_bytes_are_exact_whatever_git_attributes_say(service, project):
    (project / ".gitattributes").write_text("* text eol=lf\n")
    (project / "crlf").write_bytes(b"a\r\nb\r\n")
    first = run(service.save("x"))
    (project / "crlf").write_bytes(b"")
    run(service.restore(first))
    assert (project / "crlf").read_bytes() == b"a\r\nb\r\n"


def test_a_hostile_git_configuration_breaks_nothing(private_home, project, storage):
    (private_home / ".gitconfig").write_text(
        "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nonexistent\n[gpg]\n\tprogram = /bin/false\n"
    )
    assert saved(make(project, storage), project / "a", "1")


def test_the_old_shadow_repository_is_left_alone(project, storage):
    config = CheckpointConfig(str(project), str(storage))
    old = f"{config.get_checkpoint_dir()}/.git"
    os.makedirs(old)
    service = make(project, storage)
    saved(service, project / "a", "1")
    assert run(service.delete_all()) and os.path.isdir(old)


# -- events and automatic checkpoints -------------------------------------------------------------


def test_handlers_may_be_coroutines_may_raise_and_may_be_taken_off(service, project, caplog):
    seen = []

    async def later(checkpoint):
        await asyncio.sleep(0)
        seen.append(("async", checkpoint.message))

    def broken(checkpoint):
        raise RuntimeError("handler's own")

    def plain(checkpoint):
        seen.append(("sync", checkpoint.message))

    for handler in (broken, later, plain):
        service.on("created", handler)
    saved(service, project / "a", "1", "one")
    assert seen == [("async", "one"), ("sync", "one")] and "handler's own" in caplog.text
    for handler in (later, plain, plain):
        service.off(CheckpointEvent.CHECKPOINT_CREATED, handler)
    saved(service, project / "a", "2", "two")
    assert len(seen) == 2


def test_every_event_has_its_payload(service, project):
    seen = {}
    for event in CheckpointEvent:
        service.on(event, lambda data, event=event: seen.setdefault(event.name, data))
    first = saved(service, project / "a", "1", "one")
    run(service.restore(first))
    run(service.restore("zzz"))
    run(service.delete(first))
    assert set(seen) == {"CHECKPOINT_CREATED", "CHECKPOINT_RESTORED", "CHECKPOINT_DELETED", "ERROR"}
    assert seen["CHECKPOINT_RESTORED"].id == seen["CHECKPOINT_DELETED"].id == first


def test_a_handler_may_use_the_service(service, project):
    async def again(checkpoint):
        if checkpoint.message == "one":
            await service.save("from the handler", allow_empty=True)

    service.on(CheckpointEvent.CREATED, again)
    saved(service, project / "a", "1", "one")
    assert run(service.list())[0].message == "from the handler"


def test_auto_checkpoint_saves_before_changes(project, storage):
    service = CheckpointService(str(project), str(storage))
    (project / "a").write_text("mine")

    @service.tool
    def write_file(text):
        """Writes."""
        (project / "a").write_text(text)
        return text

    @service.tool
    async def edit_file(text):
        (project / "a").write_text(text)

    assert write_file("agent 1") == "agent 1" and write_file.__doc__ == "Writes."
    run(edit_file("agent 2"))
    assert [each.message for each in run(service.list())] == [
        "Before edit_file", "Before write_file", "Initial checkpoint",
    ]  # fmt: skip
    assert run(service.rewind(1)).success and (project / "a").read_text() == "mine"


def test_auto_checkpoint_off_saves_nothing(project, storage):
    service = CheckpointService(str(project), str(storage), auto_checkpoint=False)
    service.tool(lambda: None)()
    service.before_tool("write_file", {"path": "a"})
    assert not run(service.before_change()).success and not storage.exists()


def test_only_tools_that_can_change_files_are_wrapped(service, project):
    def read_file():
        return 1

    def write_file():
        return 2

    tools = service.tools([read_file, write_file])
    assert tools[0] is read_file and [tool() for tool in tools] == [1, 2]
    service.before_tool("read_file", {"path": "a"})
    (project / "a").write_text("1")
    service.before_tool("read_file", {"path": "a"})
    assert len(run(service.list())) == 1
    service.before_tool("write_file", {"path": "a"})
    assert run(service.list())[0].message == "Before write_file"


def test_an_agents_loop_saves_through_the_service(project, storage):
    async def work():
        service = CheckpointService(str(project), str(storage))
        loop = service.agent_loop()
        (project / "a").write_text("1")
        async with loop.tool("write_file", {"path": "a"}) as before:
            assert before.checkpoint.message.startswith("before write_file")
            (project / "a").write_text("2")
        async with loop.tool("read_file", {"path": "a"}) as before:
            assert not before.saved
        service.config.auto_checkpoint = False
        async with loop.tool("write_file", {"path": "a"}) as before:
            assert not before.saved
        return len(await service.list())

    assert run(work()) == 2


@pytest.mark.parametrize("wrong", [None, 7, b"bytes"])
def test_a_message_that_is_no_text_is_a_failure(service, project, wrong):
    (project / "a").write_text("1")
    assert "text" in run(service.save(wrong)).error and not run(service.save("x", step="1")).success


def test_changing_takes_an_exception_back_if_asked(service, project):
    (project / "a").write_text("1")

    async def work(on_error):
        async with service.changing("migration", on_error=on_error) as before:
            assert before == (await service.list())[0].id
            (project / "a").write_text("broken")
            raise RuntimeError("no")

    for on_error, content in (("restore", "1"), ("keep", "broken")):
        with pytest.raises(RuntimeError):
            run(work(on_error))
        assert (project / "a").read_text() == content


def test_concurrent_saves_and_a_second_service(service, project, storage):
    async def many():
        other = CheckpointService(str(project), str(storage))
        await other.initialize()
        results = await asyncio.gather(
            *(each.save(f"m{number}", allow_empty=True) for number in range(5) for each in (service, other))
        )
        assert all(results) and len(set(results)) == 10
        await other.cleanup()

    run(many())
    assert len(run(service.list())) == 11


# -- files and conversation -----------------------------------------------------------------------


def test_files_and_a_list_of_messages_go_back_together(project, storage):
    messages = [{"role": "user", "content": "hi"}]
    held = messages[0]
    service = make(project, storage, conversation=messages)
    first = saved(service, project / "a", "1")
    messages.append({"role": "assistant", "content": "done"})
    (project / "a").write_text("2")
    result = run(service.restore(first))
    assert result.success and messages == [{"role": "user", "content": "hi"}] and messages[0] is held
    assert run(service.restore(result.report.undo)).success
    assert len(messages) == 2 and (project / "a").read_text() == "2"


def test_a_conversation_that_cannot_be_taken_stops_the_restore_before_the_files(project, storage):
    service = make(project, storage, conversation=[])
    first = saved(service, project / "a", "1")
    (project / "a").write_text("2")

    class Unwilling:
        def capture(self):
            return []

        def stage(self, value):
            raise mulligan.UserError("not now")

    service.attach(Unwilling())
    assert run(service.restore(first)).error == "not now" and (project / "a").read_text() == "2"
