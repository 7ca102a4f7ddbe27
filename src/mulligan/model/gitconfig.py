"""
Git's configuration format, read as data.

The grammar is git's: sections with subsections, names without regard to case, quotes, escapes, continued lines and
comments. Nothing is executed and no file is opened here; includes are the reader's business.
A line that git would refuse is skipped: a broken configuration must not stop a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


def parse_git_config(text: str) -> Iterator[tuple[str, str | None]]:
    """
    Yields each setting as (`section.key` or `section.subsection.key`, value), in the order of the file.

    Section and key come in lower case, the subsection as it is written; a key without `=` has the value None.
    """
    section, at = "", 1 if text.startswith("\ufeff") else 0
    text = text.replace("\r\n", "\n")
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif char in "#;":
            at = _line_end(text, at)
        elif char == "[":
            section, at = _section(text, at)
        else:
            key, at = _key(text, at)
            value, at = _value(text, at)
            if section and key:
                yield f"{section}.{key.lower()}", value


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _section(text: str, at: int) -> tuple[str, int]:
    """Reads `[name]`, `[name "sub"]` or `[name.sub]`; returns an empty name for a malformed one."""
    at += 1
    start = at
    while at < len(text) and (text[at].isalnum() or text[at] in "-."):
        at += 1
    name = text[start:at].lower()
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if text[at : at + 1] == '"':
        sub, at = _subsection(text, at + 1)
        name = f"{name}.{sub}" if name and sub is not None else ""
    if text[at : at + 1] != "]":
        return "", _line_end(text, at)
    return name, at + 1


def _subsection(text: str, at: int) -> tuple[str | None, int]:
    found: list[str] = []
    while at < len(text) and text[at] != "\n":
        if text[at] == '"':
            return "".join(found), at + 1
        if text[at] == "\\":
            at += 1
        found.append(text[at : at + 1])
        at += 1
    return None, at


def _key(text: str, at: int) -> tuple[str, int]:
    start = at
    while at < len(text) and (text[at].isalnum() or text[at] == "-"):
        at += 1
    key = text[start:at]
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if not key or text[at : at + 1] not in ("=", "\n", "", "#", ";"):
        return "", _line_end(text, at)
    return key, at


def _value(text: str, at: int) -> tuple[str | None, int]:
    """Reads what follows a key: quotes taken off, escapes resolved, an unquoted comment and trailing blanks left out."""
    if text[at : at + 1] != "=":
        return None, _line_end(text, at)
    at += 1
    found: list[str] = []
    kept, quoted = 0, False  # `kept`: how much of `found` survives the trimming of trailing blanks
    while at < len(text) and text[at] != "\n":
        char = text[at]
        if char == "\\":
            at += 1
            if text[at : at + 1] != "\n":
                found.append(_ESCAPES.get(text[at : at + 1], ""))
                kept = len(found)
        elif char == '"':
            quoted, kept = not quoted, len(found)
        elif char in "#;" and not quoted:
            return "".join(found[:kept]), _line_end(text, at)
        elif quoted or not char.isspace():
            found.append(char)
            kept = len(found)
        elif found:
            found.append(char)
        at += 1
    return "".join(found if quoted else found[:kept]), at
