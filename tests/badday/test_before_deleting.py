"""Before a destructive command, the hook says what an undo brings back and what it does not."""

from __future__ import annotations

import pytest

import tools
from play import Agent, typed

SAID = {
    "rm -rf src": "rm deletes files. Saved and undoable: src/ (3 files). Undo: mulligan undo",
    "rm -rf src node_modules": (
        "rm deletes files. Saved and undoable: src/ (3 files). Not saved, cannot be undone: node_modules"
    ),
    "cd src && rm -f a.py 2>/dev/null": "rm deletes files. Saved and undoable: src/a.py. Undo: mulligan undo",
    "rm -f .env": "rm deletes files. Saved and undoable: .env. Undo: mulligan undo",
    "truncate -s 0 README": "truncate cuts files off. Saved and undoable: README. Undo: mulligan undo",
    "python -c \"import shutil; shutil.rmtree('src')\"": (
        "The program removes or moves files. Saved and undoable: src/ (3 files). Undo: mulligan undo"
    ),
    "sqlite3 app.db 'DROP TABLE users'": "DROP removes data. Saved and undoable: app.db. Undo: mulligan undo",
}
NEVER = [
    "rm -rf .git",
    "rm -rf ~/Documents",
    "rm -rf node_modules build",
    "rm -rf $HOME/xdg-state/mulligan",
    "git push --force origin main",
    "git branch -D feature",
    "git stash clear",
    "git reflog expire --expire=now --all",
    'psql -c "DROP TABLE users"',
    "docker system prune -af",
    "mulligan rm latest -y",
    "mulligan forget src -y",
    "mulligan stores --purge -y",
    "mulligan uninstall --stores",
    "ssh server rm -rf /srv/data",
]


@pytest.fixture
def agent(project, private_home):
    folder = private_home / "xdg-config" / "mulligan"
    folder.mkdir()
    (folder / "config.toml").write_text('[hooks]\ndestructive = "save"\n')
    (private_home / "Documents").mkdir()
    for path in ("src/a.py", "src/b.py", "src/c.py", "node_modules/x/index.js", "README", "app.db", ".env"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(path)
    (project / ".gitignore").write_text("node_modules/\n.env\n")
    tools.git("init", "-q", cwd=project)
    tools.git("add", "-A", cwd=project)
    tools.git("commit", "-qm", "first", cwd=project)
    typed(project, "save")  # seals .env; what is said about the new key is said here
    return Agent(project)


def before(agent, command):
    """What the person reads when the agent is about to run a command."""
    call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": command}
    return agent.event("PreToolUse", **call).get("systemMessage", "")


def test_the_hook_names_what_is_saved_and_what_is_not(agent):
    assert {command: before(agent, command) for command in SAID} == SAID


def test_the_hook_never_promises_an_undo_of_what_mulligan_does_not_hold(agent):
    said = {command: before(agent, command) for command in NEVER}
    assert [command for command, text in said.items() if "mulligan cannot undo this" not in text] == []
    assert [command for command, text in said.items() if "undoable" in text] == []


def test_where_the_files_cannot_be_told_the_whole_project_is_judged(agent):
    for command in ("rm -rf $TARGET", "ls | xargs rm -f", "rm -rf .", "find . -name '*.py' -delete"):
        said = before(agent, command)
        assert "Saved and undoable: this project (7 files)." in said and "node_modules" in said and ".git" in said


def test_a_command_that_destroys_nothing_is_not_commented(agent):
    for command in (
        "ls -la",
        "echo x > y",
        "rm -rf nothing-here",
        "git commit -am x",
        "mulligan stores",
        "mulligan undo",
    ):
        assert before(agent, command) == ""


def test_what_the_hook_called_undoable_comes_back(agent, project):
    agent.begin("clean up")
    assert "undoable: src/ (3 files)" in before(agent, "rm -rf src")
    agent.bash("rm -rf src")
    agent.stop()
    typed(project, "undo")
    assert (project / "src/b.py").read_text() == "src/b.py"
