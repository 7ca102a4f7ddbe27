"""
Which names rules could mean at all: a coarse question, for all names of a large tree at once.

Most names match no pattern, and to find that out one by one takes longer than everything else that is done about them. What a
name would have to be, begin or end with says it for many rules together. May say yes too often, never no where a rule says something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

# So many beginnings of paths are worth to be compared with every directory.
_MOST_PREFIXES = 256
# So many beginnings and ends are tried on a name one by one sooner than the rules themselves say something.
_MOST_AFFIXES = 256


class Hints:
    """What names would have to be, begin or end with, and where they would have to lie, for any of some rules to say something."""

    def __init__(self) -> None:
        self.names = set[bytes]()
        self.heads = set[bytes]()
        self.tails = set[bytes]()
        self.prefixes = set[bytes]()  # of paths: every name below one, and in the directories on the way there
        self.every = False

    def question(self, path: bytes) -> Callable[[bytes], bool] | None:
        """Returns what tells of a name in a directory whether a rule could mean it; None where every name could be meant."""
        above = path + b"/" if path else b""
        if self.every or len(self.heads) + len(self.tails) > _MOST_AFFIXES:
            return None
        if any(above.startswith(prefix) or prefix.startswith(above) for prefix in self.prefixes):
            return None
        names, heads, tails = self.names, tuple(self.heads), tuple(self.tails)
        return lambda name: name in names or name.endswith(tails) or name.startswith(heads)

    def meant(self, path: bytes, names: Iterable[bytes]) -> list[bytes]:
        """Returns the names in a directory that a rule could mean."""
        is_meant = self.question(path)
        return [name for name in names if is_meant(name)] if is_meant is not None else list(names)

    def add_affixes(self, head: bytes, tail: bytes) -> None:
        """Adds a pattern of names by the bytes that it begins and ends with."""
        if tail:
            self.tails.add(tail)
        elif head:
            self.heads.add(head)
        else:
            self.every = True

    def add_path(self, prefix: bytes, tail: bytes) -> None:
        """Adds a pattern of paths by the bytes that they begin with, and that their names end with."""
        if tail:
            self.tails.add(tail)
        elif prefix and len(self.prefixes) < _MOST_PREFIXES:
            self.prefixes.add(prefix)
        else:
            self.every = True
