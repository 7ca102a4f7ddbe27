"""
Settings files of agents that hold hooks as JSON: ours put in, ours taken out, all else left as it is.

Pure functions on text. Where the file is written as `json.dumps` would write it, only our lines differ afterwards; where it is
not, and it has no hooks yet, our part is spliced in behind the first brace. A file that is no JSON object is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mulligan.errors import UserError

Document = dict[str, Any]
HOOKS = "hooks"
CLIENT = "mulligan-client"
#: The command line of a hook that we wrote: the native client, or an interpreter (`-c` was written by version 0.1.0).
_OURS = re.compile(
    r"""('[^']*'|[^\s'"]*)(?:(?<=/mulligan-client)|(?<=/mulligan-client')|(?: -P)? -m mulligan| -P -c 'from mulligan[^']*') hook (?:--as )?([\w-]+)"""
)


def hook_command(program: Sequence[str], words: str) -> str:
    """Returns the command line of a hook, for a shell."""
    return f"{shlex.join(program)} hook {words}"


def programs_in(text: str, agent: str = "") -> list[str]:
    """Returns the programs that our hooks in a text start; those of one agent, if one is named."""
    return [program.strip("'") for program, named in _OURS.findall(text) if agent in {"", named}]


def is_ours(handler: object, agent: str) -> bool:
    """Returns whether a handler is one that an installation of ours wrote for an agent."""
    if not isinstance(handler, dict):
        return False
    return any(programs_in(str(handler.get(key, "")), agent) for key in ("command", "bash"))


def with_hooks(
    text: str | None, wanted: Mapping[str, list[Any]], agent: str, base: Mapping[str, Any], where: str
) -> str:
    """Returns the text with our hooks in it, in place of those that an earlier installation wrote."""
    if text is None or not text.strip():
        return json.dumps({**base, HOOKS: dict(wanted)}, indent=2) + "\n"
    document = _parse(text, where)
    cleaned = _without(document, agent)
    for event, groups in wanted.items():
        cleaned.setdefault(HOOKS, {}).setdefault(event, []).extend(groups)
    if cleaned == document:
        return text
    if HOOKS not in document and _dumped(document, text) != text:
        return _spliced(text, {HOOKS: dict(wanted)})
    return _dumped(cleaned, text)


def without_hooks(text: str, agent: str, base: Mapping[str, Any], where: str) -> str | None:
    """Returns the text without our hooks, None where nothing else is in the file."""
    document = _parse(text, where)
    cleaned = _without(document, agent)
    if cleaned == document:
        return text
    if not cleaned or cleaned == dict(base):
        return None
    spliced = {HOOKS: document[HOOKS]}
    if HOOKS not in cleaned and text.startswith((head := _splice_head(text)) + _snippet(spliced) + ","):
        return head + text.removeprefix(head + _snippet(spliced) + ",")
    return _dumped(cleaned, text)


def our_events(text: str | None, agent: str) -> list[str]:
    """Returns the events for which our hooks stand in a file; none where it cannot be read."""
    try:
        document = _parse(text or "{}", "")
    except UserError:
        return []
    hooks = document.get(HOOKS)
    named = hooks.items() if isinstance(hooks, dict) else ()
    return [event for event, groups in named if any(is_ours(each, agent) for each in _handlers(groups))]


def _handlers(groups: Any) -> Iterator[Any]:
    for group in groups if isinstance(groups, list) else ():
        inner = group.get("hooks") if isinstance(group, dict) else None
        yield from inner if isinstance(inner, list) else [group]


def _parse(text: str, where: str) -> Document:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where} is no JSON that can be read ({error}). It was left alone, and nothing was written.",
            hint="Correct it, or take comments out of it, and try again.",
        ) from None
    hooks = document.get(HOOKS, {}) if isinstance(document, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise UserError(f"{where} does not hold hooks in the form that its agent reads. It was left alone.")
    found: Document = document
    return found


def _without(document: Document, agent: str) -> Document:
    cleaned: Document = json.loads(json.dumps(document))
    hooks = cleaned.get(HOOKS, {})
    for event in list(hooks):
        hooks[event] = [kept for group in hooks[event] if (kept := _group_without(group, agent)) is not None]
        if not hooks[event] and document[HOOKS][event]:
            del hooks[event]
    if not hooks and document.get(HOOKS):
        del cleaned[HOOKS]
    return cleaned


def _group_without(group: Any, agent: str) -> Any:
    inner = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(inner, list):
        return None if is_ours(group, agent) else group
    kept = [handler for handler in inner if not is_ours(handler, agent)]
    if len(kept) == len(inner):
        return group
    return {**group, "hooks": kept} if kept else None


def _dumped(document: Document, like: str) -> str:
    """Returns the document in the manner of a text: its indentation, its way with other scripts, its last line break."""
    found = re.search(r"^[{\[]\r?\n([ \t]+)", like)
    indent: str | int | None = found[1] if found else None if "\n" not in like.strip() else 2
    text = json.dumps(document, indent=indent, ensure_ascii="\\u" in like)
    return text + ("\n" if like.endswith("\n") else "")


def _splice_head(text: str) -> str:
    return text[: text.index("{") + 1]


def _snippet(part: Document) -> str:
    return "\n" + json.dumps(part, indent=2)[2:-2]


def _spliced(text: str, part: Document) -> str:
    head = _splice_head(text)
    rest = text[len(head) :]
    return head + _snippet(part) + ("," if rest.strip() != "}" else "") + rest
