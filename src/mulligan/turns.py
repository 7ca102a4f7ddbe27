"""
Taking back what one session of an agent did for one prompt, and keeping what others did meanwhile.

An undo treats all that a session did for one prompt, a turn, as one operation.
"""

from __future__ import annotations

from mulligan.model.deed import Turn, maker_of, turn_of
from mulligan.model.objects import BLOB
from mulligan.model.paths import to_text
from mulligan.model.plan import RestorePlan, RestoreReport
from mulligan.model.small import Callable, Iterator, Mapping
from mulligan.model.typed import TYPE_CHECKING, Any
from mulligan.restorer import Restorer
from mulligan.timeline.commits import Entry
from mulligan.timeline.moves import Move

if TYPE_CHECKING:
    from mulligan.restore.planner import Drawn
    from mulligan.store.objects import ObjectStore
    from mulligan.timeline.sources import Look, State

#: How many states of others may stand between two of a turn.
_APART = 100


class Turns:
    """The turns of a workspace whose store is held."""

    def __init__(self, bench: Restorer) -> None:
        self._bench = bench

    def undo_turn(self, moves: list[Move], steps: range) -> RestoreReport | None:
        """Takes back one turn, and keeps what others did meanwhile; None where nobody did, or the turn did nothing."""
        if not steps:
            return None
        checkpoints = self._bench.vault.checkpoints
        entries = [entry for move in moves[: steps.stop] if (entry := checkpoints.by_id(move.id)) is not None]
        turn = turn_of(entries[0].checkpoint)
        if turn is None or all(maker_of(entry.checkpoint) == turn.session for entry in entries):
            return None
        return self._take_back(entries, turn, unsaved=not steps.start, depth=steps.stop)

    def undo_session(self, session: str) -> RestoreReport | None:
        """Takes back the newest turn of a session of which anything is left; None when nothing is."""
        vault = self._bench.vault
        whole = vault.deeds.session(session)
        entries = vault.checkpoints.newest()
        turns = dict.fromkeys(
            turn for entry in entries if (turn := turn_of(entry.checkpoint)) and turn.session == whole
        )
        for turn in turns:
            report = self._take_back(entries, turn, unsaved=vault.deeds.is_open(turn))
            if report is not None:
                return report
        return None

    def _take_back(self, entries: list[Entry], turn: Turn, *, unsaved: bool, depth: int = 0) -> RestoreReport | None:
        """Takes back the steps of a turn, among checkpoints that come newest first; None when nothing would change."""
        from mulligan.restore.taking_back import Step, draw_wanted, without
        from mulligan.timeline.sources import State

        bench = self._bench
        bench.root.prepare()
        with bench.vault.objects.writer() as writer:
            look = bench.look(writer)
            now = State(look.scan.tree, look.scan.modes, look.scan.defaults)
            steps = [Step(*pair, _made_by(entry, turn.session)) for entry, pair in self._pairs(entries, turn)]
            top = bench.vault.checkpoints.current()
            if unsaved and top is not None:
                claimed = {
                    path
                    for each in bench.vault.deeds.running()
                    for path in each.deed.paths
                    if each.deed.session != turn.session
                }
                steps.insert(0, Step(top.trees, now, lambda path: path not in claimed))
            wanted = without(look.source, now, steps)
            if not wanted.nodes and not wanted.conflicts:
                return None
            drawn = draw_wanted(look.source, look.scan, wanted)
            about = f"without what {turn.session[:8]} did for prompt {turn.prompt}"
            _keep_contents(bench.vault.objects, wanted.contents)
            return self._apply(about, drawn, look, writer, depth)

    def _apply(self, about: str, drawn: Drawn, look: Look, writer: Any, depth: int) -> RestoreReport:
        """
        Applies a plan that leads to no checkpoint, and makes what it leaves one; `depth` is how many states it undoes.

        With none it is a step of its own, like a restore: the next undo takes it back.
        """
        from mulligan.model.values import replace
        from mulligan.restore.patience import Patience

        bench, vault = self._bench, self._bench.vault
        here = vault.checkpoints.resolve("@")
        paths = tuple(to_text(action.path) for action in drawn.actions)
        plan = RestorePlan(here.id, "files", paths, drawn.actions, drawn.keeps, absent=drawn.absent)
        report = bench.go(
            here, plan, look, writer, verb="undo" if depth else "restore", depth=depth, patience=Patience(0)
        )
        with vault.objects.writer() as after:
            landed, _ = bench.keep(bench.draft("", about, "safety"), bench.look(after), after, as_position=False)
        with vault.database.transaction():
            vault.checkpoints.set_position(landed.id)
            vault.moves.push(Move(landed.id), keep_redo=bool(depth))
        return replace(report, target=landed.id)

    def _pairs(self, entries: list[Entry], turn: Turn) -> Iterator[tuple[Entry, tuple[State, State]]]:
        """Yields the steps of a turn with the states before and after them."""
        for entry in entries:
            parent = self._bench.vault.checkpoints.by_id(entry.checkpoint.parent or "")
            if turn_of(entry.checkpoint) == turn and parent is not None:
                yield entry, (parent.trees, entry.trees)

    def steps(self, moves: list[Move]) -> range:
        """
        Returns which of the newest states are steps of one turn, to be passed over by an undo; none where the newest is no step.

        The newest itself is among them while the turn has not ended: what changed since then is its work too. Of a turn that
        ended, what changed since is somebody else's, and is taken back first.
        """
        newest = self._turn_at(moves[0]) if moves else None
        if newest is None:
            return range(0)
        end = at = 1
        while at < len(moves) and at - end < _APART:
            at += 1
            if self._turn_at(moves[at - 1]) == newest:
                end = at
        return range(0 if self._bench.vault.deeds.is_open(newest) else 1, end)

    def _turn_at(self, move: Move) -> Turn | None:
        entry = self._bench.vault.checkpoints.by_id(move.id)
        return turn_of(entry.checkpoint) if entry is not None else None


def _keep_contents(objects: ObjectStore, contents: Mapping[bytes, bytes]) -> None:
    """Writes what a merge made: a restore that is cut short is finished from the store."""
    with objects.writer() as writer:
        for data in contents.values():
            writer.add(BLOB, data)
        if contents:
            writer.finish()


def _made_by(entry: Entry, session: str) -> Callable[[str], bool]:
    return lambda path: maker_of(entry.checkpoint, path) == session
