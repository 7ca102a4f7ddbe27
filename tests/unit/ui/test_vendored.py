"""The page's script is what its sources and the listed libraries make."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "mulligan" / "ui"
LISTED = json.loads((PACKAGE / "static" / "VENDORED.json").read_text())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_script_and_its_sources_are_those_that_are_listed():
    """`python scripts/build_ui.py` writes both; with `--check` it builds again and compares (tests/proofs/ui)."""
    assert {name: digest(PACKAGE / "static" / name) for name in LISTED["files"]} == LISTED["files"]
    assert {path.name: digest(path) for path in (PACKAGE / "front").glob("*.js")} == LISTED["sources"]


def test_each_library_has_a_version_a_licence_and_a_digest():
    for each in LISTED["libraries"]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", each["version"]) and each["integrity"].startswith("sha512-")
        assert each["licence"] in {"MIT", "Apache-2.0"}


def test_the_page_asks_nothing_of_the_network_and_makes_no_html_of_text():
    """No address but its own, and none of the ways to turn text into HTML in our own sources."""
    for path in (PACKAGE / "front").glob("*.js"):
        source = path.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|eval\(", source
        ), path.name
        assert not re.search(r"https?://(?!127\.0\.0\.1)", source), path.name
    assert "//" not in (PACKAGE / "static" / "index.html").read_text().replace("<!doctype", "")
