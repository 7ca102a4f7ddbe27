"""
Random days: agents, a person and background programs work in one project, and things are undone.

    python tests/proofs/days/days.py [--size DAYS] [--seed N] [--steps N] [--story] [--build NAME]

One to three scripted agents send the events of the real client; a person edits, switches branches, ignores, deletes and moves
things; some agents are killed in the middle. In between come undos, redos and restores, some of them killed too. A ledger
that knows who wrote what judges each: nothing lost, nothing foreign touched, every exit code true.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from ledger import Ledger, Outcome, Photo, differing, judge_code, judge_loss, judge_turn, judge_whole, photograph

from play import Agent
from tally import Tally, parser, workplace
from tools import cli, git, mulligan_argv, plain_environment

_FOLDERS = ("", "src/", "src/deep/", "docs/", "lib/")
_NAMES = ("a.txt", "b.txt", "main.py", "notes.md", "x")
#: Known-bad builds: what each puts into every process of the program when it starts.
BUILDS = {
    "claims-everything": """
import mulligan.turns as turns
from mulligan.restore.taking_back import all_of_it
step = turns._step
turns._step = lambda part: step(part)._replace(mine=all_of_it)
""",
    "always-complete": """
from mulligan.model.plan import RestoreReport
RestoreReport.complete = property(lambda self: True)
""",
}


class Turn(NamedTuple):
    """One prompt of one agent: the text identifies it."""

    agent: Agent
    text: str


class Day:
    """One project and what happens in it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.place = place
        self.project = place / "project"
        self.ledger = Ledger()
        self.wrong: list[str] = []
        self.story: list[str] = []
        self.counts: dict[str, int] = {}
        self.open: dict[str, Turn] = {}
        self.saved: dict[str, Photo] = {}
        self.last: tuple[str, Photo, Photo] | None = None
        self.turns = 0
        self.project.mkdir()
        for folder in _FOLDERS:
            (self.project / folder).mkdir(exist_ok=True)
            (self.project / folder / "start.txt").write_text("".join(f"line {n} of {folder}\n" for n in range(12)))
        git("init", "-q", "-b", "main", cwd=self.project)
        git("add", "-A", cwd=self.project)
        git("commit", "-qm", "start", cwd=self.project)
        many = self.random.choice((1, 1, 2, 3))
        self.agents = [Agent(self.project, f"{seed:08x}-0000-4000-8000-{n:012x}") for n in range(many)]

    # -- writing --------------------------------------------------------------------------------

    def _edit(self, *, only: str = "") -> str:
        """Changes one thing on disk; returns the path."""
        rand = self.random
        path = only or rand.choice(_FOLDERS) + rand.choice(_NAMES)
        full = self.project / path
        existing = [
            path for path, thing in photograph(self.project).items()
            if thing.kind == "file" and not path.startswith(".") and not self.ledger.is_hidden(path)
        ]  # fmt: skip
        deed = rand.choice(("write", "write", "append", "line", "delete", "rename", "chmod", "rmtree", "swap", "link"))
        if deed == "write" or not existing:
            _clear_way(self.project, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text("".join(f"{rand.random()}\n" for _ in range(rand.randint(1, 9))))
        elif deed in ("append", "line", "delete", "chmod"):
            path = rand.choice(existing)
            _change_file(self.project / path, deed, rand)
        elif deed == "rename" and not os.path.lexists(full):
            old = rand.choice(existing)
            _clear_way(self.project, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.project / old, full)
        elif deed == "rmtree":
            folder = self.project / rand.choice(_FOLDERS[1:])
            if folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
        elif deed == "swap":
            _swap(self.project / rand.choice(existing))
        elif deed == "link" and not os.path.lexists(full):
            _clear_way(self.project, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.symlink_to("start.txt")
        return path

    def _changing(self, writer: str, *, sure: bool = True) -> list[str]:
        before = photograph(self.project)
        for _ in range(self.random.randint(1, 3)):
            self._edit()
        after = photograph(self.project)
        self.ledger.record(writer, before, after, sure=sure)
        self.last = None
        return differing(before, after)

    # -- what may happen ------------------------------------------------------------------------

    def agent_works(self) -> None:
        """One agent begins a turn, or goes on with it, or ends it."""
        agent = self.random.choice(self.agents)
        turn = self.open.get(agent.session)
        if turn is None:
            self.turns += 1
            turn = self.open[agent.session] = Turn(agent, f"turn {self.turns}")
            agent.begin(turn.text)
        call = agent.before_bash("make it so")
        self._tell(f"{turn.text}: {self._changing(turn.text)}")
        if self.random.random() < 0.08:
            self._tell(f"{turn.text}: killed")
            self._replace(agent)
            return
        agent.after_bash(call)
        if self.random.random() < 0.6:
            agent.stop()
            del self.open[agent.session]

    def _replace(self, agent: Agent) -> None:
        """A killed agent is followed by a new session; its turn's last step is seen by the next event of the new one."""
        self.open.pop(agent.session, None)
        self.agents.remove(agent)
        new = Agent(self.project, f"{agent.session[:-4]}{self.random.randint(4096, 65535):04x}")
        self.agents.append(new)
        new.event("SessionStart", source="startup")

    def agents_overlap(self) -> None:
        """Two agents run shell commands at the same time."""
        if len(self.agents) < 2 or self.open:
            return
        pair = []
        for agent in self.random.sample(self.agents, 2):
            self.turns += 1
            turn = Turn(agent, f"turn {self.turns}")
            agent.begin(turn.text)
            pair.append((turn, agent.before_bash("make it so")))
        for turn, _ in pair:
            self._tell(f"{turn.text} (overlapping): {self._changing(turn.text, sure=False)}")
        for turn, call in pair:
            turn.agent.after_bash(call)
            turn.agent.stop()

    def person_edits(self) -> None:
        """The person changes files, between the commands of agents."""
        self._tell(f"person: {self._changing('person')}")
        for turn in self.open.values():  # the next event of an open turn sees that it was not its command
            turn.agent.bash("true")

    def person_ignores(self) -> None:
        """The person hides a directory by a rule and puts data there."""
        name = f"results{len(self.ledger.ever_ignored)}"
        before = photograph(self.project)
        with (self.project / ".gitignore").open("a") as file:
            file.write(f"{name}/\n")
        self.ledger.ignore(name)
        (self.project / name).mkdir(exist_ok=True)
        (self.project / name / "big.jsonl").write_text(f"{self.random.random()}")
        self.ledger.record("person", before, photograph(self.project))
        self.last = None
        self._tell(f"person ignores {name}/")

    def person_saves(self) -> None:
        """The person saves."""
        name = f"save {len(self.saved)}"
        done = cli("save", name, cwd=self.project)
        if done.returncode:
            self.wrong.append(f"save: exit {done.returncode} {done.stderr}")
        self.saved[name] = photograph(self.project)
        self.last = None
        self._tell(f"{name}")

    def undo(self) -> None:
        """Undoes one operation and judges it."""
        if not (self.turns or self.saved):
            return
        done = self._command("undo")
        undone = done.report.get("undone") or {}
        self._tell(
            f"undo: exit {done.code} {json.dumps(undone)} changed {differing(done.before, done.after)} listed {done.report.get('kept')}"
        )
        text = undone.get("text") if undone.get("kind") == "turn" else None
        if done.code in (0, 3) and text:
            self.wrong += judge_turn(self.ledger, text, done)
            self.ledger.record(f"undo of {text}", done.before, done.after)
        elif done.code in (0, 3):
            hidden = [p for p in differing(done.before, done.after) if self.ledger.is_hidden(p)]
            self.wrong += [f"touched {path}, which was never saved" for path in hidden]
            self.ledger.record("undo", done.before, done.after)
        elif done.report.get("type") != "NothingToUndo":
            self.wrong.append(f"undo refused: {done.report}")
        self.last = ("undo", done.before, done.after) if done.code in (0, 3) else None

    def redo(self) -> None:
        """Redoes what was just undone, and expects exactly the state before the undo."""
        if self.last is None or self.last[0] != "undo":
            return
        wanted, since = self.last[1], self.last[2]
        done = self._command("redo")
        self._tell(f"redo: exit {done.code} changed {differing(done.before, done.after)} {done.report.get('message')}")
        if differing(wanted, since):
            self.wrong += [f"redo: {line}" for line in judge_whole(self.ledger, wanted, done)]
        self.ledger.record("redo", done.before, done.after)
        self.last = None

    def restore(self) -> None:
        """Restores a save and expects exactly that state."""
        if not self.saved:
            return
        name = self.random.choice(list(self.saved))
        done = self._command("restore", name, "-y")
        self._tell(f"restore {name}: exit {done.code} changed {differing(done.before, done.after)}")
        self.wrong += [f"restore {name}: {line}" for line in judge_whole(self.ledger, self.saved[name], done)]
        self.ledger.record("restore", done.before, done.after)
        self.last = None
        if self.random.random() < 0.5:
            back = self._command("undo")
            self._tell(f"undo of restore: exit {back.code}")
            self.wrong += [f"undo of restore {name}: {line}" for line in judge_whole(self.ledger, done.before, back)]
            self.ledger.record("undo of restore", back.before, back.after)

    def killed_undo(self) -> None:
        """Kills an undo at a random moment; `doctor` finishes it or goes back."""
        if not (self.turns or self.saved):
            return
        before = photograph(self.project)
        process = subprocess.Popen(
            mulligan_argv("undo"), cwd=self.project, env=plain_environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            process.wait(self.random.uniform(0.05, 0.4))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        doctor = cli("doctor", cwd=self.project)
        after = photograph(self.project)
        if doctor.returncode:
            self.wrong.append(f"doctor after a killed undo: exit {doctor.returncode} {doctor.stdout}{doctor.stderr}")
        self.wrong += [f"left {path} behind" for path in after if ".mulligan" in path]
        self.wrong += [
            f"touched {path}, which was never saved" for path in differing(before, after) if self.ledger.is_hidden(path)
        ]
        self.ledger.record("undo", before, after)
        self.last = None
        self._tell(f"killed undo changed {differing(before, after)}")

    def folder_vanishes(self) -> None:
        """The whole project is deleted; an undo brings back what was saved."""
        if self.ledger.ever_ignored or self.open:  # what was never saved cannot come back
            return
        self.person_saves()
        before = photograph(self.project)
        shutil.rmtree(self.project)
        done = cli("-C", str(self.project), "undo", cwd=self.place)
        after = photograph(self.project)
        self._tell(f"folder deleted; undo: exit {done.returncode}")
        if differing(before, after):
            self.wrong.append(f"folder: {differing(before, after)[:3]} did not come back: {done.stdout}{done.stderr}")
        self.ledger.record("undo", before, after)
        if self.project.is_dir():
            git("init", "-q", "-b", "main", cwd=self.project)

    def branch_switches(self) -> None:
        """The person commits all and switches to another branch and back."""
        if self.open:
            return
        before = photograph(self.project)
        git("add", "-A", cwd=self.project, check=False)
        git("commit", "-qm", "work", cwd=self.project, check=False)
        git("checkout", "-q", "-B", f"side{self.random.randint(0, 2)}", cwd=self.project, check=False)
        if self.random.random() < 0.3:
            git("checkout", "-q", "main", cwd=self.project, check=False)
        self.ledger.record("person", before, photograph(self.project))
        self.last = None
        self._tell("person switches branches")

    # -- commands -------------------------------------------------------------------------------

    def _command(self, *args: str) -> Outcome:
        before = photograph(self.project)
        done = cli("--json", *args, cwd=self.project)
        after = photograph(self.project)
        try:
            said: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            said = {}
            self.wrong.append(f"{args}: no JSON: {done.stdout}{done.stderr}")
        report = said.get("report") or said.get("error") or said
        outcome = Outcome(done.returncode, report if isinstance(report, dict) else {}, before, after)
        self.counts[f"{args[0]}_exit_{done.returncode}"] = self.counts.get(f"{args[0]}_exit_{done.returncode}", 0) + 1
        self.wrong += [f"{args[0]}: {line}" for line in judge_code(outcome)]
        if outcome.report.get("undo"):
            shown = json.loads(cli("--json", "show", outcome.report["undo"], cwd=self.project).stdout)
            store = Path(json.loads(cli("--json", "status", cwd=self.project).stdout)["store"])
            self.wrong += judge_loss(self.ledger, store, shown["checkpoint"]["commit"], outcome)
        elif differing(before, after):
            self.wrong.append(f"{args[0]} changed files and names no safety checkpoint")
        return outcome

    def _tell(self, line: str) -> None:
        self.story.append(line)

    def play(self, steps: int) -> None:
        """Plays the day, until something is wrong."""
        chances = {
            self.agent_works: 10, self.agents_overlap: 1, self.person_edits: 3, self.person_ignores: 1, self.person_saves: 2,
            self.undo: 5, self.redo: 3, self.restore: 1, self.killed_undo: 1, self.branch_switches: 1, self.folder_vanishes: 0.4,
        }  # fmt: skip
        for _ in range(steps):
            self.random.choices(list(chances), list(chances.values()))[0]()
            if self.wrong:
                return


def _clear_way(project: Path, path: str) -> None:
    """Removes files that stand where directories of a path must be, and a directory that stands at the path."""
    parts = path.split("/")
    for at in range(1, len(parts)):
        above = project / "/".join(parts[:at])
        if os.path.lexists(above) and (above.is_symlink() or not above.is_dir()):
            above.unlink()
    full = project / path
    if full.is_dir() and not full.is_symlink():
        shutil.rmtree(full)


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


def _build(base: Path, name: str) -> None:
    """Lets every Python that is started from now on begin with the fault of a build."""
    (base / "fault").mkdir()
    (base / "fault" / "sitecustomize.py").write_text(BUILDS.get(name, ""))
    os.environ["PYTHONPATH"] = str(base / "fault")


def main() -> int:
    """Plays the days."""
    options = parser(__doc__, 4)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--story", action="store_true", help="print what happened on each day")
    options.add_argument("--build", default="good", choices=["good", *BUILDS], help="a fault that must be found")
    args = options.parse_args()
    tally = Tally("days", args.size, enough=args.enough)
    os.environ["MULLIGAN_WATCH"] = "found"
    with workplace(args.base) as base:
        _build(base, args.build)
        for seed in range(args.seed, args.seed + args.size):
            place = base / str(seed)
            place.mkdir()
            os.environ["XDG_STATE_HOME"] = str(place / "state")
            day = Day(place, seed)
            try:
                day.play(args.steps)
            except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError):
                day.wrong.append(
                    traceback.format_exc()
                )  # the program crashed or said nonsense: a finding, with its day
            tally.did(1, **day.counts)
            if day.wrong:
                tally.broke([f"seed {seed}: {line}" for line in day.wrong])
            if day.wrong or args.story:
                print("\n".join(f"    {number}. {line}" for number, line in enumerate(day.story, 1)), flush=True)
            shutil.rmtree(place, ignore_errors=True)
            if tally.over:
                break
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
