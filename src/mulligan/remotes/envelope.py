"""
Encryption of a remote, by age: one identity for the remote, wrapped once for each member.

Every object is an ordinary age file that the stock `age` reads. It fails closed: where a remote is encrypted, nothing is
sent in the plain, and nothing that is not encrypted is believed. The storage never sees the identity's public half, so it
cannot make objects that this would open.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NamedTuple

from mulligan.errors import KeyMissing, RemoteDamaged, UserError
from mulligan.safefs.userfile import read_user_file
from mulligan.timeline.secrets import Keyring

_HEADER = b"age-encryption.org/v1\n"
_IDENTITY = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{58}")


def _age() -> Any:
    try:
        import pyrage  # type: ignore[import-untyped]
    except ImportError as error:
        raise KeyMissing(
            f"The remote is encrypted, and the library pyrage cannot be loaded ({error}). Nothing was sent.",
            hint="pip install pyrage",
        ) from error
    return pyrage


class Envelope(NamedTuple):
    """The identities of a remote, the newest first; none where the remote is not encrypted."""

    identities: tuple[str, ...] = ()

    @property
    def pins(self) -> tuple[str, ...]:
        """What a store remembers of the identities: a storage that presents others is refused."""
        return tuple(sha256(each.encode()).hexdigest()[:16] for each in self.identities)

    def seal(self, data: bytes) -> bytes:
        """Returns data as it is sent."""
        if not self.identities:
            return data
        return bytes(_age().encrypt(data, [self._recipient()]))

    def open(self, data: bytes, what: str) -> bytes:
        """Returns data that was received; raises RemoteDamaged where it is not encrypted for this remote."""
        if not self.identities:
            return data
        age = _age()
        if not data.startswith(_HEADER):
            raise RemoteDamaged(f"{what} on the remote is not encrypted, and must be. It was not believed.")
        try:
            return bytes(age.decrypt(data, [age.x25519.Identity.from_str(each) for each in self.identities]))
        except age.DecryptError as error:
            raise RemoteDamaged(f"{what} on the remote cannot be opened with the remote's key ({error}).") from None

    def seal_file(self, source: str, target: str) -> None:
        """Encrypts a file."""
        _age().encrypt_file(source, target, [self._recipient()])

    def open_file(self, source: str, target: str, what: str) -> None:
        """Decrypts a file; raises RemoteDamaged."""
        age = _age()
        try:
            age.decrypt_file(source, target, [age.x25519.Identity.from_str(each) for each in self.identities])
        except (age.DecryptError, OSError) as error:
            raise RemoteDamaged(f"{what} on the remote cannot be opened with the remote's key ({error}).") from None

    def _recipient(self) -> Any:
        return _age().x25519.Identity.from_str(self.identities[0]).to_public()

    def renewed(self) -> Envelope:
        """Returns the same with a new identity in front: what is sent from now on needs that one."""
        return Envelope((str(_age().x25519.Identity.generate()), *self.identities))

    def wrapped(self, recipient: str) -> bytes:
        """Returns the identities, encrypted to one member."""
        text = "# mulligan: the identities of a remote, the newest first\n" + "\n".join(self.identities) + "\n"
        return bytes(_age().encrypt(text.encode(), [recipient_of(recipient)]))


def recipient_of(text: str) -> Any:
    """Returns the recipient that a text names: an age or an ssh public key; raises UserError."""
    age = _age()
    try:
        if text.startswith("age1"):
            return age.x25519.Recipient.from_str(text)
        return age.ssh.Recipient.from_str(text)
    except age.RecipientError as error:
        raise UserError(
            f"{text[:40]!r} is neither an age nor an ssh public key ({error}). Nothing was changed.",
            hint="age1… or ssh-ed25519 …",
        ) from None


def member_of(recipient: str) -> str:
    """Returns the name under which a member's copy of the key is kept."""
    words = recipient.split()
    return sha256(" ".join(words[:2]).encode()).hexdigest()[:16]


class Member(NamedTuple):
    """Someone who can open a remote from here: the public key, and what opens."""

    recipient: str
    identity: Any

    @property
    def name(self) -> str:
        """The name of this member's copy of the key."""
        return member_of(self.recipient)

    def unwrap(self, data: bytes) -> Envelope:
        """Returns the identities of a remote; raises KeyMissing."""
        age = _age()
        try:
            text = bytes(age.decrypt(data, [self.identity])).decode("ascii", "replace")
        except age.DecryptError as error:
            raise KeyMissing(f"Your key does not open this remote ({error}). Nothing was sent.", hint=_ASK) from None
        found = tuple(_IDENTITY.findall(text))
        if not found:
            raise KeyMissing("The remote's copy of the key for you holds no key. Nothing was sent.", hint=_ASK)
        return Envelope(found)


_ASK = "Ask a member of the remote: mulligan remote member add NAME RECIPIENT; your recipient: mulligan remote member list NAME"


def own_member(keys: Keyring, identity: str = "") -> Member:
    """Returns who this user is for a remote: the key of a file, else the one that seals secrets here (made if missing)."""
    age = _age()
    if not identity:
        key = keys.current() or keys.make()
        found = age.x25519.Identity.from_str(key.identity.decode())
        return Member(str(found.to_public()), found)
    data = read_user_file(identity, limit=1 << 16)
    if data is None:
        raise KeyMissing(f"There is no file {identity}. Nothing was sent.", hint="--identity FILE")
    line = _IDENTITY.search(data.decode("latin-1"))
    try:
        if line:
            found = age.x25519.Identity.from_str(line[0])
            return Member(str(found.to_public()), found)
        public = read_user_file(identity + ".pub", limit=1 << 16)
        if public is None:
            raise KeyMissing(f"There is no {identity}.pub beside the ssh key. Nothing was sent.")
        return Member(" ".join(public.decode("utf-8", "replace").split()[:2]), age.ssh.Identity.from_buffer(data))
    except age.IdentityError as error:
        raise KeyMissing(f"{identity} is no key that age can use ({error}). Nothing was sent.") from None
