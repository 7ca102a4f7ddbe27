"""
What a process changed, told by strace: every place that a call could have changed, and whether it lies where it may.

For logs of `strace -f -y`, which writes behind each descriptor what it stands for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

#: For strace: everything that can change a file or a name.
CHANGING = (
    "openat,openat2,open,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,sendfile,"
    "splice,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat,chmod,"
    "fchmod,fchmodat,chown,fchown,lchown,fchownat,utimensat,futimesat,utimes,setxattr,lsetxattr,fsetxattr,removexattr,"
    "lremovexattr,fremovexattr"
)
_CHANGING = frozenset(CHANGING.split(","))
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")
_NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>(?:\(deleted\))?, )?"((?:[^"\\]|\\.)*)"')
_FIRST = re.compile(r"^\d+<((?:[^>\\]|\\.)*)>")
_OPENS = re.compile(r"\b(O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND)\b")
_BY_DESCRIPTOR = frozenset(
    {
        *(
            "write",
            "writev",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "ftruncate",
            "fallocate",
            "fchmod",
            "fchown",
            "fsetxattr",
        ),
        *("fremovexattr", "copy_file_range", "sendfile", "splice"),
    }
)
#: What is no file: pipes and sockets, terminals, the void; and permission bits set through a descriptor, by its name.
HARMLESS = re.compile(r"^(pipe:|socket:|anon_inode:|/dev/(null|tty|pts/|ptmx)|/proc/self/fd/)")


def changed_outside(trace: Iterable[str], allowed: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The lines of a log in which something was opened for writing, or changed, that lies below no allowed directory."""
    roots = tuple(os.path.realpath(root) for root in allowed)
    found = []
    for line in trace:
        for place in places(line):
            inside = any(place == root or place.startswith(root + "/") for root in roots)
            if not inside and not HARMLESS.match(place):
                found.append(f"changed outside: {line.strip()[:300]}")
                break
    return found


def places(line: str) -> Iterator[str]:
    """What one call may have changed, as absolute paths."""
    match = _LINE.match(line)
    if match is None:
        return
    call, rest = match.groups()
    if call not in _CHANGING:
        return
    if call in {"open", "openat", "openat2"} and not _OPENS.search(rest):
        return
    if call in _BY_DESCRIPTOR:
        first = _FIRST.match(rest)
        if first:
            yield first[1]
        return
    named = _NAMED.findall(rest.partition(") = ")[0])
    # What a symbolic link points to changes nothing, and the values of attributes are no names.
    for folder, name in named[1:] if call.startswith("symlink") else named[:1] if "xattr" in call else named:
        yield os.path.normpath(os.path.join(folder or "/?", name))
