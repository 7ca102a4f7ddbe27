"""Where HEAD stands, from refs that may be anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from mulligan.safefs.directory import Directory
from mulligan.usergit.refs import Head, is_ref_name, read_head

COMMIT = "1234567890abcdef1234567890abcdef12345678"


def head_of(folder: Path, files: dict[str, str]) -> Head:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    with Directory.open(folder) as root:
        return read_head(root, root)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"HEAD": COMMIT + "\n"}, (COMMIT, "HEAD", None, True)),
        ({"HEAD": COMMIT.upper()}, (COMMIT, "HEAD", None, True)),
        ({"HEAD": "ref: refs/heads/main\n"}, ("", "main", "refs/heads/main", True)),
        ({"HEAD": "ref:  refs/heads/main \n", "refs/heads/main": COMMIT}, (COMMIT, "main", "refs/heads/main", True)),
        ({"HEAD": "ref: refs/remotes/x/y"}, ("", "remotes/x/y", "refs/remotes/x/y", True)),
        (
            {"HEAD": "ref: refs/heads/a", "refs/heads/a": "ref: refs/heads/b", "refs/heads/b": COMMIT},
            (COMMIT, "a", "refs/heads/a", True),
        ),
        (
            {
                "HEAD": "ref: refs/heads/a",
                "packed-refs": f"# pack-refs with: peeled\n{COMMIT} refs/heads/a\n^{COMMIT}\n",
            },
            (COMMIT, "a", "refs/heads/a", True),
        ),
        ({"HEAD": "ref: refs/heads/a", "packed-refs": f"{COMMIT} refs/heads/aa\n"}, ("", "a", "refs/heads/a", True)),
        # Damage: the branch is known, the commit is not.
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": ""}, ("", "a", "refs/heads/a", False)),
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": "0" * 40}, ("", "a", "refs/heads/a", False)),
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": "a" * 64}, ("", "a", "refs/heads/a", False)),
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": "x" * 99999}, ("", "a", "refs/heads/a", False)),
        ({"HEAD": "ref: refs/heads/a", "refs/heads/a": "ref: refs/heads/a"}, ("", "a", "refs/heads/a", False)),
        ({"HEAD": "ref: ../../../etc/passwd"}, ("", "HEAD", None, False)),
        ({"HEAD": "ref: refs/../HEAD"}, ("", "HEAD", None, False)),
        ({"HEAD": "ref: refs/heads/\x1b[31mred"}, ("", "HEAD", None, False)),
        ({"HEAD": "ref: HEAD"}, ("", "HEAD", None, False)),
        ({"HEAD": ""}, ("", "HEAD", None, False)),
        ({}, ("", "HEAD", None, False)),
    ],
)
def test_head(tmp_path: Path, files: dict[str, str], expected: tuple[str, str, str | None, bool]) -> None:
    """Loose, packed, symbolic, unborn, detached, damaged, hostile."""
    assert expected == head_of(tmp_path, files)


def test_a_loose_ref_wins_over_a_packed_one(tmp_path: Path) -> None:
    """The packed one is the older."""
    files = {"HEAD": "ref: refs/heads/a", "refs/heads/a": COMMIT, "packed-refs": "f" * 40 + " refs/heads/a\n"}
    assert head_of(tmp_path, files).commit == COMMIT


def test_symbolic_refs_in_a_ring_end(tmp_path: Path) -> None:
    """As many steps as git takes, then the commit is unknown."""
    ring = {f"refs/heads/{n}": f"ref: refs/heads/{(n + 1) % 7}" for n in range(7)}
    assert head_of(tmp_path, {"HEAD": "ref: refs/heads/0", **ring}) == ("", "0", "refs/heads/0", False)


def test_an_empty_directory_in_place_of_a_ref_is_no_ref(tmp_path: Path) -> None:
    """Git leaves such directories behind when it packs refs."""
    (tmp_path / "refs/heads/a").mkdir(parents=True)
    files = {"HEAD": "ref: refs/heads/a", "packed-refs": f"{COMMIT} refs/heads/a\n"}
    assert head_of(tmp_path, files).commit == COMMIT


def test_head_as_a_link(tmp_path: Path) -> None:
    """The oldest repositories have one; a link to anything but a ref is unknown."""
    (tmp_path / "HEAD").symlink_to("refs/heads/old")
    assert head_of(tmp_path, {"refs/heads/old": COMMIT}) == (COMMIT, "old", "refs/heads/old", True)
    (tmp_path / "HEAD").unlink()
    (tmp_path / "HEAD").symlink_to("/etc/hostname")
    assert head_of(tmp_path, {}).known is False


def test_a_reftable_is_recognised(tmp_path: Path) -> None:
    """Its HEAD file is a dummy and must not be taken for an unborn branch."""
    (tmp_path / "reftable").mkdir()
    assert head_of(tmp_path, {"HEAD": "ref: refs/heads/.invalid\n"}) == ("", "HEAD", None, False)


@pytest.mark.parametrize(
    "name", [b"", b"HEAD", b"refs/", b"refs//a", b"refs/a/../b", b"refs/./a", b"refs/a\0", b"refs/a b"]
)
def test_names_that_are_no_refs(name: bytes) -> None:
    """Nothing outside `refs/` is ever looked up."""
    assert not is_ref_name(name)
