"""The reference pages are current: the commands from their parsers, the configuration from its table of keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mulligan import settings
from mulligan.settings.files import KEYS

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")


def test_the_command_line_reference_is_current():
    """After a change of a command: python scripts/generate_cli_reference.py"""
    script = [sys.executable, ROOT / "scripts/generate_cli_reference.py", "--check"]
    assert subprocess.run(script, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=False).returncode == 0


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_described_with_what_a_workspace_may_do(key):
    row = re.search(rf"^\| `{re.escape(key)}` \| `[^`]+` \| (?P<workspace>[^|]+) \|", CONFIGURATION, re.MULTILINE)
    assert row
    assert (row["workspace"].strip() != "no") == KEYS[key].in_workspace


def test_the_example_configuration_is_accepted_and_holds_every_key(tmp_path):
    example = re.search(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)[1]
    (tmp_path / ".config/mulligan").mkdir(parents=True)
    (tmp_path / ".config/mulligan/config.toml").write_text(example)
    settings.resolve(tmp_path, environ={"HOME": str(tmp_path)})
    written = {f"{section}.{key}" for section, content in tomllib.loads(example).items() for key in content}
    assert written == set(KEYS)


def test_the_defaults_in_the_table_are_the_real_ones(tmp_path):
    found = settings.resolve(tmp_path, environ={"HOME": str(tmp_path)})
    values = {
        "capture": found.capture,
        "retention": found.retention,
        "checkpoints": found.loop,
        "hooks": found.hooks,
        "watch": found.watch,
        "workspace": found.root,
        "remotes": found.remotes,
    }
    for key, default in re.findall(r"^\| `(\w+\.\w+)` \| `([^`]+)` \|", CONFIGURATION, re.MULTILINE):
        section, name = key.split(".")
        actual = getattr(values[section], name)
        written = KEYS[key].read(tomllib.loads(f"x = {default}")["x"])
        assert written == actual, key


@pytest.mark.parametrize(
    "name", ["MULLIGAN_STORE", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME", "NO_COLOR", "TERM", "MULLIGAN_WATCH"]
)
def test_every_environment_variable_is_described(name):
    assert f"| `{name}` |" in CONFIGURATION


def test_no_other_environment_variable_is_read():
    """Whatever the source asks the environment for is in the table."""
    asked = set()
    for file in (ROOT / "src/mulligan").rglob("*.py"):
        asked |= set(re.findall(r'env(?:iron)?\.get\(\s*"(\w+)"', file.read_text(encoding="utf-8")))
    assert {name for name in asked if f"| `{name}` |" not in CONFIGURATION} == set()


def test_the_mcp_reference_is_current():
    """After a change of a tool, a resource or a prompt: python scripts/generate_mcp_reference.py"""
    script = [sys.executable, ROOT / "scripts/generate_mcp_reference.py", "--check"]
    assert subprocess.run(script, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=False).returncode == 0
