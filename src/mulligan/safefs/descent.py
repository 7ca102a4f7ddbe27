"""Many directories beneath a root, opened one after the other, each name by name and never through a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mulligan.safefs import syscalls
from mulligan.safefs.directory import DIRECTORY_FLAGS, Directory

# Descriptors held open at once; what lies deeper is left to those who can do with less.
DEEPEST = 40


def depth_first(path: bytes) -> bytes:
    """Returns a key by which directories are sorted as a walk meets them."""
    # No name holds a NUL, and nothing sorts before it: what is below a directory follows it, before its next sibling.
    return path.replace(b"/", b"\0")


def descending(root: int, paths: Iterable[bytes]) -> Iterator[int]:
    """
    Yields a descriptor for each path, -1 where it cannot be had; each is open until the next is asked for.

    Cheap where what is below a directory follows it: what two paths have in common is opened once.
    """
    above: list[tuple[bytes, int]] = []
    try:
        for path in paths:
            while above and not path.startswith(above[-1][0]):
                syscalls.calls.close(above.pop()[1])
            yield _deeper(root, path, above)
    finally:
        for _, fd in above:
            syscalls.calls.close(fd)


def _deeper(root: int, path: bytes, above: list[tuple[bytes, int]]) -> int:
    """Opens what is missing between the last of the open directories and a path."""
    known, here = above[-1] if above else (b"", root)
    try:
        for name in path[len(known) :].split(b"/") if path else ():
            if len(above) >= DEEPEST:
                return -1
            here = syscalls.calls.open(name, DIRECTORY_FLAGS, dir_fd=here)
            known += name + b"/"
            above.append((known, here))
    except OSError:
        return -1  # gone, swapped for something else, or not to be read: the walk says which
    return here


class Descent:
    """The way from a root to a directory, held open: the next directory is most often near the last one. Use it with `with`."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._way: list[tuple[bytes, Directory]] = []  # each with the path that everything below it begins with

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *_: object) -> None:
        while self._way:
            self._way.pop()[1].close()

    def to(self, path: bytes) -> Directory:
        """Returns a directory, open until the next is asked for; OSError where it, or one above it, cannot be opened."""
        way = self._way
        while way and not (path + b"/").startswith(way[-1][0]):
            way.pop()[1].close()
        known, here = way[-1] if way else (b"", self._root)
        if here.fd < 0:  # closed because too many were open
            here = self._root.descend(known[:-1])
            way[-1] = (known, here)
        for name in path[len(known) :].split(b"/") if len(path) > len(known) else ():
            here, known = here.child(name), known + name + b"/"
            way.append((known, here))
            if len(way) > DEEPEST:
                way[-DEEPEST - 1][1].close()
        return here
