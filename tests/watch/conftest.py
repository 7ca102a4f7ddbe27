"""A project that can be watched, and the two clients that ask its watcher."""

from __future__ import annotations

from pathlib import Path

import pytest

import mulligan
from watchers import build_client


@pytest.fixture
def saved(project: Path) -> Path:
    """A project with two checkpoints and a file that is in neither."""
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("print(1)\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "x.log").write_text("not captured")
    with mulligan.open(project) as ws:
        ws.save("first")
        (project / "src" / "app.py").write_text("print(2)\n")
        ws.save("second")
    (project / "src" / "new.py").write_text("new\n")
    return project


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native client, which looks into its own memory as it runs."""
    flags = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return build_client(tmp_path_factory.mktemp("client"), *flags)


@pytest.fixture(params=["python", "native"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs every command of a test by one of the two clients; returns which."""
    if request.param == "native":
        monkeypatch.setenv("TEST_MULLIGAN", str(request.getfixturevalue("native")))
        monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0:exitcode=99")
    return str(request.param)
