"""Names and contents that are not UTF-8 pass through the front door byte for byte, in a real process, whatever its locale."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools import cli, git
from tree import contents

LOCALES = {
    "the usual": {},
    "none": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "a narrow stdout": {"PYTHONIOENCODING": "ascii:strict"},
}
BEFORE = {b"a.txt": b"one\n", b"n\xe9.txt": b"x\n", "ü.txt".encode(): b"x\n", b"d\xff/m": b"found again\n" * 9}
# The second line of a.txt is a surrogate in the bytes of UTF-8, which is not UTF-8 either.
AFTER = {
    b"a.txt": b"caf\xe9 \xff\xfe\n\xed\xb3\xbf \xc3\xa9\n",
    b"n\xe9.txt": b"y\xe9\n",
    "ü.txt".encode(): "ý\n".encode(),
    b"d\xff/k\xfe": b"found again\n" * 9,
    b"new\xe8\nline": b"q\n",
}


def write(root: Path, files: dict[bytes, bytes]) -> Path:
    for name, content in files.items():
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@pytest.fixture
def odd(tmp_path) -> Path:
    """A project of odd names, saved and then changed."""
    root = write(tmp_path / "odd", BEFORE)
    assert cli("save", "one", cwd=root).returncode == 0
    (root / os.fsdecode(b"d\xff/m")).unlink()
    return write(root, AFTER)


def told(*words: str, cwd: Path, **env: str) -> str:
    done = cli(*words, cwd=cwd, **env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("locale", LOCALES)
def test_a_piped_diff_and_the_patch_in_its_json_are_bytes_that_git_applies(odd, tmp_path, locale):
    patch = told("diff", cwd=odd, **LOCALES[locale]).encode("utf-8", "surrogateescape")
    document = json.loads(told("diff", "--json", cwd=odd, **LOCALES[locale]))
    assert document["patch"].encode("utf-8", "surrogateescape") == patch
    names = {name.encode("utf-8", "surrogateescape") for name in document["modified"] + document["added"]}
    assert names == {*AFTER} - {b"d\xff/k\xfe"} and len(document["renamed"]) == 1
    copy = write(tmp_path / "copy", BEFORE)
    git("init", "-q", cwd=copy)
    git("apply", "-", cwd=copy, stdin=patch)
    assert contents(copy) == contents(odd)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_path_and_a_checkpoint_are_found_by_the_bytes_of_their_names(odd, locale):
    """Typed as arguments: one file of the diff, and a name given to `save`."""
    part = told("diff", "--", os.fsdecode(b"n\xe9.txt"), cwd=odd, **LOCALES[locale])
    assert part.count("diff --git ") == 1 and part.endswith("-x\n+y\udce9\n")
    name = os.fsdecode(b"caf\xe9")
    told("save", name, cwd=odd, **LOCALES[locale])
    assert "+y\udce9\n" in told("diff", "one", name, cwd=odd, **LOCALES[locale])


def test_counts_show_odd_names_written_out(odd):
    stat = told("diff", "--stat", cwd=odd)
    assert all(name in stat for name in (r"n\xe9.txt", "ü.txt", r"d\xff/m => d\xff/k\xfe", r"new\xe8\nline"))


def test_an_unknown_name_that_is_not_utf8_is_an_unknown_name(odd):
    done = cli("diff", os.fsdecode(b"nowhere\xe9"), cwd=odd)
    assert done.returncode == 1 and "neither a checkpoint nor a path" in done.stderr
