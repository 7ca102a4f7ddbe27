"""
Sealing the secrets that a scan found, and opening them again.

A scan lists a secret that git does not track as not captured. Here it is read, compared by its keyed hash with the one that
the last checkpoint holds, and sealed only if it differs. What cannot be sealed is listed, and the checkpoint is partial: a
secret is never saved in the plain instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mulligan.errors import DurabilityLost, FileSealed, KeyMissing, MulliganError, StoreDamaged
from mulligan.model.checkpoint import SECRET, SPECIAL, TOO_LARGE, UNREADABLE
from mulligan.model.objects import BLOB
from mulligan.model.paths import parent_of, to_text
from mulligan.model.sealed import Sealed, SealedFile, Secrets
from mulligan.safefs.clock import stamping_clock
from mulligan.safefs.directory import Directory
from mulligan.scan.read import Unreadable, capture
from mulligan.scan.record import Missed
from mulligan.scan.trees import HashOnly, Scan

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.keyring import Key, Keyring
    from mulligan.timeline.vault import Vault

_FILE, _KIND = 0o100000, 0o170000


class _Bytes(HashOnly):
    """A sink that holds on to what it is given: one file."""

    def __init__(self) -> None:
        self.data = b""

    def add_hashed(self, oid: bytes, kind: bytes, data: bytes) -> None:  # noqa: ARG002 - the shape of a sink
        """Takes a file."""
        self.data = data

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """Takes a large file."""
        self.data = b"".join(chunks)
        return super().add_stream(size, [self.data])


def seal_workspace(vault: Vault, scan: Scan, sink: Any = None, directory: str = "") -> Scan:
    """Returns the scan with the secrets that it lists sealed, into a sink; without one, it says only whether they changed."""
    if vault.settings.capture.secrets == "skip":
        return scan
    found = [path for path, missed in scan.missed.items() if missed.reason == SECRET]
    if not found:
        return replace(scan, secrets=Secrets())
    sealing = _Sealing(vault, scan, sink)
    with Directory.open(directory or vault.settings.workspace) as root:
        for path in sorted(found):
            sealing.take(root, path)
    return replace(scan, secrets=Secrets(sealing.key.id if sealing.key is not None else "", sealing.files))


def secrets_of(vault: Vault, entry: Entry) -> tuple[Sealed, bool, dict[bytes, str]]:
    """
    Returns the secrets of a checkpoint, whether it knows of all that were there, and which are without their key.

    It knows only of those of the machine that saved it, and of none where they were skipped.
    """
    sealed, plain = entry.sealed, entry.checkpoint.plain_secrets
    knows = plain is not None and plain.get("key") in ("", vault.keys.default)
    return sealed, knows, {path: file.key for path, file in sealed.items() if vault.keys.get(file.key) is None}


def closed_secrets(vault: Vault, steps: Iterable[Any]) -> dict[bytes, str]:
    """Returns the secrets around some steps that are without their key, by keyed hash, with the name of the key."""
    files = [file for step in steps for state in (step.before, step.after) for file in state.sealed.values()]
    return {file.content_id: file.key for file in files if file.key and vault.keys.get(file.key) is None}


class _Sealing:
    """The secrets of one scan."""

    def __init__(self, vault: Vault, scan: Scan, sink: Any) -> None:
        self._scan, self._sink, self._problem = scan, sink, ""
        self._most = vault.settings.capture.max_file_size
        here = vault.checkpoints.current() if vault.exists() else None
        # Of a ciphertext that is lost a new one is made.
        self._before = {p: f for p, f in here.sealed.items() if vault.objects.has(f.oid)} if here else {}
        self.files: dict[bytes, SealedFile] = {}
        self.key: Key | None = None
        try:
            self.key = vault.keys.current()
            if self.key is None and sink is not None:
                self.key = vault.keys.make()
        except DurabilityLost:
            raise
        except MulliganError as error:
            self._problem = f"it could not be sealed: {error.message}"

    def take(self, root: Directory, path: bytes) -> None:
        """Seals one secret, or says why it is not saved."""
        name = os.path.basename(path)
        try:
            with root.descend(parent_of(path)) as directory:
                self.files[path] = self._sealed(directory, name, path)
            del self._scan.missed[path]
        except FileNotFoundError:
            del self._scan.missed[path]  # it went while the scan was under way
        except Unreadable as finding:
            self._scan.missed[path] = Missed(name, finding.reason, finding.detail)
        except KeyMissing as error:
            self._scan.missed[path] = Missed(name, UNREADABLE, f"it could not be sealed: {error.message}")
        except OSError as error:
            self._scan.missed[path] = Missed(name, UNREADABLE, os.strerror(error.errno or 0))

    def _sealed(self, directory: Directory, name: bytes, path: bytes) -> SealedFile:
        clock = stamping_clock()
        st = directory.stat(name)
        if st.st_mode & _KIND != _FILE:
            raise Unreadable(SPECIAL, "not a file")
        if st.st_size > self._most:
            raise Unreadable(TOO_LARGE, f"{st.st_size} bytes, the limit is {self._most}")
        if self._problem:
            raise Unreadable(UNREADABLE, self._problem)
        taken = _Bytes()
        plain, seen = capture(directory, name, st, taken, check_secrets=False, since=clock)
        perm = seen.mode & 0o7777
        if self.key is None:  # nothing was ever sealed on this machine, and nothing is to be saved now
            return SealedFile(b"", "", "", perm, len(taken.data), plain)
        digest, before = self.key.digest(taken.data), self._before.get(path)
        if before is not None and (before.key, before.digest) == (self.key.id, digest):
            if self._sink is not None:
                self._sink.relied.add(before.oid)  # room that is made for this checkpoint must not take it
            return before._replace(perm=perm, plain=plain)
        oid = self._sink.add(BLOB, self.key.seal(taken.data)) if self._sink is not None else b""
        return SealedFile(oid, self.key.id, digest, perm, len(taken.data), plain)


def opened(file: SealedFile, path: bytes, keys: Keyring, read: Callable[[bytes, bytes], bytes]) -> bytes:
    """Returns the content of a sealed file; raises KeyMissing, or StoreDamaged where it is not what was sealed."""
    key = keys.get(file.key)
    if key is None:
        raise KeyMissing(
            f"{to_text(path)!r} is sealed with the key {file.key}, which is not on this machine. Nothing was changed.",
            hint="Bring the key: mulligan key import FILE",
        )
    data = key.open(read(file.oid, BLOB))
    if key.digest(data) != file.digest:
        raise StoreDamaged(f"The sealed file {to_text(path)!r} is not what was saved.", hint="mulligan check")
    return data


def revealed(vault: Vault, entry: Entry, path: bytes, *, reveal: bool) -> bytes:
    """Returns the content of a secret at a checkpoint; raises FileSealed unless it is to be revealed."""
    if not reveal:
        raise FileSealed(
            f"{to_text(path)!r} is a secret: it is saved sealed, and its content is shown only on request.",
            hint=f"In a terminal: mulligan cat --reveal {entry.checkpoint.short_id}:{to_text(path)}",
        )
    return opened(entry.sealed[path], path, vault.keys, vault.objects.read)
