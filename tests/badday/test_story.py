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


def test_a_command_beside_another_agents_is_not_said_to_have_changed_nothing(project: Path) -> None:
    """One checkpoint holds what both did; the story shows it once, and claims nothing of the other."""
    one, two = Agent(project, "one11111-aaaa"), Agent(project, "two22222-aaaa")
    for agent in (one, two):
        agent.event("SessionStart", source="startup")
        agent.begin("go")
    first, second = one.before_bash("echo 1 > one.txt"), two.before_bash("echo 2 > two.txt")
    (project / "one.txt").write_text("1\n")
    (project / "two.txt").write_text("2\n")
    one.after_bash(first)
    two.after_bash(second)
    for agent in (one, two):
        agent.stop()
    assert "no files changed" not in typed(project, "log", "--story")
    two.turn("look", "true")
    assert typed(project, "log", "--story").count("no files changed") == 1
