"""
Operations that are worth a kill, beyond those of `operations`: with thresholds lowered, with a second process, at scale.

A threshold is lowered only while the operation runs, so that the next command meets what was left as any other would.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from operations import OPERATIONS, Operation, Place

import mulligan
from mulligan.model.policy import Retention
from mulligan.scan import reading, walk
from mulligan.settings import resolve
from mulligan.timeline import budget
from scenes import MID, NEW, OLD, State, file, folder, link, write_state
from tools import git
from tree import put
from users_repository import new_repository

MANY = 1000


@contextmanager
def lowered(module: Any, **values: Any) -> Iterator[None]:
    """Gives some constants of a module other values for a while."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


# -- saving -----------------------------------------------------------------------------------------


def _wide(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
    for number in range(24):
        put(place.project, f"d{number % 8}/e/f{number}", noise(number, 3000))


def _save_with_twin(ws: Any, _: Place) -> None:
    with lowered(walk, _SHARE_READ=3, _SHARE_DIRECTORIES=3, _SHARE_LEAST=2):
        ws.save("now")


def _streamed(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
        put(place.project, "large", noise(1, 1_200_000))
        with lowered(reading, STREAM_FROM=1 << 20):
            ws.save("large")
    put(place.project, "large", noise(2, 1_300_000))


def _save_streamed(ws: Any, _: Place) -> None:
    with lowered(reading, STREAM_FROM=1 << 20):
        ws.save("now")


def _automatic(place: Place) -> None:
    with place.open() as ws:
        write_state(place.project, NEW)
        ws.save("new")
        for number in range(5):
            put(place.project, "same", noise(number, 40_000))
            ws.save(f"a{number}", kind="automatic")
    put(place.project, "same", noise(99, 40_000))


def _save_within_budget(_: Any, place: Place) -> None:
    settings = resolve(place.project, store=place.store)._replace(retention=Retention(budget=220_000))
    with mulligan.Workspace(settings) as ws:
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


def _committed(place: Place) -> None:
    new_repository(place.project)
    git("gc", "-q", cwd=place.project)


def _import_commit(ws: Any, place: Place) -> None:
    packed = (place.project / ".git/packed-refs").read_text(encoding="ascii").split()
    ws.import_commit(packed[packed.index("refs/heads/main") - 1], name="now")


# -- tidying ----------------------------------------------------------------------------------------


def _tidy(place: Place) -> None:
    with place.open() as ws:
        for number in range(4):
            write_state(place.project, NEW | {"same": file(f"{number} " * 500)})
            ws.save(f"n{number}")
        ws.delete("n1")
        write_state(place.project, OLD)


def _prune_with_packed_refs(ws: Any, _: Place) -> None:
    with lowered(budget, _MANY_REFS=1):
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


def _locked(place: Place) -> None:
    closed: State = {"closed": folder(0o555), "closed/a": file("a"), "closed/b": file("b"), "closed/in": folder(0o555)}
    with place.open() as ws:
        write_state(place.project, MID | closed | {"closed/in/c": file("c")})
        ws.save("new")
        write_state(place.project, MID | closed | {"closed/a": file("other"), "closed/in/d": file("d")})
        ws.save("later")


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
    "save-twin": Operation(_wide, _save_with_twin),
    "save-streamed": Operation(_streamed, _save_streamed),
    "save-evicting": Operation(_automatic, _save_within_budget, again=False),
    "save-expiring": Operation(_automatic, lambda ws, _: ws.save("now", kind="automatic"), again=False),
    "guard": Operation(_automatic, _guarded, again=False),
    "trim": Operation(_labelled, lambda ws, _: ws.trim(1, match={"run": 1}), again=False),
    "import-commit": Operation(_committed, _import_commit),
    "gc-refs": Operation(_tidy, _prune_with_packed_refs),
    "delete-packed": Operation(_packed, lambda ws, _: ws.delete("n2"), again=False),
    "restore-kinds": Operation(_back_and_forth, lambda ws, _: ws.restore("new")),
    "restore-streamed": Operation(_streamed, lambda ws, _: ws.restore("large")),
    "restore-locked": Operation(_locked, lambda ws, _: ws.restore("new")),
    "undo-locked": Operation(_locked, lambda ws, _: ws.undo()),
}
#: Beyond the rest in cost: for the row about restores of a thousand files alone.
LARGE: dict[str, Operation] = {"restore-1000": Operation(_thousand, lambda ws, _: ws.restore("new"))}
#: Those of the shared list whose stage is itself the work of a kill are swept by depth instead.
KILLED = {name: each for name, each in OPERATIONS.items() if not name.startswith("recovery")} | EXTRA
#: Directories that their owner may not write to mean something only to an ordinary user.
ORDINARY = frozenset({"restore-locked", "undo-locked"})
NOBODY = 65534
