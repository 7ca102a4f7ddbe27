"""
What a checkpoint's commit says, and how it is read again.

The subject is `architect:checkpoint:LABEL`, with ` -- message` where there is one: `git log --grep` finds it, and so did
earlier tools. Trailers carry what a subject cannot: the exact message, whether the label is a step's number or a pipeline's
name, and which part of the repository it is about. A commit that merely mentions the prefix, or reverts one, is none.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

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
