"""How Sphinx makes a site of these pages: `sphinx-build -W -c docs/site . build/site`, with the extra `site`."""

# ruff: noqa: INP001 - a file of settings, not a package
from __future__ import annotations

import re
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

project = "mulligan"
author = "The mulligan authors"
version = release = installed("mulligan")
extensions = ["myst_parser"]
include_patterns = ["docs/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = ["docs/site"]
root_doc = "docs/README"
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"mulligan {release}"
html_static_path: list[str] = []

#: The sections of the front page, and the folder of each; pages stand in the order in which that page names them.
SECTIONS = {
    "Learn": "tutorial",
    "Do": "howto",
    "Look up": "reference",
    "Understand": "explanation",
    "Decide": "decisions",
}


def contents() -> str:
    """Returns the table of contents for the side of the page; Markdown viewers elsewhere never see it."""
    front = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\(((?:tutorial|howto|reference|explanation|decisions)/[\w-]+)\.md", front)
    parts = []
    for caption, folder in SECTIONS.items():
        pages = [name for name in dict.fromkeys(named) if name.startswith(folder)]
        others = sorted(path.stem for path in (ROOT / "docs" / folder).glob("*.md"))
        pages += [f"{folder}/{stem}" for stem in others if f"{folder}/{stem}" not in pages]
        parts.append(toctree(caption, pages))
    return "\n".join([*parts, toctree("More", ["glossary", "/README", "/CHANGELOG", "/CONTRIBUTING", "/SECURITY"])])


def toctree(caption: str, pages: list[str]) -> str:
    """Returns one section of the table of contents, in MyST."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def add_contents(_app: Any, name: str, source: list[str]) -> None:
    """Puts the table of contents at the end of the front page."""
    if name == root_doc:
        source[0] += "\n" + contents()


def add_front_door(app: Any, _error: Exception | None) -> None:
    """Makes the top of the site lead to the front page."""
    if app.builder.format == "html":
        target = Path(app.outdir, "index.html")
        target.write_text('<meta http-equiv="refresh" content="0; url=docs/README.html">\n', encoding="utf-8")


def setup(app: Any) -> None:
    """Hooks both into Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_front_door)
