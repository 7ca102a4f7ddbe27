"""
Real agents, started by tests: installed by npm into a cache, run in an empty home against a scripted model on loopback.

Where npm or the network is missing, the tests are skipped, loudly. A cache that is there already is used without asking anybody.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clients import NotThere, Project, program


@pytest.fixture
def agents_project(tmp_path: Path, private_home: Path) -> Project:
    """A project with something in it, in a home that knows no agent yet."""
    return Project.made(tmp_path / "work", private_home)


@pytest.fixture(scope="session")
def claude(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of Claude Code."""
    return _there("claude", tmp_path_factory)


@pytest.fixture(scope="session")
def codex(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of Codex."""
    return _there("codex", tmp_path_factory)


@pytest.fixture(scope="session")
def gemini(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of Gemini CLI."""
    return _there("gemini", tmp_path_factory)


@pytest.fixture(scope="session")
def opencode(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of opencode."""
    return _there("opencode", tmp_path_factory)


@pytest.fixture(scope="session")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the official MCP inspector."""
    return _there("mcp-inspector", tmp_path_factory)


@pytest.fixture(scope="session")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the official MCP conformance suite."""
    return _there("conformance", tmp_path_factory)


def _there(name: str, factory: pytest.TempPathFactory) -> str:
    cache = os.environ.get("AGENTS_CACHE")
    # Shared by the workers of one run, which see the same parent.
    folder = Path(cache) if cache else factory.getbasetemp().parent / "agents"
    try:
        return program(name, folder)
    except NotThere as error:
        pytest.skip(f"THE TESTS WITH REAL AGENTS DO NOT RUN: {name} {error}")
