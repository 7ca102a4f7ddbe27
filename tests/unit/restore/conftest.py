"""The compiled part for tests of a restore."""

from __future__ import annotations

import shutil

import pytest

from mulligan.cli.commands.compile import build


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> str:
    """The directory of a library that was built from the source as it is."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    place = str(tmp_path_factory.mktemp("state") / "compiled")
    build(place, "cc")
    return place
