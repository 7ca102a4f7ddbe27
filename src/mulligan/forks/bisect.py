"""
Finds the step after which a test fails.

Each state is made in a scratch fork of its own, so nothing that one run leaves behind reaches the next, and the workspace is not
touched. Verdicts are kept in the timeline after every run: an interrupted search goes on with the same command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mulligan.engine.asked import with_contents
from mulligan.errors import UnknownCheckpoint, UserError
from mulligan.forks.search import BAD, GOOD, galloping, narrowed, next_state, verdict_of
from mulligan.forks.verbs import scratch
from mulligan.history.origins import Origin, Origins
from mulligan.loop.commands import CommandRun, run, run_shell

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.checkpoint import Checkpoint
    from mulligan.model.diff import Diff
    from mulligan.timeline.commits import Entry

    Ref = str | Checkpoint
    Test = str | Sequence[str] | Callable[[Workspace], bool | int]

_NOTE = "bisect"
_LAST_LINES = 5


class Trial(NamedTuple):
    """One run of the test: the state, the verdict, how long it took, and the end of its output."""

    checkpoint: Checkpoint
    verdict: str
    code: int
    seconds: float
    tail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "checkpoint": self.checkpoint.id,
            "verdict": self.verdict,
            "exit_code": self.code,
            "seconds": round(self.seconds, 3),
            "tail": self.tail,
        }


class Bisection(NamedTuple):
    """
    The step that broke the test, and how it was found.

    `skipped` are states that could not be tested and stand between the last good and the first bad one: then the step is one
    of those or the one that is named.
    """

    good: Checkpoint
    bad: Checkpoint
    origin: Origin
    diff: Diff
    states: int
    attempts: tuple[Trial, ...]
    skipped: tuple[Checkpoint, ...] = ()

    @property
    def runs(self) -> int:
        """How many times the test was run."""
        return len(self.attempts)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "step": {**self.origin.to_dict(), "files": self.diff.files, "patch": self.diff.patch},
            "runs": self.runs,
            "states": self.states,
            "good": self.good.id,
            "bad": self.bad.id,
            "skipped": [each.id for each in self.skipped],
            "attempts": [each.to_dict() for each in self.attempts],
        }


class Progress(NamedTuple):
    """What a listener hears before a run (`attempt` None) and after it; `left` is how many states are in question."""

    checkpoint: Checkpoint
    number: int
    left: int
    attempt: Trial | None = None


class Bisecting:
    """One search."""

    def __init__(
        self,
        workspace: Workspace,
        test: Test,
        *,
        with_ignored: bool = False,
        tell: Callable[[Progress], None] | None = None,
    ) -> None:
        self._workspace = workspace
        self._test = test
        self._with_ignored = with_ignored
        self._tell = tell or (lambda _: None)
        self._attempts: list[Trial] = []
        self._entries: list[Entry] = []
        self._states: list[str] = []
        self._command = test if isinstance(test, str) else " ".join(test) if not callable(test) else ""
        self._verdicts = self._remembered()
        self.known = len(self._verdicts)

    def run(self, good: Ref | None, bad: Ref | None) -> Bisection:
        """Searches between two checkpoints; raises UserError where there is nothing to find."""
        if bad is None:
            # The workspace as it is now counts: what is not saved yet becomes a checkpoint, and no file changes.
            self._workspace.save(description="before bisect", kind="automatic", if_changed=True)
        self._entries = self._line(good, bad if bad is not None else "@")
        self._states = [_state_of(entry) for entry in self._entries]
        self._check_ends(given=good is not None)
        while (at := next_state(self._states, self._verdicts)) is not None:
            self._verdict(at)
        found = self._result()
        self._forget()
        return found

    # -- the states -------------------------------------------------------------------------------

    def _line(self, good: Ref | None, bad: Ref) -> list[Entry]:
        """Returns the checkpoints that lead to the bad one, oldest first, without those that changed nothing."""
        with self._workspace.bench.needing() as store:
            checkpoints = store.checkpoints
            last = store.resolve(bad)
            first = store.resolve(good) if good is not None else None
            line, at = [last], last
            while (first is None or at.id != first.id) and (above := checkpoints.by_id(at.checkpoint.parent or "")):
                line.append(above)
                at = above
            if first is not None and at.id != first.id:  # the good one is on another branch of the timeline
                line = [entry for entry in checkpoints.newest() if first.seq <= entry.seq <= last.seq]
        if first is not None and first.seq > last.seq:
            raise UserError("GOOD is newer than BAD. Nothing was run.", hint="mulligan bisect --run CMD GOOD BAD")
        return _distinct(line[::-1])

    def _check_ends(self, *, given: bool) -> None:
        if len(self._entries) < 2:
            raise UserError(
                "There are not two different states to search between. Nothing was run.", hint="mulligan log"
            )
        if self._verdict(-1) != BAD:
            raise self._nothing(
                f"The command does not fail at {self._name(-1)}, so there is no step to find.{self._last()}",
                hint="Name a state where it fails: mulligan bisect --run CMD GOOD BAD",
            )
        if self._verdict(0) == GOOD:
            return
        if given:
            raise self._nothing(
                f"The command does not pass at {self._name(0)}, so there is no step to find.{self._last()}",
                hint="Name an older state, or bring along what is not saved: --with-ignored",
            )
        for at in galloping(len(self._states)):
            if self._verdict(at) == GOOD:
                self._entries, self._states = self._entries[at:], self._states[at:]
                return
        raise self._nothing(
            f"The command passed at none of the {len(self._attempts)} states that were tried.{self._last()}",
            hint="Name a state where it passes, or bring along what is not saved: --with-ignored",
        )

    def _nothing(self, message: str, *, hint: str) -> UserError:
        """Returns the error that says that there is nothing to find; the next call starts anew."""
        self._forget()
        return UserError(message, hint=hint)

    def _name(self, at: int) -> str:
        checkpoint = self._entries[at].checkpoint
        return f"{checkpoint.name!r} ({checkpoint.short_id})" if checkpoint.name else checkpoint.short_id

    def _last(self) -> str:
        tail = self._attempts[-1].tail.strip() if self._attempts else ""
        return f" It said: {tail.splitlines()[-1]}" if tail else ""

    # -- running ----------------------------------------------------------------------------------

    def _verdict(self, at: int) -> str:
        """Returns the verdict on a state; runs the test unless it is known."""
        key = self._states[at]
        if key not in self._verdicts:
            self._verdicts[key] = self._try(self._entries[at].checkpoint)
            self._remember()
        return self._verdicts[key]

    def _try(self, checkpoint: Checkpoint) -> str:
        left = narrowed(self._states, self._verdicts)
        heard = Progress(checkpoint, len(self._attempts) + 1, left.bad - left.good)
        self._tell(heard)
        try:
            with scratch(self._workspace, checkpoint, with_ignored=self._with_ignored) as fork:
                begun = time.monotonic()
                code, tail = self._run_in(fork)
                seconds = time.monotonic() - begun
        except UnknownCheckpoint:
            code, tail, seconds = 125, "The checkpoint is no longer kept.", 0.0
        verdict = verdict_of(code)
        attempt = Trial(checkpoint, verdict or "stop", code, seconds, tail)
        self._attempts.append(attempt)
        self._tell(heard._replace(attempt=attempt))
        if verdict is None:
            raise UserError(
                f"The command ended with {f'exit code {code}' if code > 0 else f'signal {-code}'} at {checkpoint.short_id}, so the search stops.{self._last()}",
                hint="The results so far are kept: the same command goes on. Exit code 125 skips a state.",
            )
        return verdict

    def _run_in(self, fork: Workspace) -> tuple[int, str]:
        if callable(self._test):
            said = self._test(fork)
            return (0 if said else 1) if isinstance(said, bool) else int(said), ""
        ran = run_shell(self._test, cwd=fork.root) if isinstance(self._test, str) else run(self._test, cwd=fork.root)
        return ran.code, last_lines(ran)

    # -- what is kept between two calls -------------------------------------------------------------

    def _remembered(self) -> dict[str, str]:
        kept = self._workspace.note(_NOTE) if self._command else None
        known = kept.get("verdicts") if isinstance(kept, dict) and kept.get("command") == self._command else None
        return dict(known) if isinstance(known, dict) else {}

    def _remember(self) -> None:
        if self._command:
            kept = {"command": self._command, "verdicts": self._verdicts}
            self._workspace.update_note(_NOTE, lambda _: kept)

    def _forget(self) -> None:
        if self._command:
            self._workspace.update_note(_NOTE, lambda _: None)

    def _result(self) -> Bisection:
        good, bad = narrowed(self._states, self._verdicts)
        entry, before = self._entries[bad], self._entries[good]
        diff = self._workspace.diff(before.checkpoint, entry.checkpoint)
        with self._workspace.bench.needing() as store:
            origin = Origins(store.events.newest()).of(entry, diff.files[0] if diff.files else "")
        passed = tuple(each.checkpoint for each in self._entries[good + 1 : bad])
        return Bisection(
            before.checkpoint, entry.checkpoint, origin, diff, len(set(self._states)), tuple(self._attempts), passed
        )


@with_contents
def bisect(workspace: Workspace, test: Test, *, good: Ref | None = None, bad: Ref | None = None) -> Bisection:
    """Finds the step after which a test fails, between a good state (default: the oldest) and a bad one (default: now)."""
    return Bisecting(workspace, test).run(good, bad)


def last_lines(ran: CommandRun) -> str:
    """Returns the last lines that a command printed, of both outputs."""
    text = (ran.out + (b"\n" if ran.out and not ran.out.endswith(b"\n") else b"") + ran.err).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def _state_of(entry: Entry) -> str:
    """Returns what tells one state of the workspace from another: its files, their bits and its secrets."""
    sealed = ":".join(f"{path.hex()}={file.digest}" for path, file in sorted(entry.sealed.items()))
    return f"{entry.files_tree.hex()}-{entry.modes_tree.hex()}-{sealed}"


def _distinct(line: list[Entry]) -> list[Entry]:
    """Returns a line of checkpoints without those that are the same state as the one before."""
    kept: list[Entry] = []
    for entry in line:
        if not kept or _state_of(kept[-1]) != _state_of(entry):
            kept.append(entry)
    return kept
