"""
Checkpoint commits, found again: on the branch, and those that a rollback left behind.

What a commit says is asked for field by field with a NUL between, so that nothing in a message can be taken for another
field. Nothing is changed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from mulligan.errors import GitFailed
from mulligan.usergit.commands import Git
from mulligan.usergit.commits import MAKING, head_of
from mulligan.usergit.messages import PREFIX, Label, read_message

KEPT = "refs/mulligan/"


class Found(NamedTuple):
    """A commit that is a checkpoint."""

    commit: str
    label: Label
    when: float


def checkpoint_commits(git: Git, also: Iterable[str] = ()) -> list[Found]:
    """Returns the checkpoints reachable from HEAD, from what a rollback kept, and from `also`, newest first."""
    head = head_of(git)
    tips = "".join(f"{name}\n" for name in ([head] if head else []) + existing(git, also))
    said = git.run(
        [
            *("log", "--date-order", "--no-color", "--no-decorate", "--no-notes", "--encoding=UTF-8"),
            *("--fixed-strings", f"--grep={PREFIX}", "--format=tformat:%H%x00%at%x00%B%x00"),
            *(f"--exclude={MAKING}*", f"--glob={KEPT}*", "--stdin"),
        ],
        input=tips.encode("ascii") or b"\n",
    )
    if said.code:
        if not tips:
            return []  # a repository without any commit
        raise GitFailed(f"git cannot list its commits: {said.complaint}. Nothing was changed.", hint="git log")
    return list(_parse(said.out))


def _parse(said: bytes) -> Iterable[Found]:
    fields = said.decode("utf-8", "surrogateescape").split("\0")
    for name, when, message in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        label = read_message(message)
        if label is not None:
            yield Found(name.strip(), label, float(when) if when.isdigit() else 0.0)


def files_of(git: Git, commits: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the files that each of these commits changed, as paths of the workspace; those outside it are left out."""
    wanted = [name for name in commits if name.isalnum()]
    if not wanted:
        return {}
    said = git.run(
        ["log", "--no-walk=unsorted", "--stdin", "--format=%x00%H", "--name-only", "-z", "--no-renames", "--root"],
        input="".join(f"{name}\n" for name in wanted).encode("ascii"),
        check=True,
    )
    below = git.prefix + b"/" if git.prefix else b""
    found: dict[str, tuple[str, ...]] = {}
    # A file's name is never empty, so two NULs stand only before the next commit.
    for record in said.out[1:].split(b"\0\0"):
        name, _, rest = record.partition(b"\0")
        paths = [path for path in rest.removeprefix(b"\n").split(b"\0") if path]
        found[name.decode("ascii")] = tuple(os.fsdecode(p[len(below) :]) for p in paths if p.startswith(below))
    return found


def existing(git: Git, names: Iterable[str]) -> list[str]:
    """Returns those of some commits that the repository still has."""
    wanted = [name for name in names if name.isalnum()]
    if not wanted:
        return []
    said = git.run(["cat-file", "--batch-check=%(objectname) %(objecttype)"], input="\n".join([*wanted, ""]).encode())
    rows = (line.split() for line in said.out.decode("ascii", "replace").splitlines())
    return [row[0] for row in rows if len(row) == 2 and row[1] == "commit"]


def resolve(git: Git, text: str) -> str | None:
    """Returns the full name of the commit that a text means, None when it means none; options are never taken."""
    if not text or text.startswith("-") or "\0" in text:
        return None
    ran = git.run(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}"])
    return ran.out.decode("ascii", "replace").strip() if ran.code == 0 else None


def changed_since(git: Git, commit: str) -> list[tuple[bytes, bool]]:
    """Returns the paths of a workspace that differ from a commit, and those that are new; each with whether git tracks it."""
    where = [os.fsdecode(git.prefix)] if git.prefix else []
    top = Git(git.top) if git.prefix else git
    differing = top.run(["diff", "--name-only", "-z", "--no-renames", commit, "--", *where], check=True).out
    unknown = top.run(["ls-files", "--others", "--exclude-standard", "-z", "--", *where], check=True).out
    skip = len(git.prefix) + 1 if git.prefix else 0
    both = ((differing, True), (unknown, False))
    return [(path[skip:], tracked) for listed, tracked in both for path in listed.split(b"\0") if path]
