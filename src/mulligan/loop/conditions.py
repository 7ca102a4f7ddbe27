"""
Variables in prompts, checks and conditions.

`{{name}}` is replaced once and by text only: a value is never expanded again, so the answer of one agent
cannot reach for other variables, turn a condition around, or become a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"\{\{(.+?)\}\}")
_OPERAND = r"(?:'[^']*'|\"[^\"]*\"|(?:\{\{.+?\}\}|[^=!'\"{]|\{(?!\{)|[=!](?!=))*?)"
_COMPARISON = re.compile(rf"\s*(?P<left>{_OPERAND})\s*(?P<how>==|!=)\s*(?P<right>{_OPERAND})\s*")
_JOINED = re.compile(r"\b(and|or)\b|&&|\|\|", re.IGNORECASE)
_TRUE = {"true", "yes", "1"}
_FALSE = {"false", "no", "0", ""}


def as_text(value: Any) -> str:
    """Returns a variable's value as text, spelled as YAML spells it: `true`, `3`, nothing for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def resolve(text: str, variables: Mapping[str, Any]) -> str:
    """Returns the text with every known `{{name}}` replaced; unknown ones stay as they are."""

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        return as_text(variables[name]) if name in variables else found[0]

    return _VARIABLE.sub(value, text)


def names_in(text: str) -> list[str]:
    """Returns the names of the variables that a text uses."""
    return [found[1].strip() for found in _VARIABLE.finditer(text)]


def holds(condition: str, variables: Mapping[str, Any]) -> bool:
    """
    Returns whether a condition holds.

    One comparison (`{{x}} == 'yes'`, `x != y`) compares texts, `true` and `false` in any case. Anything else is true unless
    it says true, yes, 1 (true) or false, no, 0 or nothing (false).
    """
    compared = _COMPARISON.fullmatch(condition)
    if compared is None:
        return _truth(resolve(condition, variables))
    left, right = (_operand(compared[side], variables) for side in ("left", "right"))
    if {left.lower(), right.lower()} <= {"true", "false"}:
        left, right = left.lower(), right.lower()
    return (left == right) is (compared["how"] == "==")


def _truth(text: str) -> bool:
    word = text.strip().lower()
    return word in _TRUE or word not in _FALSE


def _operand(text: str, variables: Mapping[str, Any]) -> str:
    if text[:1] in {"'", '"'}:
        return resolve(text[1:-1], variables)
    return as_text(variables[text]) if text in variables else resolve(text, variables)


def is_one_comparison(condition: str) -> bool:
    """Returns whether a condition says what it means: no operator at all, or one that can be evaluated."""
    outside = re.sub(r"'[^']*'|\"[^\"]*\"|\{\{.+?\}\}", "''", condition)
    operators = outside.count("==") + outside.count("!=")
    if operators == 0:
        return True
    return operators == 1 and not _JOINED.search(outside) and _COMPARISON.fullmatch(condition) is not None


# -- shell --------------------------------------------------------------------------------------


def for_shell(text: str, variables: Mapping[str, Any]) -> tuple[str, list[str]]:
    """
    Returns shell text in which every known `{{name}}` is a shell variable `mulligan_N`, and the values of those.

    The values never become part of the text, so none of them can be code; each stays one word, whether the author put
    quotes around it or not.
    """
    names = list(dict.fromkeys(name for name in names_in(text) if name in variables))
    parts: list[str] = []
    at, inside = 0, [""]
    for found in _VARIABLE.finditer(text):
        _follow(text[at : found.start()], inside)
        parts.append(text[at : found.start()])
        at = found.end()
        name = found[1].strip()
        if name not in variables:
            parts.append(found[0])
            continue
        reference = f"${{mulligan_{names.index(name) + 1}}}"
        parts.append({"'": f"'\"{reference}\"'", '"': reference}.get(inside[-1], f'"{reference}"'))
    return "".join([*parts, text[at:]]), [as_text(variables[name]) for name in names]


def _follow(text: str, inside: list[str]) -> None:
    """Follows quotes and `$(…)` through a piece of shell text; the last of `inside` is what is open after it."""
    before = ""
    for character in text:
        top = inside[-1]
        if before == "\\" and top != "'":
            before = ""
            continue
        if top == "'":
            if character == "'":
                inside.pop()
        elif character == '"':
            inside.pop() if top == '"' else inside.append('"')
        elif character == "'" and top != '"':
            inside.append("'")
        elif character == "(" and (top != '"' or before == "$"):
            inside.append("(")
        elif character == ")" and top == "(":
            inside.pop()
        before = character
