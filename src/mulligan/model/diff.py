"""
What differs between two states, as a value.

The lists of paths are there at once. The patch and the counts per file need file contents, so they are worked out when
first needed, once, also when several threads ask at the same moment; afterwards they are plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

ADDED, MODIFIED, DELETED, RENAMED = "added", "modified", "deleted", "renamed"


@dataclass(frozen=True)
class FileStat:
    """
    How much one file changed, in lines; binary files and files that were not compared count 0 and 0.

    `mode` says how the kind or the executable bit changed (`100644 => 100755`), empty where it did not.
    """

    path: str
    status: str
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    old_path: str | None = None
    mode: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "path": self.path,
            "status": self.status,
            "additions": self.additions,
            "deletions": self.deletions,
            "binary": self.binary,
            "old_path": self.old_path,
            "mode": self.mode,
        }


class Rendered(NamedTuple):
    """The part of a diff that needs file contents."""

    patch: str
    stat: tuple[FileStat, ...]


def _nothing() -> Rendered:
    return Rendered("", ())


@dataclass(frozen=True)
class Diff:
    """
    The difference between two states of a workspace; paths only, directories are not listed.

    A renamed file is in `renamed` alone. Lone surrogates in `patch` stand for bytes that are not UTF-8:
    `patch.encode("utf-8", "surrogateescape")` gives what `git apply` takes.
    """

    from_: str
    to: str
    added: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    render: Callable[[], Rendered] = field(default=_nothing, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.__dict__["_lock"] = Lock()

    @property
    def patch(self) -> str:
        """The unified patch in git's style."""
        return self._rendered().patch

    @property
    def stat(self) -> tuple[FileStat, ...]:
        """The counts per file, in the order of the patch."""
        return self._rendered().stat

    @property
    def is_empty(self) -> bool:
        """Whether the two states are the same."""
        return not (self.added or self.modified or self.deleted or self.renamed)

    @property
    def files(self) -> list[str]:
        """Every path that changed, sorted; a renamed file under both of its names."""
        pairs = [name for pair in self.renamed for name in pair]
        return sorted([*self.added, *self.modified, *self.deleted, *pairs])

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "from": self.from_,
            "to": self.to,
            "added": self.added,
            "modified": self.modified,
            "deleted": self.deleted,
            "renamed": [list(pair) for pair in self.renamed],
            "patch": self.patch,
        }

    def _rendered(self) -> Rendered:
        held: dict[str, Any] = self.__dict__
        with held["_lock"]:
            if "_cached" not in held:
                held["_cached"] = self.render()
            cached: Rendered = held["_cached"]
            return cached

    def __getstate__(self) -> dict[str, Any]:
        # A lock and an open workspace cannot be copied: a copy is a diff whose contents were read already.
        cached = self._rendered()
        plain = {key: value for key, value in self.__dict__.items() if key not in ("_lock", "render")}
        return {**plain, "_cached": cached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, render=_nothing, _lock=Lock())
