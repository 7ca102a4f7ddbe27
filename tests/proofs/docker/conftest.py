"""
Every test here runs against a real engine, Docker's and then podman's, started for this test process alone.

Where one cannot be started its tests are skipped, and the last lines of the run say so and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import containers


@pytest.fixture(scope="session", params=containers.KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[containers.Engine]:
    """An engine with one image in it."""
    try:
        started = containers.Engine.start(request.param)
    except containers.CannotRun as reason:
        pytest.skip(f"CONTAINER TESTS DO NOT RUN: {reason}")
    yield started
    started.stop()


@pytest.fixture
def make(engine: containers.Engine) -> Iterator[Callable[..., Any]]:
    """Makes environments on the engine; after the test they are removed, and nothing may be left on it."""
    from mulligan.environments import DockerEnvironment

    made = []

    def make_one(*args: Any, **more: Any) -> DockerEnvironment:
        more.setdefault("options", {"network_mode": "none"})
        environment = DockerEnvironment(*(args or (containers.IMAGE,)), base_url=engine.url, **more)
        made.append(environment)
        return environment

    yield make_one
    for environment in made:
        environment.cleanup(images=True)
    left = (engine.containers(), engine.tags())
    for name in left[0]:
        engine.api.remove_container(name, force=True)
    for tag in left[1]:
        engine.api.remove_image(tag, force=True)
    assert left == ([], [])
