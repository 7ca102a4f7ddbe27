"""Who works on a played day, and what they do: agents with subagents, a person, programs in the background."""

from __future__ import annotations

import collections
import itertools
import os
import random
import shutil
from pathlib import Path

from ledger import differing, holding, states_of
from warm import Program
from writers import Writer
from yard import FOLDERS, TOKEN, Player, Turn, Yard

from tools import git

_CALLS = itertools.count(1)
_WORKTREES = (".claude/worktrees/", "trees/")


class Actors:
    """The project of a day, the worktrees in it, and who works there."""

    def __init__(self, place: Path, seed: int, program: Program) -> None:
        self.random = random.Random(seed)
        self.place, self.seed, self.program = place, seed, program
        self.story: list[str] = []
        self.turns = 0
        self.writers: list[Writer] = []
        self.main = Yard(place / "project", self.random, program)
        self.yards = [self.main]
        self._ended: list[Yard] = []
        top = self.main.top
        top.mkdir()
        for folder in FOLDERS:
            (top / folder).mkdir(exist_ok=True)
            (top / folder / "start.txt").write_text("".join(f"line {n} of {folder}\n" for n in range(12)))
        (top / ".gitignore").write_text(".env\n")
        git("init", "-q", "-b", "main", cwd=top)
        git("add", "-A", cwd=top)
        git("commit", "-qm", "start", cwd=top)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._enter(self.main)

    def tell(self, line: str) -> None:
        """Adds to the story of the day."""
        self.story.append(line)

    def wrong(self) -> list[str]:
        """What was wrong so far."""
        return [line for yard in (*self.yards, *self._ended) for line in yard.wrong]

    def counts(self) -> dict[str, int]:
        """How often what was tried."""
        total: collections.Counter[str] = collections.Counter(turns=self.turns)
        for yard in (*self.yards, *self._ended):
            total.update(yard.counts)
        return dict(total)

    def somewhere(self) -> Yard:
        """The project, or now and then a worktree in it."""
        return self.random.choice(self.yards[1:]) if self.yards[1:] and self.random.random() < 0.3 else self.main

    # -- agents ---------------------------------------------------------------------------------

    def _enter(self, yard: Yard) -> Player:
        """An agent is started in a workspace."""
        session = f"{self.seed:08x}-0000-4000-8000-{next(_CALLS):012x}"
        agent = Player(yard.top, session, self.program.another())
        yard.agents.append(agent)
        return agent

    def _begin(self, yard: Yard, agent: Player) -> Turn:
        self.turns += 1
        yard.worked = True
        turn = Turn(agent, f"turn {self.turns}")
        agent.begin(turn.text)
        yard.ledger.branches[turn.text] = yard.branch()
        return turn

    def _going_on(self, yard: Yard) -> Turn:
        """An agent's turn that is open, or a new one."""
        agent = self.random.choice(yard.agents)
        if agent.session not in yard.open:
            yard.open[agent.session] = self._begin(yard, agent)
        return yard.open[agent.session]

    def _stop(self, yard: Yard, turn: Turn) -> None:
        turn.agent.stop()
        yard.open.pop(turn.agent.session, None)

    def agent_works(self) -> None:
        """One agent begins a turn, or goes on with it, or ends it, or is killed."""
        yard = self.somewhere()
        turn = self._going_on(yard)
        call = turn.agent.before_bash("make it so")
        self.tell(f"{turn.text}: {yard.changing(turn.text)}")
        if self.random.random() < 0.08:
            self._kill(yard, turn)
            return
        turn.agent.after_bash(call)
        if self.random.random() < 0.6:
            self._stop(yard, turn)

    def _kill(self, yard: Yard, turn: Turn) -> None:
        """Kills an agent during a command; another one is started."""
        turn.agent.program.kill()
        yard.count("kills")
        yard.open.pop(turn.agent.session, None)
        yard.agents.remove(turn.agent)
        at = len(yard.ledger.changes)
        if self.random.random() < 0.3:
            self.tell(f"person, right after the kill: {yard.changing('person')}")
        self._enter(yard).event("SessionStart", source="startup")
        yard.ledger.killed[turn.text] = range(at, len(yard.ledger.changes))
        self.tell(f"{turn.text}: killed")

    def subagents_work(self) -> None:
        """An agent hands work to one or two subagents, which run commands at the same time, and may work itself."""
        yard = self.somewhere()
        turn = self._going_on(yard)
        task = {"tool_name": "Task", "tool_input": {"description": "help", "prompt": "help", "subagent_type": "helper"}}
        names = [f"a{next(_CALLS):06x}" for _ in range(self.random.randint(1, 2))]
        ids = {name: f"task{name}" for name in names}
        for name in names:
            turn.agent.event("PreToolUse", **task, tool_use_id=ids[name])
        calls = []
        for name in names:
            call = {
                "agent_id": name, "agent_type": "helper", "tool_name": "Bash", "tool_input": {"command": "make help"},
                "tool_use_id": f"call{name}",
            }  # fmt: skip
            turn.agent.event("PreToolUse", **call)
            self.tell(f"{turn.text}, subagent {name}: {yard.changing(turn.text)}")
            calls.append(call)
        for call in self.random.sample(calls, len(calls)):
            if self.random.random() < 0.5:
                self.tell(f"{turn.text}, a subagent: {yard.changing(turn.text)}")
            turn.agent.event("PostToolUse", **call, tool_response={"stdout": ""})
            turn.agent.event("SubagentStop", agent_id=call["agent_id"], agent_type="helper", stop_hook_active=False)
        for name in names:
            turn.agent.event("PostToolUse", **task, tool_use_id=ids[name], tool_response={"content": []})
        yard.count("subagents")
        if self.random.random() < 0.7:
            self._stop(yard, turn)

    def agents_overlap(self) -> None:
        """Two agents run shell commands at the same time."""
        yard = self.main
        if len(yard.agents) < 2 or yard.open:
            return
        turns = [self._begin(yard, agent) for agent in self.random.sample(yard.agents, 2)]
        pair = [(turn, turn.agent.before_bash("make it so")) for turn in turns]
        before, at = yard.photo(), len(yard.ledger.changes)
        for turn, _ in pair:
            self.tell(f"{turn.text} (overlapping): {yard.changing(turn.text, sure=False)}")
        # What one made and the other removed was there at no event: no checkpoint can hold it.
        seen = differing(before, yard.photo())
        yard.ledger.changes[at:] = [change for change in yard.ledger.changes[at:] if change.path in seen]
        for turn, call in pair:
            turn.agent.after_bash(call)
            turn.agent.stop()

    def agent_ignores(self) -> None:
        """An agent hides a new file or directory by a rule, in its turn, and puts data there."""
        yard = self.somewhere()
        turn = self._going_on(yard)
        call = turn.agent.before_bash("make data")
        self.tell(f"{turn.text}: ignores {self._hide(yard, turn.text)}")
        turn.agent.after_bash(call)
        self._stop(yard, turn)

    def agent_deletes_unsaved(self) -> None:
        """An agent deletes data that was never saved, and something that was."""
        yard = self.main
        yard.see_rules()
        ours = yard.ledger.hidden - yard.ledger.shown
        there = [path for path in sorted(ours) if os.path.lexists(yard.top / path) and not path.startswith(_WORKTREES)]
        if yard.open or not there:
            return
        path = self.random.choice(there)
        turn = self._begin(yard, self.random.choice(yard.agents))
        call = turn.agent.before_bash("make clean")
        full = yard.top / path
        shutil.rmtree(full) if full.is_dir() else full.unlink()
        yard.ledger.doomed[turn.text] = path
        self.tell(f"{turn.text}: deletes the unsaved {path} and {yard.changing(turn.text)}")
        turn.agent.after_bash(call)
        turn.agent.stop()

    # -- a person -------------------------------------------------------------------------------

    def person_edits(self) -> None:
        """The person changes files, between the commands of agents."""
        yard = self.somewhere()
        self.tell(f"person: {yard.changing('person')}")
        self._pass(yard)

    def _pass(self, yard: Yard) -> None:
        """Lets the next event of each open turn see that what changed was not its command."""
        for turn in yard.open.values():
            turn.agent.bash("true")

    def _hide(self, yard: Yard, writer: str) -> str:
        """Adds a rule for a path that is not there yet, and puts data there."""
        before, number = yard.photo(), len(yard.ledger.hidden)
        path = self.random.choice((f"results{number}", f"data{number}.bin", f"src/cache{number}"))
        rules = (yard.top / ".gitignore").read_text() if (yard.top / ".gitignore").exists() else ""
        (yard.top / ".gitignore").write_text(f"{rules}/{path}\n")
        yard.ledger.hidden.add(path)
        yard.write(path if path.endswith(".bin") else f"{path}/big.jsonl", f"{self.random.random()}")
        yard.ledger.record(writer, before, yard.photo())
        yard.last = None
        return path

    def person_ignores(self) -> None:
        """The person hides a new file or directory by a rule and puts data there."""
        yard = self.somewhere()
        self.tell(f"person ignores {self._hide(yard, 'person')}")
        self._pass(yard)

    def person_unignores(self) -> None:
        """The person takes a rule away, so that data comes into view that was never saved."""
        yard, rules = self.main, self.main.top / ".gitignore"
        lines = rules.read_text().splitlines() if rules.exists() else []
        there = [line for line in lines if line.startswith("/")]
        if not there:
            return
        before, line = yard.photo(), self.random.choice(there)
        rules.write_text("".join(f"{each}\n" for each in lines if each != line))
        yard.ledger.record("person", before, yard.photo())
        yard.ledger.shown.add(line[1:])
        yard.last = None
        self.tell(f"person no longer ignores {line[1:]}")
        self._pass(yard)

    def person_saves(self) -> None:
        """The person saves."""
        yard = self.somewhere()
        name = f"save {len(yard.saved)} of {yard.top.name}"
        done = yard.cli("save", name)
        if done.returncode and not (done.returncode == 3 and yard.ledger.busy):
            yard.wrong.append(f"save: exit {done.returncode} {done.stdout}{done.stderr}")
        yard.saved[name] = yard.photo()
        yard.worked, yard.last = True, None
        self.tell(name)

    def branch_switches(self) -> None:
        """The person commits all and switches to another branch, or back."""
        yard = self.main
        if yard.open:
            return
        before = yard.photo()
        # What git takes away of a file that a program writes is not mulligan's to bring back.
        left = (*_WORKTREES, *yard.ledger.busy)
        git("add", "-A", "--", ".", *(f":!{each}" for each in left), cwd=yard.top, check=False)
        git("commit", "-qm", "work", cwd=yard.top, check=False)
        git("checkout", "-q", "-B", f"side{self.random.randint(0, 2)}", cwd=yard.top, check=False)
        if self.random.random() < 0.5:
            git("checkout", "-q", "main", cwd=yard.top, check=False)
        yard.ledger.record("person", before, yard.photo())
        yard.last = None
        self.tell(f"person switches branches: {differing(before, yard.photo())}")

    def worktree(self) -> None:
        """The person makes a worktree inside the project and starts an agent there, or removes one."""
        if len(self.yards) > 1:
            if self.random.random() < 0.3 and not self.yards[1].open:
                self._remove_worktree(self.yards[1])
            return
        if not (self.main.top / ".git").is_dir() or not git(
            "rev-parse", "-q", "--verify", "HEAD", cwd=self.main.top, check=False
        ):
            return
        path = f"{self.random.choice(_WORKTREES)}w{self.turns}"
        before = self.main.photo()
        git("worktree", "add", "-q", "-f", "-B", f"w{self.turns}", path, cwd=self.main.top)
        self.main.ledger.hidden.add(path)
        self.main.ledger.record("person", before, self.main.photo())
        self.main.last = None
        yard = Yard(self.main.top / path, self.random, self.program, self.main)
        yard.ledger.hidden |= {each for each in self.main.ledger.hidden if os.path.lexists(yard.top / each)}
        self.yards.append(yard)
        self._enter(yard)
        self._pass(self.main)
        self.main.count("worktrees")
        self.tell(f"person makes the worktree {path}")

    def _remove_worktree(self, yard: Yard) -> None:
        self._account(yard)
        before = self.main.photo()
        git("worktree", "remove", "--force", "--force", yard.top, cwd=self.main.top)
        self.main.ledger.record("person", before, self.main.photo())
        self.main.last = None
        for agent in yard.agents:
            agent.program.end()
        self.yards.remove(yard)
        self._ended.append(yard)
        self._pass(self.main)
        self.tell("person removes the worktree")

    def project_moves(self) -> None:
        """The person renames the project; an agent may work in the new place before the history is adopted."""
        yard = self.main
        if yard.open or self.writers or len(self.yards) > 1 or not yard.worked:
            return
        old, before = yard.top, yard.photo()
        yard.top = self.place / f"moved{self.turns}" / "project"
        yard.top.parent.mkdir(exist_ok=True)
        os.rename(old, yard.top)
        for agent in yard.agents:
            agent.project = agent.cwd = yard.top
        if self.random.random() < 0.5:
            turn = self._begin(yard, self.random.choice(yard.agents))
            call = turn.agent.before_bash("make it so")
            self.tell(f"{turn.text} in the new place: {yard.changing(turn.text)}")
            turn.agent.after_bash(call)
            turn.agent.stop()
            before = yard.photo()
        done = yard.cli("adopt", str(old))
        if done.returncode:
            yard.wrong.append(f"adopt: exit {done.returncode}: {done.stdout}{done.stderr}")
        elif differing(before, yard.photo()):
            yard.wrong.append("adopt changed files")
        names = {row["name"] for row in yard.ask("log")["checkpoints"]}
        yard.wrong += [f"after adopt, {name!r} is not in the log" for name in yard.saved if name not in names]
        yard.last = None
        yard.count("moves")
        self.tell("project moved, history adopted")

    # -- programs in the background -------------------------------------------------------------

    def program_starts(self) -> None:
        """An agent starts a program in the background that keeps writing to a file of the project."""
        yard = self.main
        if self.writers or yard.open:
            return
        turn = self._begin(yard, self.random.choice(yard.agents))
        call = turn.agent.before_bash("make serve &")
        path, number = f"server{self.turns}.out", len(yard.ledger.busy)
        yard.ledger.busy.add(path)
        pause = self.random.choice((0.0, 0.002, 0.02, 0.1))
        self.writers.append(Writer(yard.top, path, self.place / f"note{number}", f"line{number} of", pause))
        self.tell(f"{turn.text}: starts a program that writes {path} every {pause} s; {yard.changing(turn.text)}")
        turn.agent.after_bash(call)
        turn.agent.stop()
        yard.count("programs")

    def program_stops(self) -> None:
        """The program ends; every line that it wrote is in its file or in a checkpoint."""
        for writer in self.writers:
            writer.stop()
            file = self.main.top / writer.path
            states = [file.read_bytes()] if file.is_file() else []
            missing = writer.missing([*states, *states_of(self.main.store(), writer.path)])
            if missing:
                self.main.wrong.append(f"LOST {len(missing)} lines of {writer.path}, such as {missing[:3]}")
            self.tell(f"the program that writes {writer.path} ends")
        self.writers.clear()

    # -- the end --------------------------------------------------------------------------------

    def evening(self) -> None:
        """At the end of the day: no line lost, no secret in the clear, every store sound."""
        self.program_stops()
        for yard in self.yards:
            self._account(yard)

    def _account(self, yard: Yard) -> None:
        if not yard.worked:
            return
        clear = holding(yard.store(), TOKEN.encode())
        if clear:
            yard.wrong.append(f"{clear} objects of the store hold a secret in the clear")
        done = yard.cli("check")
        if done.returncode:
            yard.wrong.append(f"check: exit {done.returncode}: {done.stdout}{done.stderr}")
