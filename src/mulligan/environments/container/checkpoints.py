"""
A checkpoint of a container, and how it is written on an image.

An image's labels carry all of it: whose it is, when and why it was made, how the container is to be started, and which
checkpoints of mounted workspaces belong to it. So checkpoints outlive the process, the container and the record, and
`docker images --filter label=mulligan.environment=NAME` lists them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

# On containers and images.
ENVIRONMENT, REQUEST = "mulligan.environment", "mulligan.request"
BACK, FORWARD, OPERATION = "mulligan.back", "mulligan.forward", "mulligan.operation"
# On images alone.
CHECKPOINT, CREATED, KIND, DETAILS = "mulligan.checkpoint", "mulligan.created", "mulligan.kind", "mulligan.details"

#: An empty value is not allowed in a label everywhere.
NONE = "-"
MANUAL, SAFETY, BASE = "manual", "safety", "base"


class SavedWorkspace(NamedTuple):
    """A mounted directory and the checkpoint of it that belongs to a container's."""

    host: str
    inside: str
    checkpoint: str


class ContainerCheckpoint(NamedTuple):
    """
    One saved state of a container and of what is mounted into it.

    `complete` is false when a file of a mounted workspace could not be read; `still` is false when the container could
    not be paused and went on while it was saved.
    """

    id: str
    created: datetime
    kind: str
    image: str
    request: dict[str, Any]
    workspaces: tuple[SavedWorkspace, ...] = ()
    name: str = ""
    description: str = ""
    complete: bool = True
    still: bool = True
    back: str = ""
    forward: str = ""
    order: int = 0

    def labels(self, environment: str) -> dict[str, str]:
        """Returns the labels of its image; every value is plain text without quotes or spaces."""
        details = {
            "name": self.name,
            "description": self.description,
            "workspaces": [list(each) for each in self.workspaces],
            "complete": self.complete,
            "still": self.still,
            "order": self.order,
        }
        return {
            ENVIRONMENT: environment,
            CHECKPOINT: self.id,
            CREATED: self.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            KIND: self.kind,
            DETAILS: encode(details),
            REQUEST: encode(self.request),
            BACK: self.back or NONE,
            FORWARD: self.forward or NONE,
            OPERATION: NONE,
        }


def named(labels: Mapping[str, str], key: str) -> str:
    """Returns a label that may say nothing."""
    value = labels.get(key, NONE)
    return "" if value == NONE else value


def tag_of(environment: str, checkpoint_id: str) -> str:
    """Returns the tag of a checkpoint's image."""
    return f"{environment}-{checkpoint_id}"


def created_at(nanoseconds: int) -> datetime:
    """Returns a moment as people read it."""
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC)


def encode(value: Mapping[str, Any]) -> str:
    """Returns a JSON object as text that a label can hold in any engine, whatever is in it."""
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode("ascii")).decode("ascii")


def decode(text: str) -> dict[str, Any]:
    """Returns what `encode` wrote; ValueError for anything else."""
    value = json.loads(base64.urlsafe_b64decode(text))
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - one error for all that is wrong with a label
    return value


def read_images(rows: Iterable[Mapping[str, Any]], environment: str) -> list[ContainerCheckpoint]:
    """Returns the checkpoints among some images, oldest first; an image whose labels make no sense is none."""
    found = [each for row in rows if (each := _read_image(row, environment)) is not None]
    return sorted(found, key=lambda each: (each.order, each.id))


def _read_image(row: Mapping[str, Any], environment: str) -> ContainerCheckpoint | None:
    labels = row.get("Labels") or {}
    try:
        details, request = decode(labels[DETAILS]), decode(labels[REQUEST])
        checkpoint_id = str(labels[CHECKPOINT])
        # An untagged layer of a younger checkpoint still bears the labels of the older one.
        if not any(tag.endswith(f":{tag_of(environment, checkpoint_id)}") for tag in row["RepoTags"]):
            return None
        return ContainerCheckpoint(
            checkpoint_id,
            created_at(int(details["order"])),
            str(labels[KIND]),
            str(row["Id"]),
            request,
            tuple(SavedWorkspace(*each) for each in details["workspaces"]),
            details["name"],
            details["description"],
            bool(details["complete"]),
            bool(details["still"]),
            named(labels, BACK),
            named(labels, FORWARD),
            int(details["order"]),
        )
    except (KeyError, ValueError, TypeError):
        return None
