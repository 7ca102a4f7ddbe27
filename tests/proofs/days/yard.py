"""One workspace of a played day: what stands in it, who works in it, and commands whose outcome is judged."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from ledger import SECRETS, Ledger, Outcome, Photo, differing, judge_code, judge_loss, photograph
from warm import Program

from play import Agent
from tools import git

FOLDERS = ("", "src/", "src/deep/", "docs/", "lib/")
_NAMES = ("a.txt", "b.txt", "main.py", "notes.md", "x")
_DEEDS = ("write", "write", "append", "line", "delete", "rename", "chmod", "rmtree", "swap", "link", "secret")
#: Every secret of a day has it, and no other file.
TOKEN = "hunter2-of-this-day"


class Turn(NamedTuple):
    """One prompt of one agent: the text identifies it."""

    agent: Player
    text: str


class Player(Agent):
    """An agent that is a process; its hooks are the children of that."""

    def __init__(self, project: Path, session: str, program: Program) -> None:
        super().__init__(project, session)
        self.program = program

    def call(self, text: str) -> Any:
        """Runs the hook."""
        return self.program.run(
            "hook", "claude-code", cwd=self.cwd, text=text, CLAUDE_PROJECT_DIR=str(self.project)
        )  # fmt: skip


class Yard:
    """One workspace, its agents, and the ledger of it. Inside another yard it is a worktree of that one."""

    def __init__(self, top: Path, rand: random.Random, program: Program, outer: Yard | None = None) -> None:
        self.top, self.random, self.program, self.outer = top, rand, program, outer
        self.ledger = Ledger()
        self.agents: list[Player] = []
        self.open: dict[str, Turn] = {}
        self.saved: dict[str, Photo] = {}
        self.last: tuple[str, Photo, Photo] | None = None
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}
        self.worked = False

    def photo(self) -> Photo:
        """What stands in it now, the files of background programs aside."""
        return photograph(self.top, self.ledger.busy)

    def see_rules(self) -> None:
        """Notes which paths came into view because the rule that hid them is gone, by whatever hand."""
        rules = self.top / ".gitignore"
        lines = rules.read_text().splitlines() if rules.is_file() else []
        here = {path for path in self.ledger.hidden if not (self.top / path / ".git").exists()}
        self.ledger.shown |= {path for path in here if f"/{path}" not in lines}

    def count(self, what: str) -> None:
        """Counts something that happened."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def branch(self) -> str:
        """The branch that is checked out."""
        return git("symbolic-ref", "--short", "-q", "HEAD", cwd=self.top, check=False).decode().strip()

    # -- writing --------------------------------------------------------------------------------

    def changing(self, writer: str, *, sure: bool = True) -> list[str]:
        """Changes one to three things on disk as a writer; returns the paths."""
        before = self.photo()
        for _ in range(self.random.randint(1, 3)):
            self._edit()
        after = self.photo()
        self.ledger.record(writer, before, after, sure=sure)
        self.last = None
        return differing(before, after)

    def _edit(self) -> None:
        rand = self.random
        path = rand.choice(FOLDERS) + rand.choice(_NAMES)
        existing = [
            each for each, thing in self.photo().items()
            if thing.kind == "file" and not os.path.basename(each).startswith(".") and not self.ledger.is_hidden(each)
        ]  # fmt: skip
        deed = rand.choice(_DEEDS)
        if deed == "secret":
            self._edit_secret(rand.choice(SECRETS))
        elif deed == "write" or not existing:
            self.write(path, "".join(f"{rand.random()}\n" for _ in range(rand.randint(1, 9))))
        elif deed in ("append", "line", "delete", "chmod"):
            _change_file(self.top / rand.choice(existing), deed, rand)
        elif deed == "rename" and not os.path.lexists(self.top / path):
            self._make_way(path)
            old = self.top / rand.choice(existing)
            if old.is_file():
                os.rename(old, self.top / path)
                # Its number among the changes: those of this action are noted after it.
                self.ledger.renames.append((len(self.ledger.changes), str(old.relative_to(self.top)), path))
        elif deed == "rmtree":
            folder = self.top / rand.choice(FOLDERS[1:])
            if folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
        elif deed == "swap":
            _swap(self.top / rand.choice(existing))
        elif deed == "link" and not os.path.lexists(self.top / path):
            self._make_way(path)
            (self.top / path).symlink_to("start.txt")

    def _edit_secret(self, path: str) -> None:
        full = self.top / path
        if full.is_file() and self.random.random() < 0.4:
            full.unlink()
        else:
            self.write(path, f"KEY={TOKEN}-{self.random.random()}\n")

    def write(self, path: str, text: str) -> None:
        """Writes a file, whatever stands in its way."""
        self._make_way(path)
        full = self.top / path
        if full.is_dir() and not full.is_symlink():
            shutil.rmtree(full)
        elif full.is_symlink():
            full.unlink()
        full.write_text(text)

    def _make_way(self, path: str) -> None:
        """Makes the directories above a path; removes what stands in their places."""
        for above in reversed(list(Path(path).parents)[:-1]):
            folder = self.top / above
            if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
                folder.unlink()
            folder.mkdir(exist_ok=True)

    # -- commands -------------------------------------------------------------------------------

    def cli(self, *args: str, cwd: Path | None = None) -> Any:
        """Runs a command."""
        return self.program.run(*args, cwd=cwd or self.top)

    def ask(self, *args: str) -> dict[str, Any]:
        """Runs a command that must work; returns what it printed."""
        done = self.cli("--json", *args)
        assert done.returncode == 0, f"{args}: exit {done.returncode}: {done.stdout}{done.stderr}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def store(self) -> Path:
        """Where its checkpoints are."""
        return Path(self.ask("status")["store"])

    def command(self, *args: str) -> Outcome:
        """Runs an undo, redo or restore, and judges what can be judged of each: the code, what is lost, what lies outside."""
        around = self.outer.photo() if self.outer is not None else {}
        self.see_rules()
        before = self.photo()
        done = self.cli("--json", *args)
        after = self.photo()
        self.see_rules()
        try:
            said: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            said = {}
            self.wrong.append(f"{args}: no JSON: exit {done.returncode} {done.stdout}{done.stderr}")
        report = said.get("report") or said.get("error") or said
        outcome = Outcome(done.returncode, report if isinstance(report, dict) else {}, before, after)
        self.count(f"{args[0]}_exit_{done.returncode}")
        self.wrong += [f"{args[0]}: {line}" for line in judge_code(outcome)]
        if outcome.report.get("undo"):
            safety = self.ask("show", outcome.report["undo"])["checkpoint"]
            self.wrong += judge_loss(self.store(), safety, outcome)
        elif differing(before, after):
            self.wrong.append(f"{args[0]} changed files and names no safety checkpoint")
        if self.outer is not None:
            inside = str(self.top.relative_to(self.outer.top)) + "/"
            moved = [p for p in differing(around, self.outer.photo()) if not p.startswith(inside)]
            self.wrong += [f"{args[0]} in a worktree touched {path} of the project" for path in moved]
        return outcome


def _change_file(file: Path, deed: str, rand: random.Random) -> None:
    lines = file.read_text(errors="replace").splitlines(keepends=True)
    if deed == "append":
        file.write_text("".join([*lines, f"more {rand.random()}\n"]))
    elif deed == "line" and lines:
        lines[rand.randrange(len(lines))] = f"other {rand.random()}\n"
        file.write_text("".join(lines))
    elif deed == "chmod":
        file.chmod(rand.choice((0o644, 0o755, 0o600, 0o444)))
    elif deed == "delete":
        file.unlink()


def _swap(file: Path) -> None:
    """Puts a directory with a file in it where a file stands."""
    data = file.read_bytes()
    file.unlink()
    file.mkdir()
    (file / "inner.txt").write_bytes(data)
