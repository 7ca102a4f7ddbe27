"""The wheel: native parts where there is a C compiler, pure Python without one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mulligan
from tools import PACKAGE

pytest.importorskip("hatchling", reason="HATCHLING IS MISSING: TESTS OF THE WHEEL DO NOT RUN")
ROOT = PACKAGE.parent
CLIENT = f"mulligan-{mulligan.__version__}.data/scripts/mulligan-client"
LOOK = "mulligan/_native/look.so"
MAN_PAGE = "docs/reference/mulligan.1"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """What the sdist holds, as far as a wheel needs it."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("src", "native"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_native"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / MAN_PAGE).parent.mkdir(parents=True)
    shutil.copy(ROOT / MAN_PAGE, folder / MAN_PAGE)
    return folder


def build(sources: Path, to: Path, **environment: str) -> tuple[str, dict[str, bytes]]:
    """Builds a wheel; returns its name and what is in it."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", to]
    subprocess.run(words, cwd=sources, env={**os.environ, **environment}, check=True, capture_output=True)
    (wheel,) = to.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        return wheel.name, {name: found.read(name) for name in found.namelist()}


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_wheel_that_was_built_with_a_compiler_has_both_native_parts_and_names_its_platform(sources, tmp_path):
    name, files = build(sources, tmp_path)
    assert {CLIENT, LOOK} <= files.keys()
    assert (
        "-py3-none-linux_" in name
        and b"Root-Is-Purelib: false" in files[f"mulligan-{mulligan.__version__}.dist-info/WHEEL"]
    )
    client = tmp_path / "mulligan-client"
    client.write_bytes(files[CLIENT])
    client.chmod(0o755)
    (tmp_path / "mulligan").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "mulligan").chmod(0o755)
    done = subprocess.run([client, "anything", "at all"], capture_output=True, text=True, check=True)
    assert done.stdout == "anything at all\n"


@pytest.mark.parametrize("without", [{"PATH": "/nowhere"}, {"MULLIGAN_NATIVE": "0"}, {"CC": "no-such-compiler"}])
def test_a_wheel_that_was_built_without_a_compiler_is_pure(sources, tmp_path, without):
    name, files = build(sources, tmp_path, **without)
    assert name.endswith("-py3-none-any.whl")
    assert CLIENT not in files and LOOK not in files


def test_a_compiler_that_fails_leaves_a_wheel_that_works(sources, tmp_path):
    name, files = build(sources, tmp_path, CC="false")
    assert name.endswith("-py3-none-any.whl")
    assert CLIENT not in files and LOOK not in files and "mulligan/cli/client.py" in files


def test_the_wheel_brings_the_man_page(sources, tmp_path):
    _, files = build(sources, tmp_path, MULLIGAN_NATIVE="0")
    assert files[f"mulligan-{mulligan.__version__}.data/data/share/man/man1/mulligan.1"].startswith(b'.\\"')


def test_a_release_has_absolute_links_and_a_plain_build_names_no_address(sources, tmp_path):
    about = f"mulligan-{mulligan.__version__}.dist-info/METADATA"
    _, files = build(sources, tmp_path / "plain", MULLIGAN_NATIVE="0")
    assert b"Project-URL: " not in files[about] and b"](docs/tutorial/first-undo.md)" in files[about]
    where = "https://forge.example/someone/mulligan"
    _, files = build(sources, tmp_path / "release", MULLIGAN_NATIVE="0", MULLIGAN_PROJECT_URL=where + "/")
    said, version = files[about].decode(), mulligan.__version__
    assert f"Project-URL: Homepage, {where}\n" in said and f"Project-URL: Issues, {where}/issues\n" in said
    assert f"({where}/blob/v{version}/docs/tutorial/first-undo.md)" in said
    assert f"({where}/raw/v{version}/docs/pictures/story.svg)" in said
    assert not [link for link in re.findall(r"\]\(([^)]+)\)", said) if not link.startswith("https://")]


def test_the_packages_of_the_mcp_server_name_this_version(tmp_path):
    script = ROOT / "scripts" / "build_mcp_packages.py"
    subprocess.run([sys.executable, script, "someone", tmp_path], check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / "mulligan.mcpb") as bundle:
        manifest = json.loads(bundle.read("manifest.json"))
        assert manifest["server"]["entry_point"] in bundle.namelist()
        assert f"mulligan[mcp]=={mulligan.__version__}" in bundle.read("pyproject.toml").decode()
    entry = json.loads((tmp_path / "server.json").read_text())
    assert entry["name"] == "io.github.someone/mulligan"
    assert {manifest["version"], entry["version"], entry["packages"][0]["version"]} == {mulligan.__version__}
