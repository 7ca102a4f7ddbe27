"""Signing and verifying with ssh keys, by `ssh-keygen -Y`. The private key is never read here."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mulligan.errors import UserError

NAMESPACE = "report@mulligan"
#: The keys that ssh looks for, the most usual first.
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


class Signer(NamedTuple):
    """The key of a good signature, and the name that the list of signers gives it; empty where it is not in the list."""

    key: str
    name: str


def find_key(given: str, environ: Mapping[str, str]) -> str:
    """Returns the file of the key to sign with: the given one, else the first of the user's keys."""
    if given:
        return given
    places = [os.path.join(environ.get("HOME", ""), ".ssh", name) for name in _KEYS]
    found = next((place for place in places if os.path.exists(place)), "")
    if not found:
        raise UserError(
            "There is no ssh key in ~/.ssh to sign with. Nothing was written.", hint="mulligan report --sign KEY"
        )
    return found


def sign(statement: str, key: str) -> str:
    """Returns the signature of a text; ssh-keygen asks for the passphrase itself."""
    done = _run(["-Y", "sign", "-f", key, "-n", NAMESPACE], statement)
    if done.returncode:
        raise UserError(
            f"ssh-keygen could not sign with {key} ({_reason(done)}). Nothing was written.",
            hint="Another key: mulligan report --sign KEY",
        )
    return done.stdout.decode("ascii")


def verify(statement: str, signature: str, signers: str) -> Signer:
    """Returns who signed a text; raises UserError where the signature is not one of this text."""
    with tempfile.TemporaryDirectory(prefix="mulligan-") as folder:
        place = os.path.join(folder, "signature")
        with open(place, "w", encoding="ascii", errors="replace") as file:
            file.write(signature)
        good = _run(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", place], statement)
        if good.returncode:
            raise UserError("The signature does not belong to this report: the report or the signature was changed.")
        key = good.stdout.decode(errors="replace").strip().rpartition(" key ")[2]
        named = _run(["-Y", "find-principals", "-s", place, "-f", signers], "") if signers else None
        for name in named.stdout.decode(errors="replace").split() if named is not None and not named.returncode else ():
            checked = ["-Y", "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", place]
            if not _run(checked, statement).returncode:
                return Signer(key, name)
    return Signer(key, "")


def _run(words: Sequence[str], text: str) -> subprocess.CompletedProcess[bytes]:
    try:
        command = ["ssh-keygen", *words]
        return subprocess.run(command, input=text.encode(), capture_output=True, check=False)  # noqa: S603 - no shell
    except FileNotFoundError:
        raise UserError(
            "ssh-keygen is not installed, so nothing can be signed or verified.", hint="Install OpenSSH"
        ) from None


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"
