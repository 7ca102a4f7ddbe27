"""
Every way to install: pip, pipx and uv; from a clone, a wheel and an sdist. Each is used as a newcomer would use it.

Where pipx or uv is missing, it comes from the package index into an environment of its own; where that fails, its tests say so loudly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: What a checkout holds that no package needs, and what changes while tests run.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "_native", ".hypothesis", "build", "dist")
#: Where pipx puts what it installs.
PIPX_PLACES = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}


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


@pytest.fixture(scope="module")
def tool(tmp_path_factory) -> Callable[[str], Path]:
    """Finds a program by its name; one that is missing is installed for these tests alone."""
    folder = tmp_path_factory.mktemp("programs")

    def find(program: str) -> Path:
        if (there := shutil.which(program)) is not None:
            return Path(there)
        if not (folder / "bin" / program).exists():
            venv.create(folder, with_pip=True)
            asked = [folder / "bin" / "pip", "install", "-q", program]
            if subprocess.run(asked, capture_output=True, check=False).returncode:
                pytest.skip(f"{program.upper()} IS MISSING AND PIP CANNOT BRING IT: INSTALLING BY IT IS NOT TESTED")
        return folder / "bin" / program

    return find


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


@pytest.mark.parametrize("source", ["clone", "wheel"])
def test_pipx_installs_and_removes_it(tool, sources, source, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    places = {name: str(tmp_path / place) for name, place in PIPX_PLACES.items()}
    pipx = tool("pipx")
    run(pipx, "install", "--python", sys.executable, sources[source], cwd=tmp_path, home=home, **places)
    use(tmp_path / "bin" / "mulligan", tmp_path, home)
    assert (tmp_path / "bin" / "mulligan-client").exists() == (shutil.which("cc") is not None)
    assert (tmp_path / "man" / "man1" / "mulligan.1").exists()
    run(pipx, "uninstall", "mulligan", cwd=tmp_path, home=home, **places)
    assert not (tmp_path / "bin" / "mulligan").exists()


@pytest.mark.parametrize("source", ["clone", "wheel"])
def test_uv_installs_and_removes_it(tool, sources, source, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    uv = tool("uv")
    run(uv, "tool", "install", "--python", sys.executable, sources[source], cwd=tmp_path, home=home, **places)
    use(tmp_path / "bin" / "mulligan", tmp_path, home)
    run(uv, "tool", "uninstall", "mulligan", cwd=tmp_path, home=home, **places)
    assert not (tmp_path / "bin" / "mulligan").exists()
