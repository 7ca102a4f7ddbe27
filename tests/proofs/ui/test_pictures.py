"""
The pictures of the documentation, made by the page itself.

With Pillow, `MULLIGAN_PICTURES=1 pytest tests/proofs/ui/test_pictures.py` writes docs/pictures/ui-*.png anew; otherwise they are only made.
Debian's fonts-inter and fonts-jetbrains-mono make them look as they do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from served import served
from timelines import shop

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
WRITES = bool(os.environ.get("MULLIGAN_PICTURES"))


@pytest.fixture
def taken(tmp_path):
    def taken(page, name):
        page.evaluate("document.querySelector('.root').textContent = '/home/you/shop'")
        target = (PICTURES if WRITES else tmp_path) / f"{name}.png"
        page.screenshot(path=target)
        if WRITES:
            from PIL import Image

            Image.open(target).convert("RGB").quantize(192, dither=Image.Dither.NONE).save(target, optimize=True)

    return taken


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_timeline_as_a_picture(tmp_path, look, taken, theme):
    project = tmp_path / "shop"
    project.mkdir()
    with served(shop(project, tmp_path / "store")) as client:
        page = look(client, theme=theme)
        page.click("text=Add discount codes")
        page.wait_for_selector("code >> text=raise ValueError(discount)")
        page.wait_for_selector(".row .lines >> nth=5")
        if theme == "light":
            taken(page, "ui-story")
        page.click("text=Take back only this")
        page.wait_for_selector("text=Apply to 2 files")
        page.click("text=Show its lines")
        page.wait_for_selector(".centre .line")
        if theme == "dark":
            taken(page, "ui-plan")


def test_a_fork_beside_the_project_as_a_picture(tmp_path, look, taken):
    project = tmp_path / "shop"
    project.mkdir()
    workspace = shop(project, tmp_path / "store")
    workspace.fork("@", tmp_path / "try-cache").close()
    (tmp_path / "try-cache/src/shop/cache.py").write_text(
        "import redis\n\n\ndef get(key):\n    return redis.Redis().get(key)\n"
    )
    (tmp_path / "try-cache/README.md").write_text("# shop\n\nA small shop, with a cache for its prices.\n")
    with served(workspace) as client:
        page = look(client)
        page.keyboard.press("c")
        page.click("text=Compare with the project")
        page.wait_for_selector("code >> text=with a cache")
        page.click("text=Keep B")
        page.wait_for_selector("text=Apply to 2 files")
        taken(page, "ui-compare")


def test_the_timeline_on_a_telephone(tmp_path, look, taken):
    project = tmp_path / "shop"
    project.mkdir()
    with served(shop(project, tmp_path / "store")) as client:
        page = look(client, width=360)
        page.wait_for_selector("text=you are here")
        page.wait_for_selector(".row .lines >> nth=1")
        taken(page, "ui-narrow")
