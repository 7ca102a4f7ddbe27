"""Puts the directories that each generated case makes for itself where those of all other tests are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def beside_the_others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated cases cannot use `tmp_path`, which is made once for all of them."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.getbasetemp())
    yield
    tempfile.tempdir = before
