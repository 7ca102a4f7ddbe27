"""
Runs the tests of each adapter with its real library, each in an environment of its own.

    python3 tests/proofs/adapters/each.py                # all of them: some minutes, 1.5 GB in a cache
    python3 tests/proofs/adapters/each.py langchain agno

The libraries want different versions of what they share, so no single environment holds them all at their newest.
"""

from __future__ import annotations

import os
import subprocess
import sys
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


def environment(library: str, cache: Path) -> str:
    """Returns the Python of an environment that holds a library, mulligan and pytest."""
    folder = cache / library
    python = str(folder / "bin" / "python")
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", library, *TOOLS], check=True)
        (folder / "installed").touch()
    subprocess.run([python, "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", str(ROOT)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", str(ROOT)], check=True)
    return python


def tried(library: str, cache: Path) -> bool:
    """Returns whether the tests of a library passed, and at least one of them ran."""
    try:
        python = environment(library, cache)
    except subprocess.CalledProcessError:
        print(f"!!! {library} COULD NOT BE INSTALLED: its adapter is not tested")
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
    print(f"{'ok' if passed else 'FAILED':7} {library} {version.stdout.strip()}", flush=True)
    if not passed:
        print(done.stdout[-4000:], done.stderr[-2000:])
    return passed


def main(names: list[str]) -> int:
    """Tries the named libraries, or all."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(home) / "mulligan-adapters"
    results = [tried(name, cache) for name in names or LIBRARIES]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
