"""A repository that is moved by a restore or by its undo, and what must be true of it whichever way the files went."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mulligan
from tree import Node, contents, put
from users_repository import commits, expect_whole, make_dirty, move_on, new_repository, seen

Tree = dict[str, Node]


class Scene(NamedTuple):
    """The places, the files before and after, the checkpoints, and what git says before and after and which commits there are."""

    project: Path
    store: Path
    old: Tree
    new: Tree
    acknowledged: dict[str, Tree]
    git: tuple[Any, Any, set[bytes]] | None = None


def scene_with_git(folder: Path, verb: str, store: Path | None = None) -> Scene:
    """A repository that an agent moved on in, and unsaved edits; for undo, after all of that was rolled back."""
    project, store = folder / "project", store or folder / "store"
    new_repository(project)
    make_dirty(project)
    ws = mulligan.open(project, store=store)
    saved = {ws.save("one", git=True).id: contents(project)}
    then = seen(project)
    move_on(project)
    put(project, "unsaved/work", "mine")
    later, files, made = seen(project), contents(project), commits(project)
    branches = "for-each-ref", "refs/heads", "refs/tags", "refs/stash"
    if verb == "undo-git":
        ws.restore("one", git=True)
        return Scene(project, store, contents(project), files, saved, (seen(project), later, made))
    agent = [line for line in later[branches].splitlines(keepends=True) if line.endswith(b"/agent\n")]
    then[branches] = b"".join(
        sorted([*agent, *then[branches].splitlines(keepends=True)], key=lambda line: line.split()[2])
    )
    return Scene(project, store, files, saved[ws.get("one").id], saved, (later, then, made))


def broken_git(scene: Scene, *, new: bool) -> Iterator[str]:
    """Whatever is not as it must be in the user's repository, given which way the files went."""
    if scene.git is None:
        return
    old, moved, made = scene.git
    yield from wrong_in_git(scene.project, moved if new else old, made, f"files are {'new' if new else 'old'}")


def wrong_in_git(project: Path, wanted: dict[Any, bytes], made: set[bytes], why: str) -> Iterator[str]:
    """Where git says something else than it must, lost a commit, or is not whole."""
    now = seen(project)
    if differing := [words for words in wanted if now[words] != wanted[words]]:
        yield f"{why}, git is not: {differing}"
    if not made <= commits(project):
        yield "a commit is not reachable any more"
    try:
        expect_whole(project)
    except AssertionError as error:
        yield f"git: {error}"
