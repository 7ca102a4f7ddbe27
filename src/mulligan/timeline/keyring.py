"""
The keys that secrets are sealed with: in the user's data directory, never in a workspace, a store or the configuration.

A key is an age identity in a file of its own, named by a hash of it and readable by its owner alone. The file `default` names
the one that seals; keys of other machines only open. A key is on the disk before anything is sealed with it, and a key that
is missing is never replaced in silence.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from mulligan.errors import KeyMissing
from mulligan.safefs.directory import Directory, random_name
from mulligan.safefs.durable import make_private, sync, write_synced
from mulligan.safefs.userfile import read_user_file

_DEFAULT = b"default"
_LIMIT = 4096
_IDENTITY = rb"AGE-SECRET-KEY-1[0-9A-Z]{58}"
_NAME = r"[0-9a-f]{16}"
_WHAT = "the key for secrets"


class Key(NamedTuple):
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


def key_from(text: bytes) -> Key:
    """Returns the key that a file holds; raises KeyMissing where it holds none."""
    found = re.search(_IDENTITY, text)
    if not found:
        raise KeyMissing("This is not a key: a key is one line that begins with AGE-SECRET-KEY-1. Nothing was changed.")
    return Key(sha256(b"mulligan key " + found[0]).hexdigest()[:16], found[0])


class Keyring:
    """The keys of this user on this machine."""

    def __init__(self, path: str, workspace: str = "") -> None:
        self.path = path
        self._made = ""  # the key that was made, until it was told
        self._workspace = workspace
        self._known: dict[str, Key | None] = {}

    def get(self, name: str) -> Key | None:
        """Returns a key by its name; None where it is not here, or not what its name says."""
        if name not in self._known or self._known[name] is None:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Key | None:
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

    def current(self) -> Key | None:
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

    def make(self) -> Key:
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

    def add(self, key: Key) -> bool:
        """Takes a key in, durably; returns whether it was not here. The first one seals from now on."""
        is_new = self.get(key.id) is None
        if is_new or not self.default:
            self._put(key, seals=not self.default or self.default == key.id)
        return is_new

    def _put(self, key: Key, *, seals: bool) -> None:
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

    def export(self, path: str, name: str = "") -> Key:
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

    def bring(self, path: str) -> tuple[Key, bool]:
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
