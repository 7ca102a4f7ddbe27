"""
The real originals with mulligan underneath: PraisonAI's Agent and command line, Chimera's tool loop.

They are installed from the package registry into environments of the test run. Where that is not possible, a test is
skipped and says so. architect is not in the registry; its command line is tried where ARCHITECT_PYTHON names a Python
that has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

import tools

INSTALL_SECONDS = 400
_made: dict[str, Path | str] = {}


def _python_with(package: str, factory: pytest.TempPathFactory) -> Path:
    """Returns a Python that has a package and mulligan; skips, loudly, where the package cannot be had."""
    if package not in _made:
        place = factory.mktemp("original")
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        ours = tomllib.loads((tools.PACKAGE.parent / "pyproject.toml").read_text())["project"]["dependencies"]
        command = [python, "-m", "pip", "install", "-q", package, *ours]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
            _made[package] = f"{said}" if done.returncode else python
        except subprocess.TimeoutExpired:
            _made[package] = f"not installed within {INSTALL_SECONDS} s"
    found = _made[package]
    if isinstance(found, str):
        pytest.skip(f"THE ORIGINAL {package} CANNOT BE INSTALLED, so mulligan underneath it was not tried: {found}")
    return found


def run(python: Path, project: Path, *words: str, expect: int = 0) -> str:
    done = subprocess.run(
        [python, *words],
        cwd=project,
        env=tools.plain_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


PRAISONAI_AGENT = """
import mulligan.compat; mulligan.compat.install()
import asyncio, os
os.environ["PRAISONAI_AUTO_APPROVE"] = "true"
os.environ["OPENAI_API_KEY"] = "not used"
from pathlib import Path
from praisonaiagents import Agent
from praisonaiagents.checkpoints import CheckpointService, CheckpointEvent
from praisonaiagents.hooks import HookRegistry, HookEvent

def write_file(path: str, text: str) -> str:
    "Writes a file."
    Path(path).write_text(text)
    return "done"

service = CheckpointService(workspace_dir=".")
said = []
service.on(CheckpointEvent.CREATED, lambda made: said.append(made.message))
registry = HookRegistry()
registry.on(HookEvent.BEFORE_TOOL)(service.before_tool)
agent = Agent(name="coder", instructions="write", tools=[write_file], hooks=registry, llm="gpt-4o-mini")
agent.chat_history.append({"role": "user", "content": "first"})
service.attach(agent.chat_history)
agent.execute_tool("write_file", {"path": "a.txt", "text": "one"})
agent.chat_history.append({"role": "assistant", "content": "second"})
agent.execute_tool("write_file", {"path": "a.txt", "text": "two"})
assert Path("a.txt").read_text() == "two"
assert said == ["Before write_file", "Before write_file"], said

async def back():
    newest = (await service.list())[0]
    assert await service.restore(newest)

asyncio.run(back())
assert Path("a.txt").read_text() == "one"
assert [m["content"] for m in agent.chat_history] == ["first", "second"]

async def first():
    assert await service.restore((await service.list())[1])

asyncio.run(first())
assert [m["content"] for m in agent.chat_history] == ["first"], agent.chat_history
print("underneath:", type(service).__module__)
"""


def test_praisonais_agent_with_hooks_and_conversation(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    python = _python_with("praisonaiagents", tmp_path_factory)
    (project / "a.txt").write_text("mine")
    assert "underneath: mulligan.dialects.praisonai.service" in run(python, project, "-c", PRAISONAI_AGENT)
    assert "Before write_file" in tools.cli("log", cwd=project).stdout


CHIMERA_LOOP = """
import mulligan.compat; mulligan.compat.install()
from pathlib import Path
from chimera.checkpoints import CheckpointManager
from chimera.checkpoints_ghost import GhostCommitManager
from chimera.core.context import Context
from chimera.core.loop_config import LoopConfig
from chimera.core.tool_executor import execute_tool_calls
from chimera.env.local import LocalEnvironment
from chimera.tools.write import WriteFileTool
from chimera.types import ToolCall

env = LocalEnvironment(workdir=".")
env.setup()
manager = CheckpointManager(env)
ghost = GhostCommitManager(workdir=".")
manager.create("before")
{config}
tool = WriteFileTool()
call = ToolCall(id="1", name="write_file", arguments={{"path": "a.txt", "content": "the loop's"}})
execute_tool_calls([call], {{"write_file": tool}}, Context(), env, config)
assert Path("a.txt").read_text() == "the loop's"
assert ghost.depth == 1, ghost.depth
assert ghost.undo() == ["restored: a.txt"]
assert Path("a.txt").read_text() == "mine"
Path("a.txt").write_text("again")
assert manager.restore_by_name("before").name == "before"
assert Path("a.txt").read_text() == "mine"
assert not Path(".chimera/checkpoints").exists()
print("underneath:", type(manager).__module__, type(env).__module__)
"""


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_chimeras_loop_with_its_own_and_with_our_configuration(
    project: Path, tmp_path_factory: pytest.TempPathFactory, whose: str
) -> None:
    python = _python_with("chimera-run", tmp_path_factory)
    (project / "a.txt").write_text("mine")
    ours = "from mulligan.dialects.chimera import LoopConfig\n" if whose == "ours" else ""
    config = ours + "config = LoopConfig(checkpoint_manager=manager, ghost_commits=ghost, yolo_mode=True)"
    said = run(python, project, "-c", CHIMERA_LOOP.format(config=config))
    assert "underneath: mulligan.dialects.chimera chimera.env.local" in said


#: Chimera's own tests of what is replaced: the manager, its directory, the ghost stack, the loop that uses them.
OWN_TESTS = (
    "tests/core/test_checkpoints.py",
    "tests/core/test_loop_config.py",
    "tests/env/test_checkpoint_hardening.py",
    "tests/integration/test_integration_wiring.py",
    "tests/integration/test_phase38.py",
)


def test_chimeras_own_suite_passes_with_mulligan_underneath(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = _python_with("chimera-run", tmp_path_factory)
    pip = [python, "-m", "pip", "-q"]
    version = run(
        python, tmp_path, "-c", "from importlib import metadata; print(metadata.version('chimera-run'))"
    ).strip()
    source = ["download", "--no-deps", "--no-binary", ":all:", "-d", tmp_path, f"chimera-run=={version}"]
    for words in ([*pip, "install", "pytest", "pytest-asyncio"], [*pip, *source]):
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        if done.returncode:
            pytest.skip(f"CHIMERA'S OWN SUITE CANNOT BE HAD, so it was not run: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    place = next(tmp_path.glob("chimera_run-*/"))
    plain = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
    said = run(python, place, "-m", "mulligan.compat", *plain, *OWN_TESTS)
    assert re.search(r"^\d{3,} passed in", said, re.MULTILINE), said


def test_architects_command_line(project: Path) -> None:
    python = os.environ.get("ARCHITECT_PYTHON")
    if not python:
        pytest.skip(
            "ARCHITECT IS NOT IN THE PACKAGE REGISTRY, so mulligan underneath it was not tried: ARCHITECT_PYTHON=…"
        )
    tools.git("init", "-q", "-b", "main", cwd=project)
    (project / "a.txt").write_text("0\n")
    code = (
        "import mulligan.compat; mulligan.compat.install()\n"
        "from architect.features.checkpoints import CheckpointManager\n"
        "manager = CheckpointManager('.')\n"
        "manager.create(1, 'one | pipe')\nopen('a.txt', 'w').write('2')\nmanager.create(2)\n"
    )
    run(Path(python), project, "-c", code)
    listed = run(Path(python), project, "-m", "mulligan.compat", "-m", "architect", "history")
    assert "one | pipe" in listed
    assert "Checkpoints (2):" in listed
    (project / "new.txt").write_text("not committed")
    back = run(Path(python), project, "-m", "mulligan.compat", "-m", "architect", "rollback", "--to-step", "1")
    assert back == "Rollback successful to step 1\n"
    assert (project / "a.txt").read_text() == "0\n"
    assert tools.cli("undo", cwd=project).returncode == 0
    assert (project / "new.txt").read_text() == "not committed"
