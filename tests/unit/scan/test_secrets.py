"""Secrets by name and by content: what is kept out, and what must not be."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest

from mulligan.scan import secrets
from mulligan.scan.secrets import secret_content, secret_name
from secret_corpus import key_files, plain_contents, plain_paths, secret_paths, token_files

HEAD = 4096


def test_names_with_one_meaning_are_secret() -> None:
    """Every name in the corpus is found, in whatever directory it lies."""
    assert [path for path in secret_paths() if not secret_name(path)] == []


def test_look_alikes_are_captured() -> None:
    """Templates, public keys, source files and documents that only sound alike are not secret."""
    assert [(path, secret_name(path)) for path in plain_paths() if secret_name(path)] == []


def test_key_files_are_known_by_their_beginning() -> None:
    """A private key is found under any name, with a byte order mark, comments or a certificate in front."""
    assert [key[:60] for key in key_files(random.Random(1)) if not secret_content(key[:HEAD])] == []


def test_a_file_that_is_nothing_but_a_token_is_secret() -> None:
    """One token, bare or as a single assignment, with or without a comment."""
    assert [content[:40] for content in token_files(random.Random(2)) if not secret_content(content)] == []


def test_ordinary_content_is_captured() -> None:
    """Code and prose about keys, public keys, hashes and noise are not secret."""
    found = [(content[:60], secret_content(content[:HEAD])) for content in plain_contents(random.Random(3))]
    assert [pair for pair in found if pair[1]] == []


def test_the_corpus_is_as_large_as_promised() -> None:
    """At least 500 secrets are tried."""
    rng = random.Random(4)
    assert len(secret_paths()) + len(key_files(rng)) + len(token_files(rng)) >= 500


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"a/.env", "named like an environment file"),
        (b"id_rsa", "named like a private key"),
        (b"a.jks", "named like a key store"),
        (b".netrc", "named like a credentials file"),
        (b".vault-token", "named like a token file"),
        (b"x.tfstate", "Terraform state, which holds secrets in plain text"),
        (b"auth.json", "named like a credentials file"),
        (b"a/auth.json", ""),
        (b"\xff\xfe.py", ""),
        (b"", ""),
    ],
)
def test_the_reason_says_what_the_name_looks_like(path: bytes, reason: str) -> None:
    """The detail is a few words for the list of what was not captured, and never the content."""
    assert secret_name(path) == reason


def test_a_token_inside_a_larger_file_is_not_looked_for() -> None:
    """Only files that are little else count: a token among code is a matter for other tools."""
    token = token_files(random.Random(5))[0]
    assert secret_content(token)
    assert not secret_content(token.strip() + b"\n" + b"code = 1\n")
    assert not secret_content(token.strip() + b" " * 4096)


def test_ordinary_source_is_hardly_ever_kept_out() -> None:
    """Of the standard library's own files at most one in a hundred is held back, its test keys included."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for pattern in ("*.py", "*/*") for path in root.glob(pattern) if path.is_file()][:2500]
    held = []
    for path in files:
        with path.open("rb") as stream:
            if secret_name(bytes(path.relative_to(root))) or secret_content(stream.read(HEAD)):
                held.append(path.name)
    assert len(held) <= len(files) // 100, held


def test_no_shape_of_a_secret_ends_like_source_code():
    """Source code is not looked at closely, so nothing that a closer look would find may end like it."""
    stems = [path.rpartition(b"/")[2].partition(b".")[0] for path in secret_paths()]
    stems += [b"id_rsa", b"service-account", b"client_secret", b"my_credentials", b"x-firebase-adminsdk-1", b"gcp-key"]
    names = {stem + b"." + ending for stem in stems if stem for ending in secrets.SOURCE}
    assert {name for name in names if secrets._by_shape(name, name)} == set()


def test_no_name_of_a_secret_is_plain():
    """Else it would be taken over from git without a look at it."""
    rng = random.Random(4)
    words = {
        b"x",
        b"a",
        b".",
        b"_",
        b"-",
        b"PROD",
        b"json",
        b"txt",
        b"yaml",
        b"pub",
        b"env",
        b"key",
        b"secret",
        b"service",
    }
    words |= {*secrets._NAMES, *(b"." + ending for ending in secrets._TELLING), b"id_", b"rsa", b"Key", b"credential"}
    made = [b"".join(rng.choices(sorted(words), k=rng.randrange(1, 4))) for _ in range(20_000)]
    found = [name for name in made if secret_name(b"dir/" + name) or secret_name(name)]
    assert len(found) > 500
    assert not any(map(secrets.is_plain_name, found))
