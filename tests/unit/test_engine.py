"""Every verb of the public contract, through the door a caller uses: `mulligan.open`."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json

import pytest

import mulligan
from checker import judge
from tools import git
from tree import contents, put, snapshot

ERRORS = (
    "UnknownCheckpoint PlanStale NothingToUndo NothingToRedo StoreDamaged Busy Unprotectable UnsafePath DurabilityLost"
)


def test_opening_writes_nothing(project, store, private_home):
    before = snapshot(private_home)
    ws = mulligan.open(project, store=store)
    assert ws.log() == []
    assert not store.exists()
    mulligan.open(project)
    assert snapshot(private_home) == before
    assert snapshot(project) == {}


def test_default_store_is_outside_and_private(project, private_home):
    put(project, "a", "1")
    mulligan.open(project).save("one")
    below = snapshot(private_home / "xdg-state")
    assert any(path.endswith("timeline.db") for path in below)
    assert {entry.mode for entry in below.values() if entry.kind == "file"} == {0o600}
    assert {entry.mode for entry in below.values() if entry.kind == "dir"} == {0o700}
    assert list(snapshot(project)) == ["a"]


def test_save_returns_a_frozen_checkpoint_with_every_field(ws, project):
    put(project, "a.txt", "1\n")
    cp = ws.save("one", description="why", context={"n": 1}, state={"k": ["v"]}, metadata={"m": {"x": None}})
    assert (cp.name, cp.description, cp.kind, cp.parent, cp.complete) == ("one", "why", "manual", None, True)
    assert (cp.context, cp.state, cp.metadata) == ({"n": 1}, {"k": ["v"]}, {"m": {"x": None}})
    assert cp.created_at.tzinfo is not None
    assert abs(dt.datetime.now(dt.UTC) - cp.created_at) < dt.timedelta(minutes=5)
    assert cp.files_changed == ("a.txt",)
    assert cp.not_captured == ()
    assert cp.git is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        cp.name = "other"
    as_dict = json.loads(json.dumps(cp.to_dict()))
    assert as_dict["id"] == cp.id
    assert dt.datetime.fromisoformat(as_dict["created_at"]) == cp.created_at


def test_what_was_saved_is_read_back_unchanged_by_another_workspace_object(ws, project, store):
    put(project, "a.txt", "1\n")
    cp = ws.save("ünï\n😀", description="a\nb", context={"n": 1}, state={"k": ["v"]}, metadata={"m": 1.5})
    again = mulligan.open(project, store=store)
    assert again.get(cp.id) == cp
    assert again.log() == [cp]


def test_a_checkpoint_without_a_name_still_answers_to_its_id(ws, project):
    put(project, "a.txt", "1\n")
    cp = ws.save()
    assert isinstance(cp.name, str)
    assert ws.get(cp.id) == cp


def test_parent_is_the_position_and_files_changed_is_against_it(ws, project):
    put(project, "a", "1")
    one = ws.save("one")
    put(project, "a", "2")
    put(project, "d/b", "1")
    two = ws.save("two")
    assert two.parent == one.id
    assert sorted(two.files_changed) == ["a", "d/b"]
    ws.restore("one")
    put(project, "c", "1")
    three = ws.save("three")
    assert three.parent == one.id
    assert three.files_changed == ("c",)


def test_nothing_changed_after_an_undo_whatever_became_of_the_memory(ws, project, store):
    """What is remembered of the workspace is disposable: without it, the usual permissions are those of the position."""
    put(project, "a", "1")
    (project / "a").chmod(0o600)
    ws.save("one")
    for name in ("b", "c", "d"):
        put(project, name, "1")
        (project / name).chmod(0o644)
    ws.save("two")
    put(project, "b", "2")
    ws.save("three")
    ws.undo()
    ws.close()
    (store / "cache").unlink()
    assert ws.save(if_changed=True, context={"saved_by": "mcp"}) is None


def test_if_changed_saves_only_what_changed_since_the_position(ws, project):
    put(project, "a", "1")
    first = ws.save(if_changed=True)
    assert first is not None
    assert ws.save(if_changed=True) is None
    put(project, "a", "2")
    second = ws.save(if_changed=True)
    assert second is not None and second.id != first.id
    assert ws.save(if_changed=True) is None
    ws.restore(first)
    assert ws.save(if_changed=True) is None
    assert [cp.id for cp in ws.log() if cp.kind != "safety"] == [second.id, first.id]


@pytest.mark.parametrize("what", ["mode", "empty directory", "link target", "gone"])
def test_every_kind_of_change_counts_as_a_change(ws, project, what):
    put(project, "a", "1")
    (project / "link").symlink_to("a")
    ws.save("one")
    if what == "mode":
        (project / "a").chmod(0o600)
    elif what == "empty directory":
        (project / "empty").mkdir()
    elif what == "link target":
        (project / "link").unlink()
        (project / "link").symlink_to("b")
    else:
        (project / "a").unlink()
    changed = contents(project)
    assert ws.save(if_changed=True) is not None
    ws.restore("one")
    assert contents(project) != changed
    ws.restore("latest")
    assert contents(project) == changed


def test_a_save_without_a_change_is_a_checkpoint_of_its_own(ws, project):
    put(project, "a", "1")
    one, two = ws.save("same"), ws.save("same")
    assert one.id != two.id
    assert two.files_changed == ()
    diff = ws.diff(one, two)
    assert (diff.added, diff.modified, diff.deleted, diff.renamed, diff.patch) == ([], [], [], [], "")
    assert ws.get("same").id == two.id


def test_log_is_newest_first_and_filters_by_kind_limit_and_path(ws, project):
    put(project, "a", "1")
    one = ws.save("one")
    put(project, "b", "1")
    two = ws.save("two", kind="automatic")
    put(project, "a", "2")
    three = ws.save("three")
    assert [cp.id for cp in ws.log()] == [three.id, two.id, one.id]
    assert [cp.id for cp in ws.log(limit=2)] == [three.id, two.id]
    assert [cp.id for cp in ws.log(kind="automatic")] == [two.id]
    assert [cp.id for cp in ws.log(kind="manual", limit=1)] == [three.id]
    assert [cp.id for cp in ws.log(path="a")] == [three.id, one.id]
    assert [cp.id for cp in ws.log(path="b")] == [two.id]
    assert ws.log(path="nowhere") == []


def test_a_restore_hides_no_checkpoint(ws, project):
    put(project, "a", "1")
    ids = {ws.save("one").id}
    put(project, "a", "2")
    ids.add(ws.save("two").id)
    ws.restore("one")
    assert ids <= {cp.id for cp in ws.log()}


def test_get_tries_checkpoint_id_word_name_prefix_in_that_order(ws, project):
    saved = []
    for number in range(4):
        put(project, "a", str(number))
        saved.append(ws.save("twice" if number in {1, 2} else f"name{number}"))
    one, two, three, four = saved
    assert ws.get(two) == two
    assert ws.get(two.id) == two
    assert ws.get("twice") == three
    assert ws.get("@") == four
    assert ws.get("latest") == four
    assert ws.get("latest~2") == two
    assert ws.get(one.id[:12]) == one
    put(project, "a", "named after another's id")
    named = ws.save(one.id)
    assert ws.get(one.id) == one
    assert named.name == one.id
    with pytest.raises(mulligan.MulliganError, match="reserved"):
        ws.save("latest")
    assert ws.get("latest") == named
    prefix = ws.save(one.id[:10])
    assert ws.get(one.id[:10]) == prefix


def test_latest_skips_safety_and_the_position_is_where_the_restore_went(ws, project):
    put(project, "a", "1")
    one = ws.save("one")
    put(project, "a", "2")
    two = ws.save("two")
    put(project, "a", "unsaved")
    report = ws.restore("one")
    assert ws.get("latest") == two
    assert ws.get("@") == one
    assert ws.get(report.undo).kind == "safety"
    assert ws.cat(report.undo, "a") == b"unsaved"


@pytest.mark.parametrize("ref", ["nope", "", "0" * 40, "latest~99", "-x", "--help", "../../etc", "@~", "\n", "\0"])
def test_unknown_references_are_key_errors_and_change_nothing(ws, project, ref):
    put(project, "a", "1")
    ws.save("one")
    put(project, "b", "2")
    before = snapshot(project)
    for verb in (ws.get, ws.restore, ws.plan, ws.delete, ws.diff):
        with pytest.raises(mulligan.UnknownCheckpoint) as caught:
            verb(ref)
        assert isinstance(caught.value, KeyError)
        assert isinstance(caught.value, mulligan.MulliganError)
    assert snapshot(project) == before
    assert [cp.name for cp in ws.log()] == ["one"]


def test_verbs_that_need_a_checkpoint_say_so_where_nothing_was_saved(ws, project):
    put(project, "a", "1")
    before = snapshot(project)
    for act in (lambda: ws.restore("latest"), lambda: ws.get("@"), ws.undo, ws.redo, lambda: ws.cat("@", "a")):
        with pytest.raises(mulligan.MulliganError):
            act()
    assert snapshot(project) == before


def test_diff_names_added_modified_deleted_and_renamed_once_each(ws, project):
    put(project, "kept", "k\n")
    put(project, "changed", "1\n")
    put(project, "gone", "g\n")
    put(project, "old/place", "a long enough content to be found again\n" * 9)
    ws.save("one")
    put(project, "changed", "2\n")
    (project / "gone").unlink()
    (project / "new").mkdir()
    (project / "old/place").rename(project / "new/place")
    put(project, "fresh", "f\n")
    diff = ws.diff()
    assert (diff.added, diff.modified, diff.deleted) == (["fresh"], ["changed"], ["gone"])
    assert [tuple(pair) for pair in diff.renamed] == [("old/place", "new/place")]
    assert "-1\n+2\n" in diff.patch
    assert diff.stat


def test_diff_defaults_to_position_against_workspace_and_takes_two_references(ws, project):
    put(project, "a", "1\n")
    one = ws.save("one")
    put(project, "b", "1\n")
    ws.save("two")
    assert ws.diff().patch == ""
    assert ws.diff("one", "two").added == ["b"]
    assert ws.diff("two", "one").deleted == ["b"]
    assert ws.diff(one).added == ["b"]
    put(project, "a", "2\n")
    assert (ws.diff().modified, ws.diff().added) == (["a"], [])


def test_a_text_patch_is_one_that_git_applies(ws, project, tmp_path):
    put(project, "a", "1\n2\n3\n")
    put(project, "no newline", "x")
    put(project, "gone", "g\n")
    ws.save("one")
    before = tmp_path / "copy"
    ws.restore("one")
    for path, node in contents(project).items():
        put(before, path, node.content)
    put(project, "a", "1\ntwo\n3\n4")
    put(project, "no newline", "y\nz")
    put(project, "new/file", "n\n")
    (project / "gone").unlink()
    git("init", "-q", cwd=before)
    git("apply", "-p1", "-", cwd=before, stdin=ws.diff().patch.encode())
    assert contents(before) == contents(project)


def test_cat_gives_the_bytes_and_git_show_the_same(ws, project, store):
    content = bytes(range(256)) * 40
    put(project, "dir/odd name", content)
    cp = ws.save("one")
    assert ws.cat("one", "dir/odd name") == content
    assert git(f"--git-dir={store}", "show", f"{cp.commit}:files/dir/odd name") == content
    for wrong in ("nowhere", "dir", "../x", "/etc/passwd", ""):
        with pytest.raises((mulligan.MulliganError, KeyError)):
            ws.cat("one", wrong)


def test_plan_says_what_would_happen_and_changes_nothing(ws, project):
    put(project, "changed", "1")
    put(project, "gone", "g")
    ws.save("one")
    put(project, "changed", "2")
    (project / "gone").unlink()
    put(project, "new", "n")
    before, logged = snapshot(project), ws.log()
    plan = ws.plan("one")
    assert (plan.creates, plan.modifies, plan.deletes) == (["gone"], ["changed"], ["new"])
    assert not plan.is_noop
    assert json.dumps(plan.to_dict())
    assert snapshot(project) == before
    assert ws.log() == logged


def test_a_plan_for_what_is_already_there_is_a_noop(ws, project):
    put(project, "a", "1")
    ws.save("one")
    plan = ws.plan("one")
    assert plan.is_noop
    assert (plan.creates, plan.modifies, plan.deletes) == ([], [], [])


def test_apply_does_exactly_the_plan(ws, project):
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    put(project, "b", "n")
    report = ws.apply(ws.plan("one"))
    assert (report.created, report.modified, report.deleted, report.kept) == ([], ["a"], ["b"], [])
    assert contents(project).keys() == {"a"}
    assert (project / "a").read_text() == "1"


@pytest.mark.parametrize("move", ["edit", "delete", "replace"])
def test_a_plan_under_which_the_workspace_moved_is_stale_and_changes_nothing(ws, project, move):
    put(project, "a", "1")
    put(project, "c", "1")
    ws.save("one")
    put(project, "a", "2")
    put(project, "c", "2")
    plan = ws.plan("one")
    if move == "edit":
        put(project, "a", "3")
    elif move == "delete":
        (project / "a").unlink()
    else:
        (project / "a").unlink()
        (project / "a").mkdir()
    before = snapshot(project)
    with pytest.raises(mulligan.PlanStale):
        ws.apply(plan)
    assert snapshot(project) == before


def test_restore_of_paths_touches_those_alone_and_a_directory_means_all_below(ws, project):
    for path in ("a", "d/x", "d/e/y", "other/z"):
        put(project, path, "1")
    ws.save("one")
    for path in ("a", "d/x", "d/e/y", "other/z", "d/since", "other/since"):
        put(project, path, "2")
    report = ws.restore("one", paths=["d"])
    assert sorted(report.modified) == ["d/e/y", "d/x"]
    assert report.deleted == ["d/since"]
    assert {path for path, node in contents(project).items() if node.content == b"2"} == {"a", "other/z", "other/since"}
    ws.undo()
    assert {path for path, node in contents(project).items() if node.content == b"1"} == set()


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "d/../../x", ".git/config"])
def test_restore_of_a_path_that_leaves_the_workspace_is_refused(ws, project, path):
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    before = snapshot(project.parent)
    with pytest.raises(mulligan.UnsafePath):
        ws.restore("one", paths=[path])
    assert {p: e for p, e in snapshot(project.parent).items() if not p.startswith("store")} == {
        p: e for p, e in before.items() if not p.startswith("store")
    }


def test_restore_of_an_unknown_path_changes_nothing(ws, project):
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    before = snapshot(project)
    with pytest.raises(mulligan.MulliganError):
        ws.restore("one", paths=["nowhere"])
    assert snapshot(project) == before


def test_state_and_files_never_touch_each_other(ws, project):
    put(project, "a", "1")
    ws.save("one", state={"conversation": ["hi"]})
    put(project, "a", "2")
    report = ws.restore("one", what="state")
    assert report.state == {"conversation": ["hi"]}
    assert (project / "a").read_text() == "2"
    assert not ws.restore("one", what="files").state
    assert (project / "a").read_text() == "1"
    put(project, "a", "3")
    both = ws.restore("one", what="all")
    assert both.state == {"conversation": ["hi"]}
    assert (project / "a").read_text() == "1"
    with pytest.raises((mulligan.MulliganError, ValueError)):
        ws.restore("one", what="nonsense")


def test_delete_removes_one_checkpoint_and_relinks_its_children(ws, project, store):
    put(project, "a", "1")
    one = ws.save("one")
    put(project, "a", "2")
    two = ws.save("two")
    put(project, "a", "3")
    three = ws.save("three")
    ws.delete("two")
    assert [cp.id for cp in ws.log()] == [three.id, one.id]
    assert ws.get("three").parent == one.id
    for ref in (two, two.id, "two"):
        with pytest.raises(mulligan.UnknownCheckpoint):
            ws.get(ref)
    assert ws.cat("three", "a") == b"3"
    assert judge(store, project) == []


def test_check_is_ok_on_a_healthy_store_and_stats_are_there(ws, project):
    put(project, "a", "1")
    ws.save("one")
    report = ws.check()
    assert report.ok
    assert not report.problems
    assert ws.stats() is not None


def test_every_error_of_the_contract_is_a_mulligan_error():
    for name in ERRORS.split():
        assert issubclass(getattr(mulligan, name), mulligan.MulliganError), name


def test_an_error_says_what_happened_and_gives_a_hint(ws, project):
    put(project, "a", "1")
    ws.save("one")
    with pytest.raises(mulligan.UnknownCheckpoint) as caught:
        ws.get("nope")
    assert "nope" in str(caught.value)
    assert caught.value.hint


def test_the_same_verbs_are_coroutines_in_aio(project, store):
    import mulligan.aio

    async def story() -> list[str]:
        ws = await mulligan.aio.open(project, store=store)
        put(project, "a", "1")
        one = await ws.save("one")
        put(project, "a", "2")
        assert (await ws.diff()).modified == ["a"]
        assert not (await ws.plan("one")).is_noop
        await ws.restore("one")
        assert (project / "a").read_text() == "1"
        await ws.undo()
        assert (project / "a").read_text() == "2"
        await ws.redo()
        assert await ws.cat("one", "a") == b"1"
        assert (await ws.get("@")).id == one.id
        assert (await ws.check()).ok
        await ws.prune()
        return [cp.name for cp in await ws.log(kind="manual")]

    assert asyncio.run(story()) == ["one"]


def test_five_saves_at_once_in_aio_are_five_checkpoints(project, store):
    import mulligan.aio

    async def story() -> set[str]:
        ws = await mulligan.aio.open(project, store=store)
        put(project, "a", "1")
        return {cp.id for cp in await asyncio.gather(*(ws.save(f"n{number}") for number in range(5)))}

    assert len(asyncio.run(story())) == 5
    assert judge(store, project) == []


def test_what_is_remembered_of_a_deleted_checkpoint_is_not_trusted(ws, project, store):
    """A cut may bring an earlier log back, and a collection may have removed half of what that names."""
    put(project, "file", "one")
    first = ws.save()
    earlier = (store / "cache").read_bytes()
    put(project, "file", "two")
    ws.save()
    ws.delete(first)
    ws.close()
    (store / "cache").write_bytes(earlier)
    again = mulligan.open(project, store=store)
    assert len(again.bench.look().scan.cache) == 0
