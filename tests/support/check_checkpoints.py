"""
A checkpoint as plain git shows it: the workspace it holds, with every permission bit, and all that is said about it.

Written after docs/explanation/store-format.md, and not after the source.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, NamedTuple

from plain_git import DIRECTORY, Objects, missing_from, tree_entries, tree_of

LINK, EXECUTABLE, FILE = 0o120000, 0o100755, 0o100644
PARTS = frozenset(
    {b"checkpoint.json", b"files", b"sealed", b"modes", b"state", b"git", b"before", b"not-captured.json"}
)
AGE = b"age-encryption.org/v1\n-> X25519 "
ABOUT = frozenset(
    {
        *("format", "id", "name", "description", "kind", "created_ns"),
        *("parent", "complete", "context", "metadata", "git", "defaults"),
    }
)
NO_TREE = "0" * 40
_ODD = re.compile(rb"([0-7]{4}) ([^/\0]+)", re.DOTALL)
#: By path: kind, permission bits (of links: 0) and bytes, as `scenes.state_of` has a workspace.
State = dict[str, tuple[str, int, bytes]]


class Held(NamedTuple):
    """What a commit holds."""

    about: dict[str, Any]
    files: State
    state: dict[str, Any]
    not_captured: list[dict[str, str]]
    trees: dict[str, str]
    sealed: dict[str, tuple[int, int]]  # by path: permission bits and size


def read_checkpoint(objects: Objects, commit: str) -> tuple[Held | None, list[str]]:
    """Returns what a commit holds, None if that cannot be made out, and everything that is wrong with it."""
    if lacking := missing_from(objects, [commit]):
        return None, [f"lacks {len(lacking)} objects: {lacking[0]}"]
    parts = {name: (mode, oid) for name, mode, oid in tree_entries(objects[tree_of(objects, commit)][1])}
    found = [f"an unknown part {name!r}" for name in parts.keys() - PARTS]
    try:
        about = json.loads(objects[parts[b"checkpoint.json"][1]][1])
        rows = json.loads(objects[parts[b"not-captured.json"][1]][1]) if b"not-captured.json" in parts else []
        state = _state(objects, parts[b"state"][1]) if b"state" in parts else {}
        usual = [int(perm) for perm in about["defaults"]]
        files = _files(objects, parts[b"files"][1], usual)
    except (KeyError, ValueError, TypeError) as error:
        return None, [*found, f"cannot be read ({error!r})"]
    if about.keys() - {"secrets"} != ABOUT:
        found.append(f"checkpoint.json has other keys: {sorted(about.keys() ^ ABOUT)}")
    sealed, wrong = _sealed(objects, about.get("secrets"), parts.get(b"sealed", (0, NO_TREE))[1], files)
    found += wrong
    if b"modes" in parts:
        found += _apply_modes(objects, parts[b"modes"][1], files, usual)
    if b"git" in parts:
        found += git_record(objects, parts[b"git"][1])
    found += _before(objects, parts[b"before"][1] if b"before" in parts else "", about["metadata"])
    trees = {name: parts[name.encode()][1] if name.encode() in parts else NO_TREE for name in ("files", "modes")}
    return Held(about, files, state, rows, trees, sealed), found


def _sealed(
    objects: Objects, said: dict[str, Any] | None, tree: str, files: State
) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """The sealed files that a checkpoint lists, and what is wrong with them or with `sealed/`."""
    held = (
        {path: row for path, row in _files(objects, tree, [0, 0, 0]).items() if row[0] != "dir"}
        if tree != NO_TREE
        else {}
    )
    listed: dict[str, tuple[int, int]] = {}
    found: list[str] = []
    for path, oid, key, digest, perm, size in (said or {}).get("files", ()):
        listed[path] = (perm, size)
        content = held.get(path, ("", 0, b""))[2]
        if hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest() != oid:
            found.append(f"sealed/ does not hold {path!r} as it is listed")
        if not content.startswith(AGE) or len(content) < size:
            found.append(f"sealed/{path} is no ciphertext")
        if not re.fullmatch("[0-9a-f]{16}", key) or not re.fullmatch("[0-9a-f]{64}", digest):
            found.append(f"{path!r} names the key {key!r} and the keyed hash {digest!r}")
        if path in files:
            found.append(f"{path!r} is in files/ and in sealed/")
    found += [f"sealed/ holds {path!r}, which is not listed" for path in held.keys() - listed.keys()]
    return listed, found


def _before(objects: Objects, tree: str, metadata: dict[str, Any]) -> list[str]:
    """What is wrong with the state that a step says it changed: the commit must hold that very state."""
    said = metadata.get("mulligan:before")
    if said is None:
        return ["a state before the step that nothing tells of"] if tree else []
    held = {name: oid for name, _mode, oid in tree_entries(objects[tree][1])} if tree else {}
    wanted = {b"files": said["files"], **({b"modes": said["modes"]} if said["modes"] != NO_TREE else {})}
    has_sealed = held.pop(b"sealed", None) is not None
    held = held if has_sealed == ("secrets" in said) else {}
    return [] if held == wanted else ["the state before the step is not the one that it tells of"]


def _state(objects: Objects, tree: str) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, _mode, oid in tree_entries(objects[tree][1]):
        value = json.loads(objects[oid][1])
        state |= value if name == b"+.json" else {name.removesuffix(b".json").decode(): value}
    return state


def _files(objects: Objects, tree: str, usual: list[int]) -> State:
    """The workspace with usual permission bits; ValueError for an entry that a workspace cannot have."""
    perms = {FILE: usual[0], EXECUTABLE: usual[1], DIRECTORY: usual[2], LINK: 0}
    kinds = {FILE: "file", EXECUTABLE: "file", DIRECTORY: "dir", LINK: "link"}
    found: State = {}
    pending = [("", tree)]
    while pending:
        folder, here = pending.pop()
        for name, mode, oid in tree_entries(objects[here][1]):
            if mode not in kinds or name in {b"", b".", b"..", b".git"} or b"/" in name:
                raise ValueError((name, oct(mode)))
            path = folder + os.fsdecode(name)
            found[path] = (kinds[mode], perms[mode], b"" if mode == DIRECTORY else objects[oid][1])
            if mode == DIRECTORY:
                pending.append((path + "/", oid))
    return found


def _apply_modes(objects: Objects, tree: str, files: State, usual: list[int]) -> list[str]:
    """Puts the unusual permission bits into a workspace; returns what `modes/` says of paths that have none."""
    found = []
    pending = [("", tree)]
    while pending:
        folder, here = pending.pop()
        parts = {name: oid for name, _mode, oid in tree_entries(objects[here][1])}
        if not parts or parts.keys() - {b"f", b"d"}:
            found.append(f"modes/ has an odd directory for {folder!r}")
        for row in objects[parts[b"f"]][1].split(b"\0") if b"f" in parts else ():
            match = _ODD.fullmatch(row)
            path = folder + os.fsdecode(match[2]) if match else ""
            kind, before, content = files.get(path, ("", 0, b""))
            if match is None or kind not in {"file", "dir"}:
                found.append(f"modes/ speaks of {row!r} in {folder!r}")
                continue
            perm = int(match[1], 8)
            if perm == before or (
                kind == "file" and (before == usual[1]) != bool(perm & 0o100) and usual[0] != usual[1]
            ):
                found.append(f"modes/ contradicts files/ about {path!r}")
            files[path] = (kind, perm, content)
        for name, _mode, oid in tree_entries(objects[parts[b"d"]][1]) if b"d" in parts else ():
            path = folder + os.fsdecode(name)
            if files.get(path, ("", 0, b""))[0] != "dir":
                found.append(f"modes/ enters {path!r}, which is no directory")
            pending.append((path + "/", oid))
    return found


def git_record(objects: Objects, tree: str) -> list[str]:
    """What is wrong with the record of where the user's repository stood."""
    parts = {name: oid for name, _mode, oid in tree_entries(objects[tree][1])}
    found = [f"git/ has an unknown part {name!r}" for name in parts.keys() - {b"position.json", b"index"}]
    try:
        position = json.loads(objects[parts[b"position.json"]][1])
        commits = [position["commit"], *dict(position["refs"]).values()]
    except (KeyError, ValueError, TypeError) as error:
        return [*found, f"git/position.json cannot be read ({error!r})"]
    found += [f"git/ names {commit!r} as a commit" for commit in commits if not re.fullmatch("|[0-9a-f]{40}", commit)]
    if b"index" in parts:
        index = objects[parts[b"index"]][1]
        checksum = hashlib.sha1(index[:-20]).digest()
        if not index.startswith(b"DIRC") or index[-20:] not in {checksum, bytes(20)}:
            found.append("git/index is no whole index")
    return found
