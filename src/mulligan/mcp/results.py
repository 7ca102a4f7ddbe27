"""
What each tool answers, as JSON Schema for the client: the shapes that `views` makes.

Clients check answers against these, so a field that is missing or misspelt is an error of ours that a test finds.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}


def maybe(schema: Schema) -> Schema:
    """Describes a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(item: Schema) -> Schema:
    """Describes a list."""
    return {"type": "array", "items": item}


def table(**fields: Schema) -> Schema:
    """Describes an object that has just these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def some(item: Schema) -> Schema:
    """Describes a part of a list, as `bounds.some` makes it."""
    return table(items=listed(item), total=COUNT, more=COUNT)


_FACTS: Schema = {"type": "object", "additionalProperties": TEXT}
_COUNTS: Schema = {"type": "object", "additionalProperties": COUNT}
_PIECE = table(text=TEXT, next_offset=maybe(COUNT))
_PATHS = some(TEXT)
_LEFT_OUT = some(table(path=TEXT, reason=TEXT, detail=TEXT))
_CONFLICTS = some(table(path=TEXT, reason=TEXT))
_SUMMARY = {
    "id": TEXT,
    "name": TEXT,
    "description": TEXT,
    "kind": TEXT,
    "created_at": TEXT,
    "parent": maybe(TEXT),
    "files_changed": COUNT,
    "complete": FLAG,
    "is_position": FLAG,
}
_DETAILS = table(
    **{**_SUMMARY, "files_changed": _PATHS},
    not_captured=_LEFT_OUT,
    git=maybe(table(branch=TEXT, commit=TEXT)),
    context=_FACTS,
)
_OPERATION = maybe(
    table(
        kind=TEXT,
        checkpoint=maybe(TEXT),
        at=maybe(TEXT),
        prompt=maybe(COUNT),
        text=TEXT,
        agent=TEXT,
        session=TEXT,
        running=FLAG,
    )
)
_CHANGES = {"creates": _PATHS, "modifies": _PATHS, "deletes": _PATHS, "keeps": _LEFT_OUT, "conflicts": _CONFLICTS}
_TARGET = table(id=TEXT, name=TEXT, created_at=TEXT)
_CALL = table(tool=COUNT, name=TEXT, text=TEXT, at=TEXT, outcome=TEXT, checkpoint=maybe(TEXT), changed=_PATHS)

SAVED = table(saved=FLAG, checkpoint=maybe(_DETAILS))
LISTED = table(checkpoints=listed(table(**_SUMMARY)), next_offset=maybe(COUNT))
DIFFERENCE = table(
    **{"from": TEXT, "to": TEXT},
    added=_PATHS,
    modified=_PATHS,
    deleted=_PATHS,
    renamed=some(table(**{"from": TEXT, "to": TEXT})),
    patch=maybe(_PIECE),
)
SHOWN = table(checkpoint=_DETAILS, diff=DIFFERENCE)
READ = table(checkpoint=TEXT, path=TEXT, bytes=COUNT, binary=FLAG, content=maybe(_PIECE))
PLANNED = table(plan_id=TEXT, target=_TARGET, nothing_to_do=FLAG, **_CHANGES)
REVERT_PLANNED = table(plan_id=TEXT, reverts=_OPERATION, nothing_to_do=FLAG, **_CHANGES)
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
    saved_before=maybe(TEXT),
)
UNDONE = {"type": "object", "anyOf": [REPORTED, table(preview=FLAG, undoes=_OPERATION, **_CHANGES)]}
TOLD = table(
    chapters=listed(
        table(
            ref=TEXT,
            agent=TEXT,
            session=TEXT,
            prompt=COUNT,
            text=TEXT,
            at=TEXT,
            ended=FLAG,
            undone=FLAG,
            is_position=FLAG,
            calls=some(_CALL),
        )
    ),
    more=FLAG,
)
_ANSWERS = some({"type": "object"})
BLAMED = table(path=TEXT, lines=_ANSWERS)
FOUND = table(matches=_ANSWERS, left_out=listed(TEXT))
FORKED = table(forks=_ANSWERS)
STANDING = table(
    workspace=TEXT,
    checkpoints=COUNT,
    by_kind=_COUNTS,
    bytes=COUNT,
    budget=COUNT,
    position=maybe(TEXT),
    files=COUNT,
    unsaved=_COUNTS,
    complete=FLAG,
    pending=maybe({"type": "object"}),
    not_captured=_LEFT_OUT,
    warnings=listed(TEXT),
)
