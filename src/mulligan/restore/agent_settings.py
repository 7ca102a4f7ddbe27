"""
Spares the settings files of agents in a plan.

Each is followed from the state that the target and the workspace have in common up to now: what people and clients wrote (hooks,
granted permissions) stays, what an agent's tool call wrote goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.model.event import RecordedEvent, maker_of
from mulligan.model.objects import TreeEntry
from mulligan.model.paths import ancestors, to_text
from mulligan.model.plan import Action, Keep, Node, is_agent_settings
from mulligan.restore.plan import DrawnPlan
from mulligan.timeline.checkpoints import Checkpoints
from mulligan.timeline.commits import Entry
from mulligan.timeline.store import Store
from mulligan.timeline.trees import WorkspaceView

REASON = "agent settings"
_DETAIL = "no agent's tool call changed it"


def spare_settings(drawn: DrawnPlan, look: WorkspaceView, target: Entry, store: Store) -> DrawnPlan:
    """Returns a plan to go to a target that leaves alone the settings files that people or clients changed since."""
    settings = [action for action in drawn.actions if action.before is not None and is_agent_settings(action.path)]
    if not settings:
        return drawn
    states, running = _trail(store.checkpoints, target), store.events.running()
    kept: dict[bytes, Keep] = {}
    changed: dict[bytes, Action] = {}
    for action in settings:
        found = _Followed(look, action, states, busy=_is_named(to_text(action.path), running))
        if found.is_kept:
            kept[action.path] = Keep(to_text(action.path), REASON, _DETAIL)
        elif found.personal and found.clean != found.first and found.clean is not None:
            changed[action.path] = action._replace(after=_settings_node(found.clean, action))
    staying = {above for path in (*kept, *changed) for above in ancestors(path)}
    actions = tuple(
        changed.get(action.path, action)
        for action in drawn.actions
        if action.path not in kept and not (action.path in staying and action.after is None)
    )
    return drawn._replace(actions=actions, keeps=(*drawn.keeps, *kept.values()))


class _Followed:
    """
    One file from state to state.

    `clean` is what stood there before an agent's first change that is still in it, `personal` whether a person or a client
    changed it.
    """

    def __init__(self, look: WorkspaceView, action: Action, states: Sequence[Entry], *, busy: bool) -> None:
        path, text = action.path, to_text(action.path)
        at = look.source.lookup
        self.first = self.clean = here = at(states[0].files_tree, path) if states else None
        self.personal = self._tainted = False
        for entry in states[1:]:
            new = at(entry.files_tree, path)
            if new != here:
                self._note(new, agent=bool(maker_of(entry.checkpoint, text)), own=entry.checkpoint.kind == "safety")
                here = new
        now = at(look.scan.tree, path)
        if now != here:
            self._note(now, agent=busy, own=False)

    def _note(self, new: TreeEntry | None, *, agent: bool, own: bool) -> None:
        if own:
            # An undo made this state: it removed an agent's change, or moved between states that are known.
            self._tainted = self._tainted and new != self.clean
            return
        self._tainted = self._tainted or agent
        self.personal = self.personal or not agent
        if not self._tainted:
            self.clean = new

    @property
    def is_kept(self) -> bool:
        """Whether the file stays: a person or a client changed it, and no agent."""
        return self.personal and not self._tainted


def _is_named(path: str, running: Sequence[RecordedEvent]) -> bool:
    """Returns whether a tool call that runs, or was killed, names a file."""
    name = path.rpartition("/")[2]
    return any(path in each.event.paths or name in each.event.text for each in running)


def _settings_node(entry: TreeEntry, action: Action) -> Node:
    bits = action.before.perm if action.before is not None else 0
    return Node(entry.mode, entry.oid, bits)


def _trail(checkpoints: Checkpoints, target: Entry) -> list[Entry]:
    """Returns the states from the last one that a checkpoint and the position have in common up to the position."""
    known = {entry.id for entry in _upwards(checkpoints, target)}
    here = checkpoints.current()
    found: list[Entry] = []
    for entry in _upwards(checkpoints, here) if here is not None else ():
        found.append(entry)
        if entry.id in known:
            return found[::-1]
    # They have nothing in common any more: all that is newer than the target counts as made since.
    return [target, *(entry for entry in reversed(found) if entry.created_ns > target.created_ns)]


def _upwards(checkpoints: Checkpoints, entry: Entry) -> list[Entry]:
    found, seen = [entry], {entry.id}
    while (parent := checkpoints.by_id(found[-1].checkpoint.parent or "")) is not None and parent.id not in seen:
        found.append(parent)
        seen.add(parent.id)
    return found
