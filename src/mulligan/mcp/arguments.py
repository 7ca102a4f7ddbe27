"""
What a caller may say, checked before anything is done.

A tool's arguments are described once, as JSON Schema for the client; the same description is checked here, strictly: an
argument that is not described is refused, so that a `root` or a `force` is never ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mulligan.errors import UserError
from mulligan.mcp import bounds

Schema = dict[str, Any]


def text(about: str, *, most: int, default: str | None = None) -> Schema:
    """Describes a text."""
    schema: Schema = {"type": "string", "description": about, "maxLength": most}
    return schema if default is None else {**schema, "default": default}


def number(about: str, *, least: int = 0, most: int, default: int) -> Schema:
    """Describes a whole number."""
    return {"type": "integer", "description": about, "minimum": least, "maximum": most, "default": default}


def switch(about: str, *, default: bool) -> Schema:
    """Describes a yes or no."""
    return {"type": "boolean", "description": about, "default": default}


def one_of(about: str, values: tuple[str, ...]) -> Schema:
    """Describes a choice."""
    return {"type": "string", "description": about, "enum": list(values)}


def texts(about: str, *, most: int, count: int) -> Schema:
    """Describes a list of texts."""
    items = {"type": "string", "maxLength": most}
    return {"type": "array", "description": about, "items": items, "minItems": 1, "maxItems": count}


def described(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Describes the arguments of one tool; nothing else is accepted."""
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def checked(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments with defaults filled in; raises UserError that says what is wrong and what is known."""
    known: dict[str, Schema] = schema["properties"]
    for name in given:
        if name not in known:
            there = ", ".join(known) or "none"
            raise _wrong(f"There is no argument {bounds.line(name, 60)!r}; there are: {there}.")
    for name in schema.get("required", ()):
        if given.get(name) is None:
            raise _wrong(f"The argument {name!r} is missing.")
    values: dict[str, Any] = {}
    for name, described_as in known.items():
        value = given.get(name)
        values[name] = described_as.get("default") if value is None else _fitting(name, described_as, value)
    return values


def _fitting(name: str, schema: Schema, value: Any) -> Any:
    kind = schema["type"]
    if kind == "array":
        return _fitting_list(name, schema, value)
    if kind == "boolean":
        if not isinstance(value, bool):
            raise _wrong(f"{name!r} is true or false.")
    elif kind == "integer":
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(f"{name!r} is a whole number.")
        if not schema["minimum"] <= value <= schema["maximum"]:
            raise _wrong(f"{name!r} is between {schema['minimum']} and {schema['maximum']}.")
    elif not isinstance(value, str):
        raise _wrong(f"{name!r} is a text.")
    elif "enum" in schema and value not in schema["enum"]:
        raise _wrong(f"{name!r} is one of: {', '.join(schema['enum'])}.")
    elif len(value) > schema.get("maxLength", len(value)):
        raise _wrong(f"{name!r} has at most {schema['maxLength']} characters.")
    return value


def _fitting_list(name: str, schema: Schema, value: Any) -> list[Any]:
    if not isinstance(value, list) or not schema["minItems"] <= len(value) <= schema["maxItems"]:
        raise _wrong(f"{name!r} is a list of {schema['minItems']} to {schema['maxItems']} texts.")
    return [_fitting(name, schema["items"], item) for item in value]


def _wrong(what: str) -> UserError:
    return UserError(f"{what} Nothing was changed.")
