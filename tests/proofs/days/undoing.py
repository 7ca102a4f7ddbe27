"""The commands of a played day that take something back or bring it forward, each judged by the ledger."""

from __future__ import annotations

import json
import shutil

from actors import Actors
from ledger import Outcome, differing, judge_branch, judge_dry_run, judge_turn, judge_whole
from yard import FOLDERS, Yard

from tools import git


class Undos(Actors):
    """Undo, redo and restore, in all their forms."""

    def _judged(self, yard: Yard, done: Outcome, what: str, below: str = "", session: str = "") -> str:
        """Judges an undo by what it says that it took back; returns the text of the turn."""
        undone = done.report.get("undone") or {}
        self.tell(
            f"{what}: exit {done.code} {undone.get('kind')} {undone.get('text')} changed {differing(done.before, done.after)} "
            f"listed {sorted(done.listed)} {done.report.get('message', '')}"
        )
        text = undone.get("text", "") if undone.get("kind") == "turn" else ""
        if done.code in (0, 3) and text:
            yard.wrong += judge_turn(yard.ledger, text, done, below)
            yard.wrong += judge_branch(yard.ledger, text, yard.branch(), done)
            if session and undone.get("session") != session:
                yard.wrong.append(f"{what} took back a turn of session {undone.get('session')}")
        elif done.code in (0, 3):
            yard.wrong += yard.ledger.touched(done.before, done.after)
            if below:
                yard.wrong += judge_whole(yard.ledger, done.after, done, below)
            if session:
                yard.wrong.append(f"{what} took back {undone.get('kind')}")
        elif done.report.get("type") not in {"NothingToUndo", "UnknownPath"}:
            yard.wrong.append(f"{what} refused: {done.report}")
        yard.ledger.record(f"undo of {text}" if text else "undo", done.before, done.after)
        return text

    def undo(self) -> None:
        """Undoes one operation."""
        yard = self.somewhere()
        if not yard.worked:
            return
        done = yard.command("undo")
        self._judged(yard, done, "undo")
        yard.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def undo_paths(self) -> None:
        """Undoes one operation below a path, and nothing else."""
        yard = self.somewhere()
        if not yard.worked:
            return
        recent = [change.path for change in yard.ledger.changes[-8:] if not yard.ledger.is_hidden(change.path)]
        path = self.random.choice([*recent, *(folder.rstrip("/") for folder in FOLDERS[1:])])
        done = yard.command("undo", "--", path)
        self._judged(yard, done, f"undo -- {path}", below=path)
        yard.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def undo_session(self) -> None:
        """Undoes the newest turn of one agent."""
        yard = self.somewhere()
        known = [agent.session for agent in yard.agents]
        if not yard.worked:
            return
        session = self.random.choice(known)
        done = yard.command("undo", "--session", session)
        if done.report.get("type") == "UnknownCheckpoint":
            return  # that agent has not begun yet
        self._judged(yard, done, f"undo --session {session[-4:]}", session=session)
        yard.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def undo_dry_run(self) -> None:
        """Asks what an undo would do; it changes nothing, and the undo does just that."""
        yard = self.somewhere()
        if not yard.worked:
            return
        before, rows = yard.photo(), len(yard.ask("log")["checkpoints"])
        said = yard.cli("--json", "undo", "--dry-run")
        after, plan = yard.photo(), json.loads(said.stdout).get("plan", {})
        if len(yard.ask("log")["checkpoints"]) != rows:
            yard.wrong.append("a dry run made a checkpoint")
        self.tell(f"undo --dry-run: exit {said.returncode}")
        done = yard.command("undo")
        if (said.returncode == 0) != (done.code in (0, 3)):
            yard.wrong.append(f"the dry run ended with {said.returncode}, the undo with {done.code}")
        busy = bool(self.writers) and yard is self.main
        yard.wrong += [] if busy else judge_dry_run(plan, before, after, done)
        self._judged(yard, done, "undo")
        yard.count("dry_runs")
        yard.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def undo_beside_program(self) -> None:
        """An agent works while a program writes in the background; the undo reaches the agent's turn."""
        yard = self.main
        if not self.writers or yard.open:
            return
        turn = self._begin(yard, self.random.choice(yard.agents))
        call = turn.agent.before_bash("make it so")
        changed = yard.changing(turn.text)
        self.tell(f"{turn.text}: {changed}")
        turn.agent.after_bash(call)
        turn.agent.stop()
        done = yard.command("undo")
        found = self._judged(yard, done, "undo")
        if changed and found != turn.text:
            yard.wrong.append(f"a background program hid {turn.text} from the undo, which took back {found or 'none'}")
        yard.count("undos_beside_a_program")
        yard.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def redo(self) -> None:
        """Redoes what was just undone, and expects exactly the state before the undo."""
        yard = self.somewhere()
        if yard.last is None:
            return
        _, wanted, since = yard.last
        done = yard.command("redo")
        self.tell(
            f"redo: exit {done.code} changed {differing(done.before, done.after)} {done.report.get('message', '')}"
        )
        if differing(wanted, since):
            yard.wrong += [f"redo: {line}" for line in judge_whole(yard.ledger, wanted, done)]
        yard.ledger.record("redo", done.before, done.after)
        yard.last = None

    def restore(self) -> None:
        """Restores a save and expects exactly that state."""
        self._restore("")

    def restore_paths(self) -> None:
        """Restores one path of a save, with all below it, and nothing else."""
        self._restore("some")

    def _restore(self, below: str) -> None:
        yard = self.somewhere()
        if not yard.saved:
            return
        name = self.random.choice(list(yard.saved))
        wanted = yard.saved[name]
        if below:
            known = sorted(path for path in wanted if not yard.ledger.is_hidden(path))
            below = self.random.choice(
                [*known, *(folder.rstrip("/") for folder in FOLDERS[1:] if folder[:-1] in wanted)]
            )
        done = yard.command("restore", name, "-y", *(("--", below) if below else ()))
        self.tell(
            f"restore {name} {below}: exit {done.code} changed {differing(done.before, done.after)} {done.report.get('message', '')}"
        )
        yard.wrong += [f"restore {name}: {line}" for line in judge_whole(yard.ledger, wanted, done, below)]
        yard.ledger.record("restore", done.before, done.after)
        yard.last = None
        if self.random.random() < 0.5 and differing(done.before, done.after):
            back = yard.command("undo")
            self.tell(f"undo of restore: exit {back.code} changed {differing(back.before, back.after)}")
            if self.writers and yard is self.main and not differing(back.before, back.after):
                yard.count(
                    "restores_hidden_by_a_program"
                )  # what changed since a restore is undone first, see limits.md
            else:
                wrong = judge_whole(yard.ledger, done.before, back)
                yard.wrong += [f"undo of restore {name}: {line}" for line in wrong]
            yard.ledger.record("undo of restore", back.before, back.after)

    def killed_command(self) -> None:
        """Kills an undo, redo or restore at a random moment; `doctor` finishes it or goes back."""
        yard = self.somewhere()
        if not yard.worked:
            return
        words = [["undo"], ["undo"], ["redo"], *([["restore", name, "-y"] for name in list(yard.saved)[-1:]])]
        args = self.random.choice(words)
        before = yard.photo()
        running = yard.program.begin(*args, cwd=yard.top)
        self._wait(self.random.uniform(0.0, 0.06))
        running.kill()
        ended = running.wait()
        doctor = yard.cli("doctor")
        after = yard.photo()
        yard.count("kills_of_commands" if ended.returncode < 0 else "kills_too_late")
        if doctor.returncode:
            yard.wrong.append(f"doctor after a killed {args}: exit {doctor.returncode} {doctor.stdout}{doctor.stderr}")
        yard.wrong += [f"left {path} behind" for path in after if ".mulligan" in path]
        yard.wrong += yard.ledger.touched(before, after)
        yard.ledger.record("undo", before, after)
        yard.last = None
        self.tell(f"killed {args} changed {differing(before, after)}")

    def folder_vanishes(self) -> None:
        """The whole project is deleted; an undo brings back what was saved, and names the rest."""
        yard = self.main
        if yard.open or self.writers or len(self.yards) > 1:
            return
        self.person_saves()
        before = yard.photo()
        shutil.rmtree(yard.top)
        if self.random.random() < 0.3:
            yard.top.mkdir()
        done = yard.cli("--json", "-C", str(yard.top), "undo", cwd=self.place)
        after = yard.photo()
        report = json.loads(done.stdout).get("report", {})
        outcome = Outcome(done.returncode, report, {}, after)
        self.tell(f"folder deleted; undo: exit {done.returncode} listed {sorted(outcome.listed)}")
        hidden = {path for path in before if yard.ledger.is_hidden(path)}
        yard.see_rules()
        back = [path for path in differing(before, after) if path not in hidden]
        if back:
            yard.wrong.append(f"folder: {back[:3]} did not come back: {done.stdout}{done.stderr}")
        unsaved = {path for path in yard.ledger.hidden if path in before and path not in after} | {".git"}
        if done.returncode != 3 or not unsaved <= outcome.lost:
            yard.wrong.append(f"folder: exit {done.returncode}, {unsaved - outcome.lost} not listed as lost")
        yard.ledger.record("undo", before, after)
        yard.last = None
        if yard.top.is_dir():
            git("init", "-q", "-b", "main", cwd=yard.top)
        yard.count("folders_brought_back")

    def _wait(self, seconds: float) -> None:
        """Lets a command work for a while before it is killed."""
        import time

        time.sleep(seconds)
