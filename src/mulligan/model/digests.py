"""
Hashes, without OpenSSL until it pays.

Loading OpenSSL takes 3 ms, which is what Python's own SHA-1 needs for half a megabyte; a save of a few changed files has
less than that to hash. Python may be built without its own (some distributions do): then OpenSSL's are used at once.
"""

from __future__ import annotations

from mulligan.model.typed import TYPE_CHECKING, cast

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import _Hash

__all__ = ["blake2b", "sha1", "sha256"]

# So many bytes are hashed by Python's own SHA-1 before OpenSSL is loaded; each call counts for a few of them.
_ALONE = 400_000
_EACH = 500
_left = _ALONE
_fast: Callable[..., _Hash] | None = None


def sha1(data: bytes = b"", *, of: int = _ALONE) -> _Hash:
    """Returns a SHA-1 that was given some bytes, of about so many in all."""
    global _fast, _left  # noqa: PLW0603 - how much was hashed concerns the whole process
    if _fast is not None:
        return _fast(data, usedforsecurity=False)
    if _left > 0:
        _left -= of + _EACH
        if _left > 0:
            try:
                from _sha1 import sha1 as plain  # type: ignore[import-not-found]
            except ImportError:
                _left = 0
            else:
                return cast("_Hash", plain(data))
    from hashlib import sha1 as fast

    _fast = fast
    return fast(data, usedforsecurity=False)


def sha256(data: bytes) -> _Hash:
    """Returns the SHA-256 of a few bytes."""
    for module in ("_sha2", "_sha256"):  # as Python 3.12 and 3.11 name their own
        try:
            return cast("_Hash", __import__(module).sha256(data))
        except ImportError:
            continue
    from hashlib import sha256 as fast

    return fast(data, usedforsecurity=False)
