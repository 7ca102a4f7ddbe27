"""
The layout of a store: a bare git repository that plain git can read and will not change.

Its configuration keeps git harmless (no gc, no reflogs, precious objects) and neutral about what a workspace holds.
Every directory is 0700 and every file 0600, whatever the umask, and durable before `create` returns.
"""

from __future__ import annotations

import re

from mulligan.model.objects import (
    BLOB,
    COMMIT,
    MODE_FILE,
    TREE,
    Commit,
    TreeEntry,
    encode_commit,
    encode_tree,
    object_id,
)
from mulligan.safefs.directory import Directory
from mulligan.safefs.durable import sync, write_durably
from mulligan.store.objects import ObjectStore
from mulligan.store.refs import HOME, PACKED, PACKED_HEADER, is_ours, packed_refs, write_packed
from mulligan.store.repository import config_of, is_id, store_id

FORMAT = 1
_DIRECTORIES = (b"objects", b"objects/pack", b"objects/info", b"refs", b"refs/heads", b"refs/checkpoints", b"tmp")
_MAIN = b"main"

# What `git fsck` says about contents; a workspace may hold whatever it likes. An id that git does not know is fatal to
# it, so these are the ones of git 2.39 and no later.
_CONTENT_CHECKS = (
    *("gitmodulesMissing", "gitmodulesBlob", "gitmodulesLarge", "gitmodulesName", "gitmodulesSymlink"),
    *("gitmodulesUrl", "gitmodulesPath", "gitmodulesUpdate", "gitmodulesParse"),
    *("gitattributesMissing", "gitattributesLarge", "gitattributesLineLength", "gitattributesBlob"),
    *("gitattributesSymlink", "gitignoreSymlink", "mailmapSymlink", "hasDotgit"),
)

_CONFIG = """\
# Written by mulligan. Plain git can read this repository; it must not tidy it.
[core]
	repositoryformatversion = 1
	bare = true
	filemode = true
	logAllRefUpdates = false
[extensions]
	preciousObjects = true
[gc]
	auto = 0
[maintenance]
	auto = false
[fsck]
{checks}
[mulligan]
	storeid = {store_id}
	format = {format}
"""

_README = b"""\
This is a mulligan store: the checkpoints of one workspace.

It is a bare git repository. Each checkpoint is a commit without parents:

    git for-each-ref refs/checkpoints     lists them
    git show <commit>:files/<path>        prints a file as it was
    git fsck --strict                     checks everything

The timeline, with names and ancestry, is beside it in the same directory.
Please do not run git gc, repack or prune here: mulligan tidies its store itself (mulligan gc).
"""
_TREE = encode_tree([TreeEntry(b"README", MODE_FILE, object_id(BLOB, _README))])
_COMMIT = encode_commit(Commit(object_id(TREE, _TREE), "What this repository is", 1_794_700_800))
_HEAD, _HEAD_TEXT = b"HEAD", b"ref: refs/heads/main\n"
_MAIN_REF, _MAIN_TEXT = b"refs/heads/main", object_id(COMMIT, _COMMIT).hex().encode() + b"\n"
# Objects that belong to every store and that no collection removes.
_PERMANENT = ((BLOB, _README), (TREE, _TREE), (COMMIT, _COMMIT))
PERMANENT = frozenset(object_id(kind, data) for kind, data in _PERMANENT)


def create(directory: Directory, *, name: str) -> None:
    """Makes a store in an open directory, or completes one; what is there already stays as it is."""
    if not is_id(name):
        raise ValueError(f"{name!r} cannot name a store")
    for path in _DIRECTORIES:
        _make_directory(directory, path)
    with directory.descend(b"refs/heads") as heads:
        has_main = heads.exists(_MAIN)
    if not has_main:
        _make_main(directory)
    if not directory.exists(b"HEAD"):
        _write(directory, b"", _HEAD, _HEAD_TEXT)
    if config_of(directory) is None:
        _write(directory, b"", b"config", _config(name).encode())


def _config(name: str) -> str:
    checks = "\n".join(f"\t{check} = ignore" for check in _CONTENT_CHECKS)
    return _CONFIG.format(checks=checks, store_id=name, format=FORMAT)


def strange_parts(directory: Directory) -> list[tuple[str, str]]:
    """Returns the small files of the repository that do not say what they must, each with what is wrong with it."""
    found = []
    for name, wanted in ((_HEAD, _HEAD_TEXT), (_MAIN_REF, _MAIN_TEXT)):
        if _text_of(directory, name) != wanted:
            found.append((name.decode(), "it does not say what it must"))
    config, known = config_of(directory) or "", store_id(directory)
    # A user may have added lines for plain git; ours must be there.
    lacking = set(_config(known or "?").split("\n")) - set(config.split("\n"))
    if lacking:
        found.append(("config", f"it lacks {min(lacking).strip()!r}"))
    return found + [("packed-refs", why) for why in _odd_lines(directory)]


def write_anew(directory: Directory, *, name: str, parts: list[str]) -> None:
    """Writes small files of the repository as they must be; refs that can be read stay."""
    if "HEAD" in parts:
        _write(directory, b"", _HEAD, _HEAD_TEXT)
    if _MAIN_REF.decode() in parts:
        _make_main(directory)
    if "config" in parts:
        _write(directory, b"", b"config", _config(name).encode())
    if "packed-refs" in parts:
        _rewrite_packed(directory)


def _text_of(directory: Directory, path: bytes) -> bytes:
    above, _, name = path.rpartition(b"/")
    try:
        with directory.descend(above) as parent:
            return parent.read(name, limit=1 << 10)
    except OSError:
        return b""


def permanent_objects() -> dict[bytes, tuple[bytes, bytes]]:
    """Returns the objects that belong to every store, by id: kind and bytes."""
    return {object_id(kind, data): (kind, data) for kind, data in _PERMANENT}


def _make_directory(directory: Directory, path: bytes) -> None:
    above, _, name = path.rpartition(b"/")
    with directory.descend(above) as parent:
        if not parent.exists(name):
            parent.mkdir(name)
            sync(parent.fd, "a directory of the store")


def _make_main(directory: Directory) -> None:
    """Gives HEAD a commit to point at, with a README for people who find the directory."""
    store = ObjectStore(directory)
    try:
        with store.writer() as writer:
            for kind, data in _PERMANENT:
                writer.add(kind, data)
            writer.finish()
    finally:
        store.close()
    _write(directory, b"refs/heads", _MAIN, _MAIN_TEXT)


def _write(directory: Directory, path: bytes, name: bytes, data: bytes) -> None:
    with directory.child(b"tmp") as tmp, directory.descend(path) as parent:
        tmp.unlink(name, missing_ok=True)  # a crash may have left it
        write_durably(parent, name, [data], temporary=name, what=f"the store's {name.decode()}", via=tmp)


# -- packed-refs --------------------------------------------------------------------------------

_SPACES = rb"checkpoints|heads|tags|notes|remotes|replace"
_LINE = rb"[0-9a-f]{40} refs/(?:(?:%b)/[^\x00-\x20\x7f~^:?*\\\[]+|stash)|\^[0-9a-f]{40}" % _SPACES


def _odd_lines(directory: Directory) -> list[str]:
    """Returns what in packed-refs is not as git writes it, in words."""
    try:
        first, *lines = directory.read(PACKED).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"it cannot be read ({error.strerror})"]
    wrong = [] if first + b"\n" == PACKED_HEADER else ["it does not begin as it must"]
    if lines and lines[-1]:
        wrong.append("it is cut short")
    odd = [line for line in lines[:-1] if not re.fullmatch(_LINE, line) or _is_misnamed(line[41:])]
    return wrong + ([f"{len(odd)} of its lines are no refs"] if odd else [])


def _rewrite_packed(directory: Directory) -> None:
    """Writes packed-refs anew with the lines that can be read."""
    packed = packed_refs(directory).items()
    write_packed(
        directory,
        {
            ref: oid
            for ref, oid in packed
            if re.fullmatch(_LINE, oid.hex().encode() + b" " + ref) and not _is_misnamed(ref)
        },
    )


def _is_misnamed(ref: bytes) -> bool:
    return ref.startswith(HOME) and not is_ours(ref)
