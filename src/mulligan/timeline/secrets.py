"""
Sealed secrets, and the keys that seal them.

A scan lists a secret that git does not track as not captured. Here it is read, compared by its keyed hash with the one in the
last checkpoint, and sealed only if it differs. What cannot be sealed is listed, and the checkpoint is partial: a secret is
never saved unencrypted instead.
Keys are in the user's data directory, never in a workspace, a store or the configuration. A key is an age identity in a file of
its own, named by a hash of it and readable by its owner alone. The file `default` names the one that seals; keys of other
machines only open. A key is on the disk before anything is sealed with it, and a missing key is never replaced in silence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.errors import DurabilityLost, FileSealed, KeyMissing, MulliganError, StoreDamaged
from mulligan.model.checkpoint import SECRET, SPECIAL, TOO_LARGE, UNREADABLE, Sealed, SealedFile, Secrets
from mulligan.model.objects import BLOB
from mulligan.model.paths import parent_of, to_text
from mulligan.safefs.clock import stamping_clock
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.durable import make_private, sync, write_synced
from mulligan.safefs.userfile import read_user_file
from mulligan.scan.cache import Missed
from mulligan.scan.read import UnreadableFile, capture
from mulligan.scan.trees import HashOnly, Scan

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.store import Store

_DEFAULT = b"default"
_LIMIT = 4096
_IDENTITY = rb"AGE-SECRET-KEY-1[0-9A-Z]{58}"
_NAME = r"[0-9a-f]{16}"
_WHAT = "the key for secrets"


class SecretKey(NamedTuple):
    """One key: its name and the age identity."""

    id: str
    identity: bytes

    def digest(self, data: bytes) -> str:
        """Returns the keyed hash of a content."""
        derived = blake2b(self.identity, digest_size=32, person=b"mulligan sealed").digest()
        return blake2b(data, digest_size=32, key=derived).hexdigest()

    def seal(self, data: bytes) -> bytes:
        """Returns the ciphertext of a content; raises KeyMissing."""
        age = _age()
        try:
            return bytes(age.encrypt(data, [age.x25519.Identity.from_str(self.identity.decode()).to_public()]))
        except (age.EncryptError, age.IdentityError) as error:
            raise KeyMissing(f"Nothing can be sealed with key {self.id} ({error}).") from error

    def open(self, data: bytes) -> bytes:
        """Returns the content of a ciphertext; raises KeyMissing."""
        age = _age()
        try:
            return bytes(age.decrypt(data, [age.x25519.Identity.from_str(self.identity.decode())]))
        except (age.DecryptError, age.IdentityError) as error:
            raise KeyMissing(f"A sealed file cannot be opened with key {self.id} ({error}).") from error


def _age() -> Any:
    """Returns the library, which is loaded only where something is sealed or opened."""
    try:
        import pyrage  # type: ignore[import-untyped]
    except ImportError as error:
        raise KeyMissing(f"The library pyrage cannot be loaded ({error}).", hint="pip install pyrage") from error
    return pyrage


def key_from(text: bytes) -> SecretKey:
    """Returns the key that a file holds; raises KeyMissing where it holds none."""
    found = re.search(_IDENTITY, text)
    if not found:
        raise KeyMissing("This is not a key: a key is one line that begins with AGE-SECRET-KEY-1. Nothing was changed.")
    return SecretKey(sha256(b"mulligan key " + found[0]).hexdigest()[:16], found[0])


class Keyring:
    """The keys of this user on this machine."""

    def __init__(self, path: str, workspace: str = "") -> None:
        self.path = path
        self._made = ""  # the key that was made, until it was told
        self._workspace = workspace
        self._known: dict[str, SecretKey | None] = {}

    def get(self, name: str) -> SecretKey | None:
        """Returns a key by its name; None where it is not here, or not what its name says."""
        if name not in self._known or self._known[name] is None:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> SecretKey | None:
        if not re.fullmatch(_NAME, name):
            return None
        data = self._file(name.encode())
        try:
            key = key_from(data)
        except KeyMissing:
            return None
        return key if key.id == name else None

    def _file(self, name: bytes) -> bytes:
        try:
            with Directory.open(self.path) as directory:
                return directory.read(name, limit=_LIMIT)
        except OSError:
            return b""  # not there, or not to be read: the key is missing

    def names(self) -> list[str]:
        """Returns the names of all keys that are here."""
        try:
            with Directory.open(self.path) as directory:
                found = sorted(map(os.fsdecode, directory.names()))
        except OSError:
            return []
        return [name for name in found if self.get(name) is not None]

    @property
    def default(self) -> str:
        """The name of the key that seals, empty where there is none; it may be missing."""
        name = self._file(_DEFAULT).decode("ascii", "replace").strip()
        return name if re.fullmatch(_NAME, name) else next(iter(self.names()), "")

    def current(self) -> SecretKey | None:
        """Returns the key that seals, None where there is no key at all; raises KeyMissing for one that is gone."""
        name = self.default
        if not name:
            return None
        key = self.get(name)
        if key is None:
            raise KeyMissing(
                f"The key {name} is missing from {self.path}.", hint="Bring it back: mulligan key import FILE"
            )
        return key

    def make(self) -> SecretKey:
        """Makes a key, durably, and returns it; where another process was faster, its key. Raises KeyMissing, DurabilityLost."""
        if self._workspace and os.path.realpath(self.path).startswith(os.path.join(self._workspace, "")):
            raise KeyMissing(f"The directory of keys, {self.path}, lies in the workspace.", hint="Set XDG_DATA_HOME")
        key = key_from(str(_age().x25519.Identity.generate()).encode())
        self._put(key, seals=True)
        found = self.current()
        if found is None:
            raise KeyMissing(f"The key could not be kept in {self.path}.")
        if found.id == key.id:
            self._made = key.id
        else:
            with Directory.open(self.path) as directory:
                directory.unlink(key.id.encode(), missing_ok=True)
        return found

    def new_file(self) -> str:
        """Returns the file of the key that `make` made since this was last asked, empty where none was."""
        name, self._made = self._made, ""
        return os.path.join(self.path, name) if name else ""

    def add(self, key: SecretKey) -> bool:
        """Takes a key in, durably; returns whether it was not here. The first one seals from now on."""
        is_new = self.get(key.id) is None
        if is_new or not self.default:
            self._put(key, seals=not self.default or self.default == key.id)
        return is_new

    def _put(self, key: SecretKey, *, seals: bool) -> None:
        try:
            make_private(self.path)
            with Directory.open(self.path) as directory:
                name = key.id.encode()
                if self.get(key.id) is None:
                    directory.unlink(name, missing_ok=True)  # what is there is no key
                    write_synced(directory, name, [key.identity + b"\n"], _WHAT)
                    sync(directory.fd, _WHAT)
                if seals:
                    self._name_default(directory, name)
        except OSError as error:
            raise KeyMissing(
                f"The key could not be written to {self.path} ({error.strerror}).", hint=f"ls -ld {self.path}"
            ) from error
        self._known.pop(key.id, None)

    def _name_default(self, directory: Directory, name: bytes) -> None:
        temporary = b".default-" + random_name(8).encode()
        write_synced(directory, temporary, [name + b"\n"], _WHAT)
        try:
            directory.rename_new(temporary, _DEFAULT)
        except FileExistsError:
            directory.unlink(temporary)  # another process named one, and that stays
        sync(directory.fd, _WHAT)

    # -- keys from and for elsewhere ------------------------------------------------------------

    def export(self, path: str, name: str = "") -> SecretKey:
        """Writes a key to a new file that only its owner can read, and returns it; raises KeyMissing."""
        key = self.get(name) if name else self.current()
        if key is None:
            which = (
                f"The key {name} is not on this machine." if name else "There is no key yet: no secret was ever sealed."
            )
            raise KeyMissing(f"{which} Nothing was written.", hint="mulligan key")
        folder, file = os.path.split(os.path.abspath(path))
        try:
            with Directory.open(folder) as directory:
                text = b"# mulligan: key %s. Who has this file can open your secrets.\n%s\n" % (
                    key.id.encode(),
                    key.identity,
                )
                write_synced(directory, os.fsencode(file), [text], _WHAT)
                sync(directory.fd, _WHAT)
        except OSError as error:
            raise KeyMissing(
                f"The key could not be written to {path} ({error.strerror}).", hint="Name a new file"
            ) from error
        return key

    def bring(self, path: str) -> tuple[SecretKey, bool]:
        """Takes the key in that a file holds, after it was tried; returns it, and whether it is new. Raises KeyMissing."""
        try:
            data = read_user_file(path, limit=_LIMIT)
        except OSError as error:
            raise KeyMissing(f"{path} cannot be read ({error.strerror}). Nothing was changed.") from error
        if data is None:
            raise KeyMissing(f"There is no file {path}. Nothing was changed.", hint="mulligan key import FILE")
        key = key_from(data)
        if key.open(key.seal(b"tried")) != b"tried":
            raise KeyMissing(f"The key in {path} does not open what it seals. Nothing was changed.")
        return key, self.add(key)


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


def seal_workspace(store: Store, scan: Scan, sink: Any = None, directory: str = "") -> Scan:
    """Returns the scan with the secrets that it lists sealed, into a sink; without one, it says only whether they changed."""
    found = [path for path, missed in scan.missed.items() if missed.reason == SECRET]
    sealing = _Sealer(store, scan, sink)
    with Directory.open(directory or store.settings.workspace) as root:
        for path in sorted(found):
            sealing.take(root, path)
    return replace(scan, secrets=Secrets(sealing.key.id if sealing.key is not None else "", sealing.files))


def secrets_of(store: Store, entry: Entry) -> tuple[Sealed, bool, dict[bytes, str]]:
    """
    Returns the secrets of a checkpoint, whether it knows of all that were there, and which are without their key.

    It knows only of those of the machine that saved it, and of none where they were skipped.
    """
    sealed, plain = entry.sealed, entry.checkpoint.plain_secrets
    knows = plain is not None and plain.get("key") in ("", store.keys.default)
    return sealed, knows, {path: file.key for path, file in sealed.items() if store.keys.get(file.key) is None}


def closed_secrets(store: Store, steps: Iterable[Any]) -> dict[bytes, str]:
    """Returns the secrets around some steps that are without their key, by keyed hash, with the name of the key."""
    files = [file for step in steps for state in (step.before, step.after) for file in state.sealed.values()]
    return {file.content_id: file.key for file in files if file.key and store.keys.get(file.key) is None}


class _Sealer:
    """The secrets of one scan."""

    def __init__(self, store: Store, scan: Scan, sink: Any) -> None:
        self._scan, self._sink, self._problem = scan, sink, ""
        self._most = store.settings.capture.max_file_size
        here = store.checkpoints.current() if store.exists() else None
        # Of a ciphertext that is lost a new one is made.
        self._before = {p: f for p, f in here.sealed.items() if store.objects.has(f.oid)} if here else {}
        self.files: dict[bytes, SealedFile] = {}
        self.key: SecretKey | None = None
        try:
            self.key = store.keys.current()
            if self.key is None and sink is not None:
                self.key = store.keys.make()
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
        except UnreadableFile as finding:
            self._scan.missed[path] = Missed(name, finding.reason, finding.detail)
        except KeyMissing as error:
            self._scan.missed[path] = Missed(name, UNREADABLE, f"it could not be sealed: {error.message}")
        except OSError as error:
            self._scan.missed[path] = Missed(name, UNREADABLE, os.strerror(error.errno or 0))

    def _sealed(self, directory: Directory, name: bytes, path: bytes) -> SealedFile:
        clock = stamping_clock()
        st = directory.stat(name)
        if st.st_mode & _KIND != _FILE:
            raise UnreadableFile(SPECIAL, "not a file")
        if st.st_size > self._most:
            raise UnreadableFile(TOO_LARGE, f"{st.st_size} bytes, the limit is {self._most}")
        if self._problem:
            raise UnreadableFile(UNREADABLE, self._problem)
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


def open_sealed(file: SealedFile, path: bytes, keys: Keyring, read: Callable[[bytes, bytes], bytes]) -> bytes:
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


def reveal_secret(store: Store, entry: Entry, path: bytes, *, reveal: bool) -> bytes:
    """Returns the content of a secret at a checkpoint; raises FileSealed unless it is to be revealed."""
    if not reveal:
        raise FileSealed(
            f"{to_text(path)!r} is a secret: it is saved sealed, and its content is shown only on request.",
            hint=f"In a terminal: mulligan cat --reveal {entry.checkpoint.short_id}:{to_text(path)}",
        )
    return open_sealed(entry.sealed[path], path, store.keys, store.objects.read)
