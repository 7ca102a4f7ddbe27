"""A real Chromium for the web timeline; where there is none, each test says so and is not run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEIGHTS = {360: 740, 1280: 800, 2560: 1300}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests; each test gets pages of its own."""
    library = pytest.importorskip(
        "playwright.sync_api", reason="the page is not tested in a browser: pip install 'mulligan[ui-test]'"
    )
    if CHROMIUM is None:
        pytest.skip("the page is not tested in a browser: apt-get install chromium")
    with library.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def look(browser) -> Iterator[Callable[..., Any]]:
    """Opens the page of a server as its link does; fails where the page had an error."""
    errors = []

    def heard(said):
        if said.type == "error":
            errors.append(said.text)

    def look(client, *, width=1280, theme="light", expect_errors=False, **options):
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHTS.get(width, 800)}, color_scheme=theme, **options
        )
        page = context.new_page()
        if not expect_errors:
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", heard)
        client.before_end.append(context.close)
        page.goto(f"http://127.0.0.1:{client.port}/#{client.page.logins.new_link()}")
        page.wait_for_selector(".story .list, .story .empty h2, .gate")
        return page

    yield look
    assert not errors, errors
