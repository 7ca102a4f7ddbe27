"""
Real agents, started by tests: installed by npm or pip into a cache, run in an empty home against a scripted model on loopback.

Where npm or the network is missing, the tests are skipped, loudly. What is in the cache (`mulligan-tests` below your cache directory,
or MULLIGAN_AGENTS, into which no test installs anything) is used without asking anybody.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clients import Project
from had import NAMED, NotThere, cache, program

from tools import mulligan_argv


@pytest.fixture
def agents_project(tmp_path: Path, private_home: Path) -> Iterator[Project]:
    """A project with something in it, in a home that knows no agent yet; the watcher that hooks start ends with the test."""
    project = Project.made(tmp_path / "work", private_home)
    yield project
    project.run(mulligan_argv("watch", "--stop"))


@pytest.fixture(scope="session")
def claude() -> str:
    """The path of Claude Code."""
    return _there("claude")


@pytest.fixture(scope="session")
def codex() -> str:
    """The path of Codex."""
    return _there("codex")


@pytest.fixture(scope="session")
def gemini() -> str:
    """The path of Gemini CLI."""
    return _there("gemini")


@pytest.fixture(scope="session")
def opencode() -> str:
    """The path of opencode."""
    return _there("opencode")


@pytest.fixture(scope="session")
def aider() -> str:
    """The path of aider."""
    return _there("aider")


@pytest.fixture(scope="session")
def inspector() -> str:
    """The path of the official MCP inspector."""
    return _there("mcp-inspector")


@pytest.fixture(scope="session")
def conformance() -> str:
    """The path of the official MCP conformance suite."""
    return _there("conformance")


@pytest.fixture(scope="session")
def node() -> str:
    """The path of a Node that is new enough for every client."""
    return _there("node")


@pytest.fixture(scope="session")
def agents_cache() -> Path:
    """Where clients are kept by the person who runs the tests, asked before a test has a home of its own."""
    return cache()


def _there(name: str, where: Path | None = None) -> str:
    # Session fixtures come first: HOME and the rest are still those of the person who runs the tests.
    try:
        return program(name, where or cache(), may_install=NAMED not in os.environ)
    except (NotThere, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"THE TESTS WITH REAL AGENTS DO NOT RUN: {name} {error}")
