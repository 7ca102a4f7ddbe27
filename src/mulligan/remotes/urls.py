"""Addresses of remotes: what git takes, and `s3://bucket/prefix`; nothing that starts another program."""

from __future__ import annotations

import os
import re

from mulligan.errors import UserError

GIT, S3 = "git", "s3"
_SCHEMES = ("https", "http", "ssh", "git", "file", "git+ssh", "ssh+git")
_WITH_PASSWORD = re.compile(r"^([a-z+]+://[^/@:]*):[^/@]*@")


def kind_of(url: str) -> str:
    """Returns which kind of storage an address means; raises UserError for one that is refused."""
    if not url or url.startswith("-") or any(ord(letter) < 32 for letter in url):
        raise UserError(f"{url!r} is not the address of a remote. Nothing was changed.", hint=_KNOWN)
    scheme, separator, rest = url.partition("://")
    if separator:
        if scheme == S3:
            _bucket(rest)
            return S3
        if scheme not in _SCHEMES or not rest or rest.startswith("-"):
            raise UserError(f"Addresses that begin with {scheme}:// are refused. Nothing was changed.", hint=_KNOWN)
        return GIT
    if re.match(r"[A-Za-z0-9][A-Za-z0-9+.-]*::", url):
        raise UserError("Addresses with :: start other programs and are refused. Nothing was changed.", hint=_KNOWN)
    return GIT


def absolute(url: str, base: str = "") -> str:
    """Returns an address that means the same from everywhere: a directory with its whole path, all others as they are."""
    # As git reads it: `host:path` is on another machine, unless a slash comes first.
    is_elsewhere = "://" in url or ":" in url.partition("/")[0]
    return url if is_elsewhere or not url or url.startswith("-") else os.path.abspath(os.path.join(base, url))


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """Returns the two parts of `s3://bucket/prefix`; the prefix has no slash at its ends."""
    return _bucket(url.partition("://")[2])


def _bucket(rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", bucket):
        raise UserError(f"s3://{rest} names no bucket. Nothing was changed.", hint="s3://BUCKET/PREFIX")
    if (
        (prefix and not re.fullmatch(r"[A-Za-z0-9!_.*'()/-]{1,512}", prefix))
        or ".." in prefix.split("/")
        or "//" in prefix
    ):
        raise UserError(f"{prefix!r} is no prefix for objects. Nothing was changed.", hint="s3://BUCKET/PREFIX")
    return bucket, prefix


def shown(url: str) -> str:
    """Returns an address without a password."""
    return _WITH_PASSWORD.sub(r"\1:…@", url)


_KNOWN = "Use https://, ssh://, git://, file://, user@host:path, a directory, or s3://bucket/prefix."
