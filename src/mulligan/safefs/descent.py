"""Many directories beneath a root, opened one after the other, each name by name and never through a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mulligan.safefs import syscalls
from mulligan.safefs.directory import DIRECTORY_FLAGS

# Descriptors held open at once; what lies deeper is left to those who can do with less.
DEEPEST = 40


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
        return -1  # gone, swapped for something else, or not to be read: whoever looks closer says which
    return here
