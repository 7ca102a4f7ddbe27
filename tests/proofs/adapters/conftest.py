"""The libraries of Python agents are large and optional: where one is missing, its tests say so loudly."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))


@pytest.fixture
def needs():
    """Returns a library, or skips where it is not installed."""

    def find(name: str, package: str):
        found = None
        with suppress(ImportError):
            found = importlib.import_module(name)
        # Our own folder `tests/proofs/agents` answers to `import agents` where the library does not.
        if found is None or found.__file__ is None:
            pytest.skip(f"THE TESTS WITH {package.upper()} DO NOT RUN: python3 tests/proofs/adapters/each.py {package}")
        return found

    return find
