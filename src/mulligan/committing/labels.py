"""
Checkpoint commits: what they say, and how they are found again, on the branch and where a rollback left them.

The subject is `architect:checkpoint:LABEL`, with ` -- message` where there is one: `git log --grep` finds it, and so did
earlier tools. Trailers carry what a subject cannot: the exact message, whether the label is a step's number or a pipeline's
name, and which part of the repository it is about. A commit that merely mentions the prefix, or reverts one, is none.
What a commit says is asked for field by field with a NUL between, so that nothing in a message can be taken for another field.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from mulligan.committing.commands import Git
from mulligan.committing.commits import MAKING, head_of
from mulligan.errors import GitFailed

PREFIX = "architect:checkpoint"
_SUBJECT = re.compile(rf"{re.escape(PREFIX)}(?::(?P<label>.*?))?(?: -- (?P<message>.*))?", re.DOTALL)
_STEP = re.compile(r"step-(\d+)")
_TRAILER = re.compile(r"^Checkpoint-(Step|Name|Message|Path): (.*)$", re.MULTILINE)


class Label(NamedTuple):
    """The label of a checkpoint: the number of a step, or the name of a pipeline's step."""

    step: int | None
    name: str
    message: str = ""
    path: str = ""
    #: Further trailers, for people; they are not read again.
    remarks: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The first line of the commit."""
        message = _one_line(self.message)
        return f"{PREFIX}:{_one_line(self.name)}" + (f" -- {message}" if message else "")


def of_step(step: int, message: str = "", path: str = "") -> Label:
    """Returns the label of an agent's step."""
    return Label(step, f"step-{step}", message, path)


def of_name(name: str, message: str = "", path: str = "") -> Label:
    """Returns the label of a pipeline's step, which has no number even when it is called `step-2`."""
    return Label(None, name, message, path)


def write_message(label: Label) -> bytes:
    """Returns the whole message of a commit."""
    trailers = [f"Checkpoint-Step: {label.step}"] if label.step is not None else []
    if label.step is None:
        trailers.append(f"Checkpoint-Name: {json.dumps(label.name)}")
    if label.message != _read_subject(label.subject)[1]:
        trailers.append(f"Checkpoint-Message: {json.dumps(label.message)}")
    if label.path:
        trailers.append(f"Checkpoint-Path: {json.dumps(label.path)}")
    trailers += [_one_line(remark) for remark in label.remarks]
    return "\n".join([label.subject, "", *trailers, ""]).encode("utf-8", "replace")


def read_message(text: str) -> Label | None:
    """Returns what a commit's message says, None when it is no checkpoint's."""
    subject, _, body = text.lstrip("\n").partition("\n")
    if not is_subject(subject):
        return None
    name, message = _read_subject(subject)
    said = dict(_TRAILER.findall(body.rstrip().rpartition("\n\n")[2] if body.strip() else ""))
    step = _STEP.search(name)
    number = int(step[1]) if step else None
    if "Name" in said:
        number, name = None, _text(said["Name"], name)
    elif said.get("Step", "").isdigit():
        number = int(said["Step"])
    return Label(number, name, _text(said.get("Message", ""), message), _text(said.get("Path", ""), ""))


def is_subject(subject: str) -> bool:
    """Returns whether the first line of a commit is that of a checkpoint."""
    return subject == PREFIX or subject.startswith((PREFIX + ":", PREFIX + " "))


def _read_subject(subject: str) -> tuple[str, str]:
    found = _SUBJECT.fullmatch(subject)
    return ((found["label"] or "").strip(), found["message"] or "") if found else ("", "")


def _text(quoted: str, otherwise: str) -> str:
    """Returns a quoted text; what stands there without quotes was not written here."""
    try:
        value = json.loads(quoted)
    except ValueError:
        return otherwise
    return value if isinstance(value, str) else otherwise


def _one_line(text: str) -> str:
    """Returns a text as git shows a subject: one line, nothing unprintable in it."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


KEPT = "refs/mulligan/"


class LabelledCommit(NamedTuple):
    """A commit that is a checkpoint."""

    commit: str
    label: Label
    when: float


def checkpoint_commits(git: Git, also: Iterable[str] = ()) -> list[LabelledCommit]:
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


def _parse(said: bytes) -> Iterable[LabelledCommit]:
    fields = said.decode("utf-8", "surrogateescape").split("\0")
    for name, when, message in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        label = read_message(message)
        if label is not None:
            yield LabelledCommit(name.strip(), label, float(when) if when.isdigit() else 0.0)


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
