"""What the story of an agent's session tells: what was undone, and where the project is now."""

from __future__ import annotations

from pathlib import Path

from play import Agent, typed


def test_the_story_says_what_was_undone_and_where_you_are(project: Path) -> None:
    (project / "login.py").write_text("login\n")
    typed(project, "save", "base")
    agent = Agent(project)
    agent.turn("add a cart", "echo cart > cart.py")
    agent.turn("now clean up", "rm login.py")
    (last,) = [line for line in typed(project, "log", "--story").splitlines() if line.startswith("         @ ")]
    assert last.endswith("login.py")
    said = typed(project, "undo")
    assert said.startswith('Undid prompt 2 "now clean up" (') and "restored login.py. Redo: mulligan redo" in said
    told = typed(project, "log", "--story").splitlines()
    assert "prompt 2  now clean up  undone" in told
    (here,) = [line for line in told if line.startswith("         @ ")]
    assert here.endswith("cart.py")
    typed(project, "redo")
    assert "undone" not in typed(project, "log", "--story")
