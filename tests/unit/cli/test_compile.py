"""`mulligan compile`: built when asked, for its owner alone, and nothing is different but the time."""

from __future__ import annotations

import shutil

import pytest

from mulligan import settings
from tools import cli, cli_json

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@needs_compiler
def test_it_is_built_used_and_removed(project, tmp_path):
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert cli_json("compile", "--status", cwd=project, **state)["usable"] is False
    built = cli_json("compile", cwd=project, **state)
    assert built["usable"] is True
    place = settings.resolve(project, environ={"HOME": str(tmp_path), **state}).compiled
    assert built["directory"] == place == str(tmp_path / "state/mulligan/compiled")
    (library,) = (tmp_path / "state/mulligan/compiled").glob("*.so")
    assert library.stat().st_mode & 0o777 == 0o500 and library.parent.stat().st_mode & 0o777 == 0o700
    assert cli_json("compile", "--remove", cwd=project, **state)["usable"] is False
    assert list(library.parent.iterdir()) == []


@needs_compiler
def test_a_save_finds_the_same_with_and_without_it(project, tmp_path):
    for at in range(80):
        (project / f"d{at}").mkdir()
        (project / f"d{at}/file").write_text("1")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    cli_json("compile", cwd=project, **state)
    cli_json("save", cwd=project, **state)
    trees = []
    for switch in ("0", "1"):
        (project / "d7/file").write_text("2" + switch)
        saved = cli_json("save", cwd=project, MULLIGAN_COMPILED=switch, **state)["checkpoint"]
        trees.append((saved["files_changed"], saved["complete"]))
    assert trees == [(["d7/file"], True)] * 2


def test_without_a_compiler_it_says_so_and_nothing_is_left(project, tmp_path):
    state = tmp_path / "state"
    done = cli("compile", cwd=project, XDG_STATE_HOME=str(state), CC=str(tmp_path / "none"))
    assert done.returncode == 1 and "There is no C compiler" in done.stderr
    assert list((state / "mulligan/compiled").iterdir()) == []


@needs_compiler
def test_a_compiler_that_fails_is_told_of(project, tmp_path):
    done = cli("compile", cwd=project, XDG_STATE_HOME=str(tmp_path), CC="cc -no-such-flag")
    assert done.returncode == 1 and "failed" in done.stderr and "Nothing was changed" in done.stderr


@needs_compiler
def test_what_somebody_else_put_beside_it_stays(project, tmp_path):
    state, place = {"XDG_STATE_HOME": str(tmp_path)}, tmp_path / "mulligan/compiled"
    place.mkdir(parents=True, mode=0o700)
    (place / "notes").write_text("mine")
    cli_json("compile", cwd=project, **state)
    cli_json("compile", "--remove", cwd=project, **state)
    assert [path.name for path in place.iterdir()] == ["notes"]
