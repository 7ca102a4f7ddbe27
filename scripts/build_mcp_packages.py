"""
Builds what lets people find and install the MCP server: a bundle for Claude Desktop, and an entry for the MCP registry.

    python scripts/build_mcp_packages.py OWNER [DIRECTORY]

Writes `mulligan.mcpb` and `server.json` into the directory (default: dist). OWNER is the account on the forge that publishes
the entry. Both name the version of pyproject.toml, which must be on the package index before they are of use.
"""

# ruff: noqa: INP001, T201 - a script, not a package
from __future__ import annotations

import json
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "packaging"


def version() -> str:
    """Returns the version of the package."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def manifest() -> dict[str, Any]:
    """Returns the bundle's description."""
    return {**json.loads((SOURCE / "mcpb" / "manifest.json").read_text(encoding="utf-8")), "version": version()}


def entry(owner: str) -> dict[str, Any]:
    """Returns the entry for the registry."""
    text = (SOURCE / "server.json").read_text(encoding="utf-8").replace("OWNER", owner)
    found: dict[str, Any] = json.loads(text)
    packages = [{**package, "version": version()} for package in found["packages"]]
    return {**found, "version": version(), "packages": packages}


def requirements() -> str:
    """Returns the project file of the bundle: uv installs the server from it when the bundle is first started."""
    needs = f'["mulligan[mcp]=={version()}"]'
    return f'[project]\nname = "mulligan-bundle"\nversion = "{version()}"\nrequires-python = ">=3.11"\ndependencies = {needs}\n'


def build(owner: str, directory: Path) -> list[Path]:
    """Writes both files and returns where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    bundle, registry = directory / "mulligan.mcpb", directory / "server.json"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest(), indent=2))
        archive.writestr("pyproject.toml", requirements())
        archive.write(SOURCE / "mcpb" / "server.py", "server.py")
    registry.write_text(json.dumps(entry(owner), indent=2) + "\n", encoding="utf-8")
    return [bundle, registry]


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3}:
        sys.exit("usage: build_mcp_packages.py OWNER [DIRECTORY]")
    for path in build(sys.argv[1], Path(sys.argv[2] if len(sys.argv) == 3 else ROOT / "dist")):
        print(path)
