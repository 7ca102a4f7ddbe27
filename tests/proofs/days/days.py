"""
Random days: agents, a person and background programs work in one project, and things are undone.

    python tests/proofs/days/days.py [--size DAYS] [--seed N] [--steps N] [--story] [--build NAME]

One to three scripted agents, with subagents, send the events of the real client; some are killed in the middle, some work in a
worktree inside the project. A person edits, switches branches, ignores, deletes and moves things; programs write in the
background. In between come undos, redos and restores, whole and of some paths, some of them killed too. A ledger that knows
who wrote what judges each: nothing lost, nothing foreign touched, every exit code true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import builds
from undoing import Undos
from warm import Program

from tally import Tally, parser, workplace


class Day(Undos):
    """One day: what may happen, and how often."""

    def play(self, steps: int) -> None:
        """Plays the day, until something is wrong."""
        chances = {
            self.agent_works: 10, self.subagents_work: 2, self.agents_overlap: 1, self.agent_deletes_unsaved: 0.4,
            self.agent_ignores: 0.4, self.person_edits: 3, self.person_ignores: 0.7, self.person_unignores: 0.3,
            self.person_saves: 2, self.branch_switches: 1, self.worktree: 0.7, self.project_moves: 0.4,
            self.program_starts: 0.6, self.program_stops: 0.4, self.undo_beside_program: 1, self.folder_vanishes: 0.4,
            self.undo: 4, self.undo_paths: 1.2, self.undo_session: 1.2, self.undo_dry_run: 1.2, self.redo: 3,
            self.restore: 1, self.restore_paths: 1, self.killed_command: 1.2,
        }  # fmt: skip
        try:
            for _ in range(steps):
                self.random.choices(list(chances), list(chances.values()))[0]()
                if self.wrong():
                    return
            self.evening()
        finally:
            for writer in self.writers:
                writer.stop()
            for yard in self.yards:
                for agent in yard.agents:
                    agent.program.end()


def main() -> int:
    """Plays the days."""
    options = parser(__doc__, 4)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--story", action="store_true", help="print what happened on each day")
    options.add_argument("--build", default="good", choices=["good", *builds.BUILDS], help="a fault that must be found")
    args = options.parse_args()
    tally = Tally("days", args.size, enough=args.enough)
    os.environ["MULLIGAN_WATCH"] = "found"
    with workplace(args.base) as base:
        builds.use(base, args.build)
        program = Program.start()
        for seed in range(args.seed, args.seed + args.size):
            place = base / str(seed)
            place.mkdir()
            os.environ["XDG_STATE_HOME"] = str(place / "state")
            day = Day(place, seed, program)
            failure = []
            try:
                day.play(args.steps)
            except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError):
                failure = [traceback.format_exc()]  # the program crashed or said nonsense: a finding, with its day
            wrong = day.wrong() + failure
            tally.did(1, **day.counts())
            if wrong:
                tally.broke([f"seed {seed}: {line}" for line in wrong])
            if wrong or args.story:
                print("\n".join(f"    {number}. {line}" for number, line in enumerate(day.story, 1)), flush=True)
            shutil.rmtree(place, ignore_errors=True)
            if tally.over:
                break
        program.end()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
