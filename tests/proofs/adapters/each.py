"""
Runs the tests of each adapter with its real library, each in an environment of its own.

    python3 tests/proofs/adapters/each.py                # all of them: some minutes, 1.5 GB in a cache
    python3 tests/proofs/adapters/each.py langgraph agno

The libraries want different versions of what they share, so no single environment holds them all at their newest. Two are
tried at a time. MULLIGAN_ADAPTERS names another directory for the environments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
#: What to install, and which test file needs it; deepagents brings LangChain along, and LangChain LangGraph.
LIBRARIES = {
    "langgraph": "test_langgraph.py",
    "openai-agents": "test_openai_agents.py",
    "claude-agent-sdk": "test_claude_agent.py",
    "pydantic-ai-slim": "test_pydantic_ai.py",
    "deepagents": "test_frameworks.py",
    "google-adk": "test_frameworks.py",
    "strands-agents": "test_frameworks.py",
    "agent-framework-core": "test_frameworks.py",
    "smolagents": "test_frameworks.py",
    "agno": "test_frameworks.py",
    "crewai": "test_frameworks.py",
}
TOOLS = ("pytest>=8.2", "hypothesis>=6.100", "pytest-xdist>=3.6", "pytest-randomly>=3.15")


def wheel(folder: str) -> str:
    """Returns the path of a wheel of mulligan, built once for all environments."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)], check=True)
    return str(next(Path(folder).glob("*.whl")))


def environment(library: str, cache: Path, ours: str) -> str:
    """Returns the Python of an environment that holds a library, mulligan and pytest."""
    folder = cache / library
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([*pip, library, *TOOLS, ours], check=True)
        (folder / "installed").touch()
    else:
        subprocess.run([*pip, "--force-reinstall", "--no-deps", ours], check=True)
        subprocess.run([*pip, ours], check=True)  # what it needs since
    return python


def tried(library: str, cache: Path, ours: str) -> bool:
    """Returns whether the tests of a library passed, and at least one of them ran."""
    try:
        python = environment(library, cache, ours)
    except subprocess.CalledProcessError:
        print(f"!!! {library} COULD NOT BE INSTALLED: its adapter is not tested", flush=True)
        return False
    words = ["-m", "pytest", "-p", "no:cacheprovider", str(HERE / LIBRARIES[library])]
    done = subprocess.run([python, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    marks = done.stdout.partition("[100%]")[0].split()[:1]
    passed = done.returncode == 0 and "." in "".join(marks)
    version = subprocess.run(
        [python, "-c", f"from importlib.metadata import version; print(version({library!r}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    counts = (re.findall(r"^\d+ .* in .*$", done.stdout, re.MULTILINE) or ["no test ran"])[-1]
    print(f"{'ok' if passed else 'FAILED':7} {library} {version.stdout.strip()}: {counts}", flush=True)
    if not passed:
        print(done.stdout[-4000:], done.stderr[-2000:])
    return passed


def main(names: list[str]) -> int:
    """Tries the named libraries, or all."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(os.environ.get("MULLIGAN_ADAPTERS") or Path(home, "mulligan-adapters"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as threads:
        ours = wheel(folder)
        results = list(threads.map(lambda name: tried(name, cache, ours), names or LIBRARIES))
    print(f"libraries: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
