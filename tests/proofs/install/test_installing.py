"""
Every way to install: pip, pipx and uv; from a clone, a wheel and an sdist. Each is used as a newcomer would use it.

Where a tool is missing, its tests say so loudly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: What a checkout holds that no package needs, and what changes while tests run.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "_native", ".hypothesis", "build", "dist")


def run(*words: object, cwd: Path, home: Path, **more: str) -> str:
    """Runs a program with a home of its own, and returns what it prints."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    environment = {**kept, "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", **more}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "Failed to fetch" in done.stderr:
        pytest.skip(f"{Path(str(words[0])).name.upper()} REACHES NO PACKAGE INDEX: INSTALLING BY IT IS NOT TESTED")
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    """The clone, and the wheel and the sdist that are built from it."""
    folder = tmp_path_factory.mktemp("sources")
    clone = folder / "clone"
    shutil.copytree(ROOT, clone, ignore=LEFT_OUT)
    run(sys.executable, "-m", "hatchling", "build", "-d", folder / "dist", cwd=clone, home=folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return {"clone": clone, "wheel": wheel, "sdist": sdist}


def use(mulligan: Path, folder: Path, home: Path) -> None:
    """Saves, spoils, undoes."""
    project = folder / "project"
    project.mkdir()
    (project / "a.txt").write_text("good\n")
    assert "demo" in run(mulligan, "-h", cwd=project, home=home)
    run(mulligan, "save", "first", cwd=project, home=home, MULLIGAN_WATCH="0")
    (project / "a.txt").write_text("bad\n")
    run(mulligan, "undo", cwd=project, home=home, MULLIGAN_WATCH="0")
    assert (project / "a.txt").read_text() == "good\n"


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program.upper()} IS MISSING: INSTALLING BY IT IS NOT TESTED")
    return found


@pytest.mark.parametrize("source", ["clone", "wheel", "sdist"])
def test_pip_installs_it(sources, source, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path, home=home)
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", "-q", sources[source], cwd=tmp_path, home=home)
    use(programs / "mulligan", tmp_path, home)
    assert (tmp_path / "venv/share/man/man1/mulligan.1").exists()
    assert (programs / "mulligan-client").exists() == (shutil.which("cc") is not None)


def test_without_a_compiler_pip_installs_the_same_commands(sources, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path, home=home)
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", "-q", sources["clone"], cwd=tmp_path, home=home, CC="no-such-compiler")
    assert not (programs / "mulligan-client").exists()
    use(programs / "mulligan", tmp_path, home)


def test_pipx_installs_and_removes_it(sources, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run(needs("pipx"), "install", "--python", sys.executable, sources["clone"], cwd=tmp_path, home=home, **places)
    use(tmp_path / "bin" / "mulligan", tmp_path, home)
    run(needs("pipx"), "uninstall", "mulligan", cwd=tmp_path, home=home, **places)
    assert not (tmp_path / "bin" / "mulligan").exists()


@pytest.mark.parametrize("source", ["clone", "wheel"])
def test_uv_installs_and_removes_it(sources, source, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    run(needs("uv"), "tool", "install", "--python", sys.executable, sources[source], cwd=tmp_path, home=home, **places)
    use(tmp_path / "bin" / "mulligan", tmp_path, home)
    run(needs("uv"), "tool", "uninstall", "mulligan", cwd=tmp_path, home=home, **places)
    assert not (tmp_path / "bin" / "mulligan").exists()
