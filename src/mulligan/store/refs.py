"""
The refs of a store: refs/checkpoints/<name>, loose or in packed-refs, as git keeps them.

Promise: a ref is written whole or not at all (unsynced refs came back as zero bytes), and what was written or removed stays so
after a power cut. A removed ref does not come back, because packed-refs loses it before the loose file does. Temporaries live
in tmp/, where git does not look for refs. Only the holder of the writer's lock may call what changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mulligan.safefs.directory import Directory, NotRegular
from mulligan.safefs.durable import NewFile, sync, write_durably

HOME = b"refs/checkpoints"
PACKED = b"packed-refs"
PACKED_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUE = rb"[0-9a-f]{40}"
_LIMIT = 64


def write_ref(directory: Directory, name: str, oid: bytes) -> None:
    """Points a ref at a commit, durably."""
    temporary, parts, what = staged_ref(name, oid)
    with directory.child(b"tmp") as tmp, directory.descend(HOME) as refs:
        tmp.unlink(temporary, missing_ok=True)  # a crash may have left it
        write_durably(refs, _check(name), parts, temporary=temporary, what=what, via=tmp)


def staged_ref(name: str, oid: bytes) -> NewFile:
    """Returns the file that must be in tmp/, its bytes durable, before `place_ref` makes it a ref."""
    return b"ref-" + _check(name), (oid.hex().encode() + b"\n",), "a ref"


def drop_staged_ref(directory: Directory, name: str) -> None:
    """Removes the staged ref of a checkpoint that did not become part of the timeline."""
    with directory.child(b"tmp") as tmp:
        tmp.unlink(b"ref-" + _check(name), missing_ok=True)


def place_ref(directory: Directory, name: str, gone: Iterable[str] = ()) -> None:
    """Puts a ref that is staged in tmp/ in place and removes others, durably; FileNotFoundError when it is not there."""
    raw = _check(name)
    with directory.child(b"tmp") as tmp, directory.descend(HOME) as refs:
        tmp.rename(b"ref-" + raw, raw, to=refs)
        _remove(directory, refs, gone)


def remove_refs(directory: Directory, names: Iterable[str]) -> None:
    """Removes refs, durably; a name that has none is harmless."""
    with directory.descend(HOME) as refs:
        _remove(directory, refs, names)


def _remove(directory: Directory, refs: Directory, names: Iterable[str]) -> None:
    gone = {_check(name) for name in names}
    packed = packed_refs(directory) if gone else {}
    kept = {ref: value for ref, value in packed.items() if ref.rpartition(b"/")[2] not in gone or not is_ours(ref)}
    if len(kept) != len(packed):
        write_packed(directory, kept)
    for name in gone:
        refs.unlink(name, missing_ok=True)
    sync(refs.fd, "the directory of refs")


def read_refs(directory: Directory) -> dict[str, bytes]:
    """Returns every checkpoint ref that can be read: its name and the id of its commit."""
    # Loose first: a ref that is packed between the two reads is found in one of them.
    loose, _ = loose_refs(directory)
    packed = {ref[len(HOME) + 1 :]: value for ref, value in packed_refs(directory).items() if is_ours(ref)}
    return {name.decode("ascii"): oid for name, oid in (packed | loose).items()}


def read_loose(directory: Directory, names: Iterable[str]) -> dict[str, bytes]:
    """Returns those of some refs that are loose files, as they are: the commit of each, nothing for one that holds no id."""
    found: dict[str, bytes] = {}
    try:
        home = directory.descend(HOME)
    except OSError:
        return {}
    with home:
        for name in names:
            try:
                value = home.read(_check(name), limit=_LIMIT)
            except OSError:
                continue  # not there, or not to be read: then it is not a ref
            found[name] = bytes.fromhex(value[:40].decode()) if _is_loose(value) else b""
    return found


def bad_refs(directory: Directory) -> list[str]:
    """Returns the names of loose refs that hold no id, or cannot be refs of ours."""
    return sorted(name.decode("utf-8", "replace") for name in loose_refs(directory)[1])


def _is_name(name: str) -> bool:
    """Returns whether letters, digits, `_`, `-` and single dots inside make a name that git takes, too."""
    plain = bool(name) and name[0] in LETTERS and not name.strip(LETTERS + "_.-")
    return plain and ".." not in name and not name.endswith(".")


def _is_loose(value: bytes) -> bool:
    """Returns whether these are the bytes of a loose ref: an id and the end of its line."""
    return len(value) == 41 and value[40:] == b"\n" and not value[:40].strip(b"0123456789abcdef")


def _check(name: str) -> bytes:
    if not _is_name(name) or len(name) > 200 or name.endswith(".lock"):
        raise ValueError(f"{name!r} cannot be the name of a ref")
    return name.encode("ascii")


def is_ours(ref: bytes) -> bool:
    """Returns whether a ref is that of a checkpoint."""
    name = ref[len(HOME) + 1 :].decode("ascii", "replace")
    return ref.startswith(HOME + b"/") and _is_name(name)


def loose_refs(directory: Directory) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Returns the loose refs of checkpoints, and the names of files that are none."""
    found: dict[bytes, bytes] = {}
    bad: list[bytes] = []
    try:
        refs = directory.descend(HOME)
    except FileNotFoundError:
        return {}, []
    with refs:
        for name in refs.names():
            try:
                value = refs.read(name, limit=_LIMIT)
            except FileNotFoundError:
                continue  # removed or packed since the listing
            except (NotRegular, IsADirectoryError):
                value = b""
            if _is_loose(value) and _is_name(name.decode("utf-8", "replace")):
                found[name] = bytes.fromhex(value[:40].decode())
            else:
                bad.append(name)
    return found, bad


def packed_refs(directory: Directory) -> dict[bytes, bytes]:
    """Returns all of packed-refs, others' refs too; lines that git would not understand are left out."""
    try:
        lines = directory.read(PACKED).split(b"\n")
    except FileNotFoundError:
        return {}
    found: dict[bytes, bytes] = {}
    for line in lines:
        value, _, ref = line.partition(b" ")
        if ref.startswith(b"refs/") and re.fullmatch(_VALUE, value):
            found[ref] = bytes.fromhex(value.decode())
    return found


def packed_lines(refs: dict[bytes, bytes]) -> list[bytes]:
    """Returns the lines of packed-refs."""
    return [PACKED_HEADER, *(b"%b %b\n" % (refs[ref].hex().encode(), ref) for ref in sorted(refs))]


def write_packed(directory: Directory, refs: dict[bytes, bytes]) -> None:
    """Writes packed-refs anew, durably."""
    with directory.child(b"tmp") as tmp:
        tmp.unlink(PACKED, missing_ok=True)
        write_durably(directory, PACKED, packed_lines(refs), temporary=PACKED, what="the packed refs", via=tmp)
