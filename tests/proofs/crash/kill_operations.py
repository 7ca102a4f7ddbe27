"""
Operations that are worth a kill, beyond those of `operations`: with thresholds lowered, with a second process, at scale.

A threshold is lowered only while the operation runs, so that the next command meets what was left as any other would.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from operations import OPERATIONS, Operation, lowered, noise
from places import Place
from turn_operations import TURNS

from mulligan.model.event import AgentEvent
from mulligan.model.policy import Retention
from mulligan.restore import stage
from mulligan.state.conversation import Transcript
from mulligan.store import gc
from mulligan.timeline import pruning
from scenes import MID, NEW, OLD, State, file, folder, link, write_state
from tools import git
from tree import put
from users_repository import make_dirty, move_on, new_repository

MANY = 1000


# -- saving -----------------------------------------------------------------------------------------


def _wide(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
    for number in range(24):
        put(place.project, f"d{number % 8}/e/f{number}", noise(number, 3000))


def _automatic(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
        for number in range(5):
            put(place.project, "same", noise(number, 40_000))
            ws.save(f"a{number}", kind="automatic")
    put(place.project, "same", noise(99, 40_000))


def _save_within_budget(_: Any, place: Place) -> None:
    with place.open(retention=Retention(budget=510_000)) as ws:
        ws.save("now")


def _guarded(ws: Any, _: Place) -> None:
    with ws.guard("now"):
        pass


def _labelled(place: Place) -> None:
    with place.open() as ws:
        for number in range(4):
            write_state(place.project, NEW | {"same": file(str(number))})
            ws.save(f"n{number}", metadata={"run": 1})
    write_state(place.project, OLD)


def _guard_that_fails(ws: Any, _: Place) -> None:
    with suppress(RuntimeError), ws.guard("now"):
        raise RuntimeError


def _settled(place: Place) -> None:
    """Nothing changed since the last save, and everything is old enough to be believed from now on."""
    _labelled(place)
    with place.open() as ws:
        ws.save("settled")


# -- what else a store keeps ----------------------------------------------------------------------------


def _talked(place: Place) -> None:
    with place.open() as ws:
        ws.provide("conversation", Transcript(place.chat))
        write_state(place.project, NEW)
        put(place.home, "talk/chat.jsonl", '{"n": 1}\n')
        ws.save("new")
        put(place.home, "talk/chat.jsonl", '{"n": 1}\n{"n": 2}\n')
    write_state(place.project, OLD)


def _restore_all(ws: Any, place: Place) -> None:
    ws.provide("conversation", Transcript(place.chat))
    ws.restore("new", what="all")


def _restore_state(ws: Any, place: Place) -> None:
    ws.provide("conversation", Transcript(place.chat))
    ws.restore("new", what="state")


def _noted(ws: Any, _: Place) -> None:
    ws.update_note("runs", lambda before: (before or 0) + 1)


def _deed(call: str, session: str = "session", paths: tuple[str, ...] = ("modified",)) -> AgentEvent:
    return AgentEvent("agent", session, "after", tool="Edit", call=call, text="edits", paths=paths)


def _remembered(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.record(_deed("1"))
    write_state(place.project, OLD)


def _two_sessions(place: Place) -> None:
    """Two agents edited one file in different places, and others alone; the turn of the first has ended long ago."""
    lines = [f"line {number}\n" for number in range(30)]
    with place.open() as ws:
        write_state(place.project, NEW | {"both": file("".join(lines))})
        for number, session in enumerate(("first", "second")):
            ws.record(AgentEvent("agent", session, "prompt", call=session, text="edit something"))
            lines[5 + 20 * number] = f"by the {session}\n"
            put(place.project, "both", "".join(lines))
            put(place.project, f"by-{session}/new", session * 500)
            (place.project / ("modified" if number else "same")).unlink()
            paths = ("both", f"by-{session}/new", "modified" if number else "same")
            ws.record(_deed(session, session, paths))
            ws.record(AgentEvent("agent", session, "stop"))
    put(place.project, "unsaved", "mine")


# -- damaged ----------------------------------------------------------------------------------------------


def _damaged(place: Place) -> None:
    """One byte of a file's object is wrong, and the file is still in the workspace."""
    with place.open() as ws:
        for name in ("other", "same"):
            put(place.project, name, noise(len(name), 30_000))
            ws.save(name)
    for pack in (place.store / "objects/pack").glob("*.pack"):
        content = bytearray(pack.read_bytes())
        if len(content) > 20_000:
            content[len(content) // 2] ^= 1
            pack.chmod(0o600)
            pack.write_bytes(content)
            break


def _heal(ws: Any, _: Place) -> None:
    """The object is written once more; that the spoiled one goes is for the next collection."""
    ws.doctor()
    ws.prune()


# -- repositories -----------------------------------------------------------------------------------------


def _worktree(place: Place) -> None:
    """The workspace is a linked worktree: what it shares with the others lies outside of it."""
    main = new_repository(place.home / "main")
    git("worktree", "add", "-q", "-b", "linked", place.project, cwd=main)
    _moved_on(place)


def _packed_refs(place: Place) -> None:
    new_repository(place.project)
    git("pack-refs", "--all", cwd=place.project)
    _moved_on(place)


def _moved_on(place: Place) -> None:
    make_dirty(place.project)
    with place.open() as ws:
        ws.save("new", git=True)
    move_on(place.project)
    put(place.project, "unsaved/work", "mine")


def _merging(place: Place) -> None:
    """A merge was under way when it was saved, and was given up since."""
    repo = new_repository(place.project)
    git("checkout", "-q", "side", cwd=repo)
    put(repo, "file", "theirs\n")
    git("commit", "-q", "-a", "-m", "theirs", cwd=repo)
    git("checkout", "-q", "main", cwd=repo)
    git("merge", "side", cwd=repo, check=False)
    assert (repo / ".git/MERGE_HEAD").exists()
    with place.open() as ws:
        ws.save("new", git=True)
    git("merge", "--abort", cwd=repo)
    put(repo, "file", "mine\n")


def _git_undone(place: Place) -> None:
    new_repository(place.project)
    _moved_on(place)
    with place.open() as ws:
        ws.restore("new", git=True)
        ws.undo()


def _to_be_staged(place: Place) -> None:
    repo = new_repository(place.project)
    make_dirty(repo)
    move_on(repo)
    with place.open() as ws:
        ws.save("new")
    put(repo, "file", "unsaved\n")


def _restore_and_stage(ws: Any, place: Place) -> None:
    ws.restore("new", stage=(place.project / ".git/refs/heads/main").read_text(encoding="ascii").strip())


# -- tidying ----------------------------------------------------------------------------------------


def _watched_for_long(place: Place) -> None:
    """More packs than a watched workspace should have, because no save joins them there."""
    with place.open() as ws, ws.watch():
        for number in range(pruning.MANY_PACKS + 2):
            write_state(place.project, {"f": file(str(number))})
            ws.save(f"n{number}")


def _let_go(place: Place) -> None:
    """Retention let some go, and packs hold what only those held beside what is needed."""
    with place.open() as ws:
        for number in range(9):
            state = {f"f{each}": file(noise(number if each % 2 else each, 700).hex()) for each in range(6)}
            write_state(place.project, state | {"g": file(str(number))})
            ws.save(f"a{number}", kind="automatic")


def _free_bit_by_bit(ws: Any, _: Place) -> None:
    with lowered(pruning, _GROWN=1), lowered(gc, PORTION=2000):
        while ws.tidy():
            pass


def _tidy(place: Place) -> None:
    with place.open() as ws:
        for number in range(4):
            write_state(place.project, NEW | {"same": file(f"{number} " * 500)})
            ws.save(f"n{number}")
        ws.delete("n1")
        write_state(place.project, OLD)


def _prune_with_packed_refs(ws: Any, _: Place) -> None:
    with lowered(pruning, _MANY_REFS=1):
        ws.prune()


def _packed(place: Place) -> None:
    _tidy(place)
    with place.open() as ws:
        _prune_with_packed_refs(ws, place)


# -- restoring --------------------------------------------------------------------------------------


def _back_and_forth(place: Place) -> None:
    """Every kind of path becomes every other: files, directories, links, and nothing."""
    kinds = {"file": file("one"), "dir": folder(), "link": link("same")}
    states: list[State] = [{"same": file("same")}, {"same": file("same")}]
    for here, one in kinds.items():
        for there, other in kinds.items():
            for state, node in zip(states, (one, other), strict=True):
                name = f"{here}-{there}"
                state[name] = file(f"{name} other") if here == there == "file" and state is states[1] else node
                if node[0] == "dir":
                    state[f"{name}/inner"] = file(f"in {name}, {len(state)}")
        states[0][f"{here}-nothing"] = one
        states[1][f"nothing-{here}"] = one
    with place.open() as ws:
        write_state(place.project, states[1])
        ws.save("new")
    write_state(place.project, states[0])


def _wiped(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
    write_state(place.project, {})


def _secrets(place: Place) -> None:
    write_state(place.project, {"a": file("a"), "d": folder(), "d/e": folder(), "d/e/f": file("precious " * 30)})
    with place.open() as ws:
        ws.save("one")
        put(place.project, "a", "b")
        ws.restore("one", paths=["a"])
        put(place.project, "d/e/f", "more precious " * 30)
        ws.save("two")


def _locked(place: Place) -> None:
    closed: State = {"closed": folder(0o555), "closed/a": file("a"), "closed/b": file("b"), "closed/in": folder(0o555)}
    with place.open() as ws:
        write_state(place.project, MID | closed | {"closed/in/c": file("c")})
        ws.save("new")
        write_state(place.project, MID | closed | {"closed/a": file("other"), "closed/in/d": file("d")})
        ws.save("later")


def _restore_at_once(ws: Any, _: Place) -> None:
    """Synced at once, as for many files."""
    with lowered(stage, _SYNC_EACH=0):
        ws.restore("new")


def _some(place: Place) -> None:
    """Files that change, come and go, some in directories that do."""
    with place.open() as ws:
        for name in ("new", "old"):
            state: State = {
                "d": folder(),
                "e": folder(),
                name: folder(),
                **{f"{name}/{n}": file(name) for n in range(2)},
            }
            state |= {f"d/f{number}": file(f"{name} {number}") for number in range(4)}
            state |= {f"e/{name}{number}": file("only here") for number in range(2)}
            write_state(place.project, state)
            ws.save(name)
    put(place.project, "d/f0", "mine")


def _edited(place: Place) -> None:
    """Files of which nothing but the contents changed."""
    with place.open() as ws:
        for number in range(6):
            put(place.project, f"d{number % 2}/f{number}", f"new {number}\n" * 9)
        ws.save("new")
    for number in range(6):
        put(place.project, f"d{number % 2}/f{number}", f"old {number}\n" * 9)


def _back_and_there(ws: Any, _: Place) -> None:
    """Watched: the second and third way are known before any tree is made, and the trees are made while files are staged."""
    with lowered(stage, _SYNC_EACH=0), ws.watch():
        ws.restore(ws.restore("new").undo)
        ws.restore("new")


def _thousand(place: Place) -> None:
    rng = random.Random(1)
    with place.open() as ws:
        for name, part in (("new", "new"), ("old", "old")):
            write_state(place.project, _many(rng, part))
            ws.save(name)
    put(place.project, "unsaved", "mine")


def _many(rng: random.Random, part: str) -> State:
    """A thousand files: some only on this side, some with other bytes, some that are something else."""
    state: State = {f"d{number}": folder() for number in range(40)}
    for number in range(MANY):
        path = f"d{number % 40}/f{number}"
        if number % 10 == 0 and (number // 10) % 2 == (part == "new"):
            continue
        if number % 97 == 0 and part == "new":
            state[path] = link("elsewhere")
        else:
            state[path] = file(f"{part} {number} {rng.random()}\n" * (1 + number % 9))
    return state


EXTRA: dict[str, Operation] = {
    "save-wide": Operation(_wide, lambda ws, _: ws.save("now")),
    "save-evicting": Operation(_automatic, _save_within_budget, again=False),
    "save-expiring": Operation(_automatic, lambda ws, _: ws.save("now", kind="automatic"), again=False),
    "save-unchanged": Operation(_settled, lambda ws, _: ws.save("now", if_changed=True), again=False),
    "guard": Operation(_automatic, _guarded, again=False),
    "guard-failing": Operation(_automatic, _guard_that_fails, again=False),
    "record": Operation(_remembered, lambda ws, _: ws.record(_deed("2")), again=False),
    "session-undo": Operation(_two_sessions, lambda ws, _: ws.undo(session="first"), again=False),
    "note": Operation(_labelled, _noted),
    "trim": Operation(_labelled, lambda ws, _: ws.trim(1, match={"run": 1}), again=False),
    "tidy": Operation(_watched_for_long, lambda ws, _: ws.tidy()),
    "tidy-freeing": Operation(_let_go, _free_bit_by_bit),
    "gc-refs": Operation(_tidy, _prune_with_packed_refs),
    "delete-oldest": Operation(_tidy, lambda ws, _: ws.delete("n0"), again=False),
    "delete-packed": Operation(_packed, lambda ws, _: ws.delete("n2"), again=False),
    "forget-folder": Operation(_secrets, lambda ws, _: ws.forget("d")),
    "doctor-healthy": Operation(_tidy, lambda ws, _: ws.doctor()),
    "doctor-objects": Operation(_damaged, _heal, heals=True),
    "restore-kinds": Operation(_back_and_forth, lambda ws, _: ws.restore("new")),
    "restore-at-once": Operation(_some, _restore_at_once),
    "restore-watched": Operation(_edited, _back_and_there),
    "restore-wiped": Operation(_wiped, lambda ws, _: ws.restore("new")),
    "restore-planned": Operation(_back_and_forth, lambda ws, _: ws.apply(ws.plan("new"))),
    "restore-all": Operation(_talked, _restore_all, talks=True),
    "restore-state": Operation(_talked, _restore_state, talks=True),
    "restore-locked": Operation(_locked, lambda ws, _: ws.restore("new")),
    "undo-locked": Operation(_locked, lambda ws, _: ws.undo()),
    "restore-worktree": Operation(_worktree, lambda ws, _: ws.restore("new", git=True), git=True),
    "restore-packed-refs": Operation(_packed_refs, lambda ws, _: ws.restore("new", git=True), git=True),
    "restore-merging": Operation(_merging, lambda ws, _: ws.restore("new", git=True), git=True),
    "restore-staging": Operation(_to_be_staged, _restore_and_stage, git=True),
    "redo-git": Operation(_git_undone, lambda ws, _: ws.redo(), git=True, again=False),
}
#: Beyond the rest in cost: for the row about restores of a thousand files alone.
LARGE: dict[str, Operation] = {"restore-1000": Operation(_thousand, lambda ws, _: ws.restore("new"))}
#: Those of the shared list whose stage is itself the work of a kill are swept by depth instead.
KILLED = {name: each for name, each in OPERATIONS.items() if not name.startswith("recovery")} | EXTRA | TURNS
#: Directories that their owner may not write to mean something only to an ordinary user.
ORDINARY = frozenset({"restore-locked", "undo-locked"})
NOBODY = 65534
