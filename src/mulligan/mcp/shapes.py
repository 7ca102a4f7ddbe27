"""
What each tool answers: every field is written here once, with its kind.

A kind has two sides: the JSON Schema that clients check answers against, and how a value is shown. What is shown is never longer
than `bounds` allows. Agent state (conversations) is in no shape: it may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from mulligan.mcp import bounds
from mulligan.model.plan import RestorePlan

Schema = dict[str, Any]


class Kind(NamedTuple):
    """A kind of value: its schema, how it is shown, and where a table finds it if not under the field's own name."""

    schema: Schema
    show: Callable[[Any], Any] = lambda value: value
    get: Callable[[Any], Any] | None = None

    def of(self, get: str | Callable[[Any], Any]) -> Kind:
        """Returns the same kind for a field that is found elsewhere: under another name, or by a function."""
        return self._replace(get=attrgetter(get) if isinstance(get, str) else get)


def maybe(kind: Kind) -> Kind:
    """Returns a kind that may be null, which it is for an empty value."""
    schema = {"anyOf": [kind.schema, {"type": "null"}]}
    return Kind(schema, lambda value: kind.show(value) if value else None)


def listed(kind: Kind, most: int = bounds.PAGE) -> Kind:
    """Returns the kind of a list."""
    return Kind({"type": "array", "items": kind.schema}, lambda values: [kind.show(each) for each in values[:most]])


def some(kind: Kind, most: int = bounds.ENTRIES) -> Kind:
    """Returns the kind of a part of a list, as `bounds.some` makes it."""
    part = table(items=listed(kind), total=COUNT, more=COUNT)

    def show(values: Any) -> dict[str, Any]:
        items, offset = values if isinstance(values, From) else (values, 0)
        return bounds.some(items, kind.show, most, offset=offset)

    return Kind(part.schema, show)


class From(NamedTuple):
    """A list that is shown from an offset on."""

    items: Sequence[Any]
    offset: int


def table(**fields: Kind) -> Kind:
    """Returns the kind of an object that has just these fields; shown from attributes, or from the keys of a mapping."""
    properties = {name: kind.schema for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}

    def show(value: Any) -> dict[str, Any]:
        plain = value.get if isinstance(value, Mapping) else lambda name: getattr(value, name)
        return {name: kind.show(kind.get(value) if kind.get else plain(name)) for name, kind in fields.items()}

    return Kind(schema, show)


class With:
    """An object with some fields more, or in place of its own."""

    def __init__(self, inner: Any, **fields: Any) -> None:
        self._inner = inner
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _short(text: str) -> str:
    return bounds.prose(text, 300)


def _message(text: str) -> str:
    return bounds.line(text, bounds.MESSAGE)


def _lines(found: Any) -> dict[str, Any]:
    """Returns the JSON form of a blamed line, a match of a search or a fork, each text on one line."""
    return {name: bounds.line(each) if isinstance(each, str) else each for name, each in found.to_dict().items()}


TEXT, COUNT, FLAG, OBJECT = (Kind({"type": name}) for name in ("string", "integer", "boolean", "object"))
COUNT = COUNT._replace(schema={**COUNT.schema, "minimum": 0})
LINE, PROSE, PATH = (TEXT._replace(show=show) for show in (bounds.line, bounds.prose, bounds.path))
SHORT, MESSAGE = TEXT._replace(show=_short), TEXT._replace(show=_message)
TIME = TEXT._replace(show=datetime.isoformat)
_FACTS = Kind({"type": "object", "additionalProperties": TEXT.schema}, bounds.pairs)
_COUNTS = Kind({"type": "object", "additionalProperties": COUNT.schema})
_PIECE = table(text=TEXT, next_offset=maybe(COUNT))
_PATHS = some(PATH, bounds.PATHS)
_LEFT_OUT = some(table(path=PATH, reason=TEXT, detail=LINE))
_CONFLICTS = some(table(path=PATH, reason=LINE))
_ANSWERS = OBJECT._replace(show=_lines)

_SUMMARY = {
    "id": TEXT,
    "name": LINE,
    "description": SHORT,
    "kind": TEXT,
    "created_at": TIME,
    "parent": maybe(TEXT),
    "files_changed": COUNT._replace(show=len),
    "complete": FLAG,
    "is_position": FLAG,
}
_DETAILS = table(
    **{**_SUMMARY, "description": PROSE, "files_changed": _PATHS},
    not_captured=_LEFT_OUT,
    git=maybe(table(branch=LINE, commit=LINE.of("commit_hash"))),
    context=_FACTS,
)
_OPERATION = maybe(
    table(
        kind=TEXT,
        checkpoint=maybe(TEXT),
        at=maybe(TIME),
        prompt=maybe(COUNT),
        text=LINE,
        agent=LINE,
        session=LINE,
        running=FLAG,
    )
)
_CHANGES = {"creates": _PATHS, "modifies": _PATHS, "deletes": _PATHS, "keeps": _LEFT_OUT, "conflicts": _CONFLICTS}
_TARGET = table(id=TEXT, name=LINE, created_at=TIME)
_CALL = table(
    tool=COUNT.of("number"),
    name=LINE,
    text=LINE,
    at=TEXT,
    outcome=TEXT,
    checkpoint=maybe(TEXT),
    changed=some(PATH, 20),
)
_CHAPTER = table(
    ref=TEXT,
    agent=LINE,
    session=LINE,
    machine=maybe(LINE),
    prompt=COUNT,
    text=SHORT,
    at=TEXT,
    ended=FLAG,
    undone=FLAG,
    is_position=FLAG.of(lambda told: bool(told.here)),
    calls=some(_CALL).of("happened"),
)

SAVED = table(saved=FLAG, checkpoint=maybe(_DETAILS))
LISTED = table(checkpoints=listed(table(**_SUMMARY)), next_offset=maybe(COUNT))
DIFFERENCE = table(
    **{"from": TEXT.of("from_"), "to": TEXT},
    added=_PATHS,
    modified=_PATHS,
    deleted=_PATHS,
    renamed=some(table(**{"from": PATH.of(lambda pair: pair[0]), "to": PATH.of(lambda pair: pair[1])}), bounds.PATHS),
    patch=maybe(_PIECE),
)
SHOWN = table(checkpoint=_DETAILS, diff=DIFFERENCE)
READ = table(checkpoint=TEXT, path=PATH, bytes=COUNT, binary=FLAG, content=maybe(_PIECE))
PLANNED = table(plan_id=TEXT, target=_TARGET, nothing_to_do=FLAG.of("is_noop"), **_CHANGES)
REVERT_PLANNED = table(plan_id=TEXT, reverts=_OPERATION.of("undone"), nothing_to_do=FLAG.of("is_noop"), **_CHANGES)
REPORTED = table(
    target=TEXT,
    created=_PATHS,
    modified=_PATHS,
    deleted=_PATHS,
    kept=_LEFT_OUT,
    lost=_LEFT_OUT,
    conflicts=_CONFLICTS,
    undone=_OPERATION,
    complete=FLAG,
    saved_before=maybe(TEXT).of("undo"),
)
_PREVIEW = table(preview=FLAG.of(lambda _: True), undoes=_OPERATION.of("undone"), **_CHANGES)
UNDONE = Kind(
    {"type": "object", "anyOf": [REPORTED.schema, _PREVIEW.schema]},
    lambda done: (_PREVIEW if isinstance(done, RestorePlan) else REPORTED).show(done),
)
TOLD = table(chapters=listed(_CHAPTER), more=FLAG)
BLAMED = table(path=PATH, lines=some(_ANSWERS, 200))
FOUND = table(matches=some(_ANSWERS, bounds.PAGE), left_out=listed(TEXT))
FORKED = table(forks=some(_ANSWERS, bounds.PAGE))
STANDING = table(
    workspace=PATH,
    checkpoints=COUNT,
    by_kind=_COUNTS,
    bytes=COUNT,
    budget=COUNT,
    position=maybe(TEXT),
    files=COUNT,
    unsaved=_COUNTS,
    complete=FLAG,
    pending=maybe(OBJECT),
    not_captured=_LEFT_OUT,
    warnings=listed(MESSAGE, 10),
)
