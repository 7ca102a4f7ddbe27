"""Seed 003: "The interactive CLI exposes checkpoint management via /checkpoint …", and `/undo`; on the shared timeline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tools
from tools import cli


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent that does what its prompt says, and talks."""
    made = tmp_path / "agent"
    made.write_text(
        '#!/bin/sh\necho "working on: $1"\n'
        'case "$1" in\n'
        "*first*) echo one > a.txt; echo new > n.txt;;\n"
        "*second*) echo two > a.txt; rm -f b.txt;;\n"
        "*fail*) echo half > a.txt; echo oops >&2; exit 3;;\nesac\n"
    )
    made.chmod(0o755)
    return f"{made} {{prompt}}"


@pytest.fixture
def begun(project: Path) -> Path:
    (project / "a.txt").write_text("zero\n")
    (project / "b.txt").write_text("b\n")
    assert cli("save", "by hand", cwd=project).returncode == 0
    return project


def chat(project: Path, *lines: str, agent: str = "", expect: int = 0) -> list[str]:
    """Types lines into the REPL; returns what it answered."""
    words = ["repl", *(["--agent", agent] if agent else [])]
    given = "".join(f"{line}\n" for line in lines)
    done = tools.run_mulligan(words, cwd=project, env=tools.plain_environment(), given=given)
    assert done.returncode == expect, done.stdout + done.stderr
    return (done.stdout + done.stderr).splitlines() if expect else done.stdout.splitlines()


def contents(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(project.iterdir())}


def test_free_text_goes_to_the_agent_and_each_prompt_is_a_turn_that_undo_takes_back(begun: Path, agent: str) -> None:
    before = contents(begun)
    said = chat(begun, "do the first thing", "now the second", "/undo", agent=agent)
    assert said[:4] == [
        "working on: do the first thing",
        "Changed: a.txt, n.txt. Undo it: /undo",
        "working on: now the second",
        "Changed: a.txt, b.txt. Undo it: /undo",
    ]
    assert said[4].startswith('Undid prompt 2 "now the second"')
    assert contents(begun) == {"a.txt": "one\n", "b.txt": "b\n", "n.txt": "new\n"}
    story = cli("log", "--story", cwd=begun).stdout
    assert "do the first thing" in story
    assert "now the second" in story
    # The next session, and the command line, go on with the same timeline.
    (undone,) = chat(begun, "/undo")
    assert undone.startswith('Undid prompt 1 "do the first thing"')
    assert contents(begun) == before
    assert cli("redo", cwd=begun).returncode == 0
    assert contents(begun)["n.txt"] == "new\n"


def test_checkpoint_list_shows_the_shared_timeline(begun: Path, agent: str) -> None:
    chat(begun, "do the first thing", "/checkpoint create mine", agent=agent)
    listed = chat(begun, "/checkpoint list")
    assert len(listed) == 3
    assert "  by hand  " in listed[0]
    assert listed[0].endswith("(mulligan)")
    assert 'prompt 1 "do the first thing"' in listed[1]
    assert listed[1].endswith("(agent)")
    assert listed[2].startswith("  0  mine  ")


def test_checkpoint_restore_and_undo_reach_what_others_saved(begun: Path) -> None:
    (begun / "a.txt").write_text("broken\n")
    said = chat(begun, "/checkpoint restore by hand", "/undo", "/checkpoint restore nope")
    assert said[0].startswith("Restored to checkpoint by hand: restored a.txt.")
    assert said[-1] == "No checkpoint named 'nope'"
    assert contents(begun)["a.txt"] == "broken\n"


def test_an_agent_that_fails_says_so_and_what_it_did_can_be_undone(begun: Path, agent: str) -> None:
    said = chat(begun, "please fail", "/undo", agent=agent)
    assert "The agent failed: exit code 3: oops" in said
    assert contents(begun)["a.txt"] == "zero\n"


def test_an_agent_with_hooks_tells_the_same_turn_and_one_undo_is_enough(begun: Path, tmp_path: Path) -> None:
    hooked = tmp_path / "hooked.py"
    hooked.write_text(
        f"import sys; sys.path.insert(0, {str(Path(tools.__file__).parent)!r})\n"
        "from pathlib import Path\nfrom play import Agent\n"
        f"agent = Agent(Path({str(begun)!r}))\n"
        "agent.begin(sys.argv[1])\nagent.write('a.txt', 'hooked\\n')\nagent.stop()\n"
    )
    before = contents(begun)
    said = chat(begun, "use the tool", "/undo", agent=f"{sys.executable} {hooked} {{prompt}}")
    assert "Changed: a.txt. Undo it: /undo" in said
    assert said[-1].startswith('Undid prompt 1 "use the tool"')
    assert contents(begun) == before


def test_an_agent_that_cannot_be_used_is_refused_at_once(begun: Path) -> None:
    assert "{prompt}" in "".join(chat(begun, agent="claude -p", expect=2))
    assert "was not found" in "".join(chat(begun, agent="no-such-agent-here {prompt}", expect=1))
    assert chat(begun, "free text")[0].startswith("Unknown command: free")


def test_undo_names_the_checkpoint_whose_changes_it_takes_back(begun: Path) -> None:
    (begun / "n.txt").write_text("n\n")
    assert cli("save", "made n", cwd=begun).returncode == 0
    assert cli("save", "nothing new", cwd=begun).returncode == 0
    (said,) = chat(begun, "/undo")
    assert said == 'Undid checkpoint "made n" (just now): removed n.txt.'
    assert chat(begun, "/undo")[1] == "hint: mulligan log"


def test_the_log_shows_what_a_prompt_of_the_chat_asked_for(begun: Path, agent: str) -> None:
    chat(begun, "do the first thing", agent=agent)
    assert "do the first thing" in cli("log", "-n", "1", cwd=begun).stdout
