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

_HOME = b"refs/checkpoints"
_PACKED = b"packed-refs"
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Patterns as text: `re` compiles each when it is first needed, and a save needs none of them.
_VALUE = rb"[0-9a-f]{40}"
_SPACES = rb"checkpoints|heads|tags|notes|remotes|replace"
_LINE = rb"[0-9a-f]{40} refs/(?:(?:%b)/[^\x00-\x20\x7f~^:?*\\\[]+|stash)|\^[0-9a-f]{40}" % _SPACES
_LIMIT = 64


def write_ref(directory: Directory, name: str, oid: bytes) -> None:
    """Points a ref at a commit, durably."""
    temporary, parts, what = staged_ref(name, oid)
    with directory.child(b"tmp") as tmp, directory.descend(_HOME) as refs:
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
    with directory.child(b"tmp") as tmp, directory.descend(_HOME) as refs:
        tmp.rename(b"ref-" + raw, raw, to=refs)
        _remove(directory, refs, gone)


def remove_refs(directory: Directory, names: Iterable[str]) -> None:
    """Removes refs, durably; a name that has none is harmless."""
    with directory.descend(_HOME) as refs:
        _remove(directory, refs, names)


def _remove(directory: Directory, refs: Directory, names: Iterable[str]) -> None:
    gone = {_check(name) for name in names}
    packed = _read_packed(directory) if gone else {}
    kept = {ref: value for ref, value in packed.items() if ref.rpartition(b"/")[2] not in gone or not _is_ours(ref)}
    if len(kept) != len(packed):
        _write_packed(directory, kept)
    for name in gone:
        refs.unlink(name, missing_ok=True)
    sync(refs.fd, "the directory of refs")


def read_refs(directory: Directory) -> dict[str, bytes]:
    """Returns every checkpoint ref that can be read: its name and the id of its commit."""
    # Loose first: a ref that is packed between the two reads is found in one of them.
    loose, _ = _read_loose(directory)
    packed = {ref[len(_HOME) + 1 :]: value for ref, value in _read_packed(directory).items() if _is_ours(ref)}
    return {name.decode("ascii"): oid for name, oid in (packed | loose).items()}


def read_loose(directory: Directory, names: Iterable[str]) -> dict[str, bytes]:
    """Returns those of some refs that are loose files, as they are: the commit of each, nothing for one that holds no id."""
    found: dict[str, bytes] = {}
    try:
        home = directory.descend(_HOME)
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
    return sorted(name.decode("utf-8", "replace") for name in _read_loose(directory)[1])


def odd_lines(directory: Directory) -> list[str]:
    """Returns what in packed-refs is not as git writes it, in words."""
    try:
        first, *lines = directory.read(_PACKED).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"it cannot be read ({error.strerror})"]
    wrong = [] if first + b"\n" == _HEADER else ["it does not begin as it must"]
    if lines and lines[-1]:
        wrong.append("it is cut short")
    odd = [line for line in lines[:-1] if not re.fullmatch(_LINE, line) or _is_misnamed(line[41:])]
    return wrong + ([f"{len(odd)} of its lines are no refs"] if odd else [])


def rewrite_packed(directory: Directory) -> None:
    """Writes packed-refs anew with the lines that can be read."""
    packed = _read_packed(directory).items()
    _write_packed(
        directory,
        {
            ref: oid
            for ref, oid in packed
            if re.fullmatch(_LINE, oid.hex().encode() + b" " + ref) and not _is_misnamed(ref)
        },
    )


def pack_refs(directory: Directory) -> None:
    """Gathers the loose checkpoint refs in packed-refs, durably."""
    loose, _ = _read_loose(directory)
    if not loose:
        return
    packed = _read_packed(directory) | {_HOME + b"/" + name: oid for name, oid in loose.items()}
    _write_packed(directory, packed)
    with directory.descend(_HOME) as refs:
        for name in loose:
            refs.unlink(name, missing_ok=True)
        sync(refs.fd, "the directory of refs")


def foretell_packing(directory: Directory) -> int:
    """Returns how many bytes on the disk `pack_refs` would free."""
    from mulligan.safefs.room import on_disk, whole_blocks

    loose, _ = _read_loose(directory)
    if not loose:
        return 0
    packed = _read_packed(directory) | {_HOME + b"/" + name: oid for name, oid in loose.items()}
    freed = on_disk(directory.stat(_PACKED)) if directory.exists(_PACKED) else 0
    with directory.descend(_HOME) as refs:
        freed += sum(on_disk(refs.stat(name)) for name in loose)
    return freed - whole_blocks(sum(map(len, _packed_lines(packed))), directory)


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


def _is_misnamed(ref: bytes) -> bool:
    return ref.startswith(_HOME) and not _is_ours(ref)


def _is_ours(ref: bytes) -> bool:
    name = ref[len(_HOME) + 1 :].decode("ascii", "replace")
    return ref.startswith(_HOME + b"/") and _is_name(name)


def _read_loose(directory: Directory) -> tuple[dict[bytes, bytes], list[bytes]]:
    found: dict[bytes, bytes] = {}
    bad: list[bytes] = []
    try:
        refs = directory.descend(_HOME)
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


def _read_packed(directory: Directory) -> dict[bytes, bytes]:
    """Returns all of packed-refs, others' refs too; lines that git would not understand are left out."""
    try:
        lines = directory.read(_PACKED).split(b"\n")
    except FileNotFoundError:
        return {}
    found: dict[bytes, bytes] = {}
    for line in lines:
        value, _, ref = line.partition(b" ")
        if ref.startswith(b"refs/") and re.fullmatch(_VALUE, value):
            found[ref] = bytes.fromhex(value.decode())
    return found


def _packed_lines(refs: dict[bytes, bytes]) -> list[bytes]:
    return [_HEADER, *(b"%b %b\n" % (refs[ref].hex().encode(), ref) for ref in sorted(refs))]


def _write_packed(directory: Directory, refs: dict[bytes, bytes]) -> None:
    with directory.child(b"tmp") as tmp:
        tmp.unlink(_PACKED, missing_ok=True)
        write_durably(directory, _PACKED, _packed_lines(refs), temporary=_PACKED, what="the packed refs", via=tmp)
