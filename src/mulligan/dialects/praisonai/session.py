"""
`SessionCheckpointManager`: a checkpoint before each turn of a coding session, and the way back turn by turn.

Synchronous, for the loop of a terminal; works inside a running event loop too. Files and conversation go back together,
in one restore, which one `mulligan undo` takes back. Nothing here raises into the loop: an operation that is not possible
returns None and leaves the reason in `last_error`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mulligan.dialects.praisonai.history import OURS, History, view, words
from mulligan.dialects.praisonai.types import CheckpointConfig, CheckpointDiff
from mulligan.errors import MulliganError
from mulligan.settings.variables import expand_user, praisonai_choices
from mulligan.state.conversation import NAME as CONVERSATION
from mulligan.state.conversation import Conversation, conversation_of, messages_in

_TROUBLE = (MulliganError, OSError, TypeError, ValueError, RuntimeError)
DISABLED = (
    "Workspace checkpointing is disabled. "
    "Enable it with `checkpoints.auto: true` in config or `PRAISONAI_CHECKPOINTS=on`."
)


@dataclass
class Turn:
    """A turn of the session: the checkpoint before it, and how many messages the conversation had then."""

    turn: int
    checkpoint_id: str
    short_id: str
    message: str
    message_count: int | None = None


@dataclass
class SessionCheckpointManager:
    """
    The turns of one session.

    `session_store` with `session_id` is PraisonAI's pair; `conversation` takes anything else that holds messages (a list,
    a JSONL transcript, a pair of functions). With a `session_id` the turns of an earlier process are found again.
    `echo`, if given, is called with what `preview` would print.
    """

    workspace_dir: str
    enabled: bool = False
    verbose: bool = False
    storage_dir: str | None = None
    session_store: Any = None
    session_id: str | None = None
    conversation: Any = None
    echo: Callable[[str], object] | None = None
    last_error: str = field(default="", init=False)
    _turns: list[Turn] = field(default_factory=list, init=False, repr=False)
    _counter: int = field(default=0, init=False, repr=False)
    _history: History | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_config(
        cls,
        workspace_dir: str | None = None,
        config: Mapping[str, Any] | None = None,
        verbose: bool = False,
        session_store: Any = None,
        session_id: str | None = None,
        default: bool = False,
        **options: Any,
    ) -> SessionCheckpointManager:
        """Returns a manager: `default`, over it `checkpoints.auto` of the config, over it `PRAISONAI_CHECKPOINTS`."""
        section = (config or {}).get("checkpoints")
        section = section if isinstance(section, Mapping) else {}
        said = praisonai_choices().checkpoints
        return cls(
            workspace_dir=workspace_dir or ".",
            enabled=bool(section.get("auto", default)) if said is None else said,
            verbose=verbose,
            storage_dir=section.get("storage_dir"),
            session_store=session_store,
            session_id=session_id,
            **options,
        )

    def __post_init__(self) -> None:
        """Makes the directory absolute: a session may change its own."""
        self.workspace_dir = os.path.abspath(expand_user(os.fspath(self.workspace_dir)))

    @property
    def turns(self) -> list[Turn]:
        """The turns that can be reverted, oldest first."""
        return list(self._turns)

    @property
    def recovered(self) -> str:
        """A sentence about an interrupted restore that was finished; empty when there was none."""
        return self._history.recovered if self._history is not None else ""

    def close(self) -> None:
        """Releases the workspace; the next use opens it again."""
        if self._history is not None:
            self._history.close()
            self._history = None

    # -- turns ----------------------------------------------------------------------------------

    def checkpoint_turn(self, message: str) -> str | None:
        """Saves before a turn and returns the checkpoint's id; None when disabled or impossible. Never raises."""
        if not self.enabled:
            return None
        try:
            history = self._opened()
            self._counter += 1
            label = f"turn {self._counter}: {message}".strip()
            about = {"turn": self._counter, "session": self.session_id or ""}
            saved = history.save(label, allow_empty=True, kind="step", extra=about).checkpoint
            state = history.workspace.get(saved.id).state
        except _TROUBLE as error:
            self.last_error = words(error)
            return None
        count = messages_in(state.get(CONVERSATION))
        self._turns.append(Turn(self._counter, saved.id, saved.short_id, label, count))
        return saved.id

    def revert(self, n: int = 1) -> Turn | None:
        """
        Takes files and conversation back to where the n-th last turn began, and drops those turns.

        Returns that turn, None where there is none. Where the files came back and the conversation could not follow, the
        turn is returned all the same, `last_error` says so, and the next process that opens this session finishes it.
        """
        target = self._target(n)
        if target is None:
            return None
        history, self.last_error = self._opened(), ""
        try:
            history.restore(history.find(target.checkpoint_id))
        except _TROUBLE as error:
            self.last_error = words(error)
            if history.workspace.state_owed() != target.checkpoint_id:
                return None  # nothing was changed
        del self._turns[-max(n, 1) :]
        return target

    def dropped_message_count(self, n: int = 1) -> int | None:
        """Returns how many messages `revert(n)` would drop, None where that cannot be known."""
        target, conversation = self._target(n), self._conversation()
        if target is None or target.message_count is None or conversation is None:
            return None
        try:
            now = conversation.count()
        except _TROUBLE as error:
            self.last_error = words(error)
            return None
        return max(0, now - target.message_count) if now is not None else None

    def preview(self, n: int = 1) -> str:
        """Returns what `revert(n)` would undo, and hands it to `echo`; empty where there is nothing to revert."""
        target = self._target(n)
        if target is None:
            return ""
        text = self.render_diff(self._diff_from(target.checkpoint_id, None))
        dropped = self.dropped_message_count(n)
        if dropped:
            text += f"\nThis will also drop {dropped} conversation message(s) to keep history in sync with the files."
        if self.echo is not None:
            self.echo(text)
        return text

    # -- seeing ---------------------------------------------------------------------------------

    def diff(self, turn_only: bool = False, path: str | None = None) -> CheckpointDiff | None:
        """Returns what changed since the session's first turn, or since the last; only one file with `path`."""
        if not self.enabled or not self._turns:
            return None
        return self._diff_from(self._turns[-1 if turn_only else 0].checkpoint_id, path)

    def _diff_from(self, start: str, path: str | None) -> CheckpointDiff | None:
        try:
            found = self._opened().diff(start)
        except _TROUBLE as error:
            self.last_error = words(error)
            return None
        wanted = (path or "").strip()
        if not wanted:
            return found
        return found.only(file for file in found.files if file.path == wanted or file.path.endswith("/" + wanted))

    @staticmethod
    def render_diff(diff: CheckpointDiff | None, scope: str = "session") -> str:
        """Returns a diff as plain lines, one per file, with a sum."""
        if diff is None:
            return DISABLED
        if not diff.files:
            return f"No file changes this {scope}."
        lines = [f"  {file.status:>8}  {file.path}  (+{file.additions}/-{file.deletions})" for file in diff.files]
        total = f"  +{diff.total_additions} / -{diff.total_deletions} across {len(diff.files)} file(s)"
        return "\n".join([f"Changes this {scope}:", "", *lines, "", total])

    # -- parts ----------------------------------------------------------------------------------

    def _target(self, n: int) -> Turn | None:
        if not self.enabled or not 1 <= max(n, 1) <= len(self._turns):
            return None
        return self._turns[-max(n, 1)]

    def _conversation(self) -> Conversation | None:
        if self._history is not None:
            return self._history.conversation
        if self.conversation is not None:
            return conversation_of(self.conversation, self.session_id)
        if self.session_store is not None and self.session_id:
            return conversation_of(self.session_store, self.session_id)
        return None

    def _opened(self) -> History:
        if self._history is None:
            history = History(CheckpointConfig(self.workspace_dir, self.storage_dir))
            history.conversation = self._conversation()
            history.begin()
            self._history = history
            if self.session_id and not self._turns:
                self._recall(history)
        return self._history

    def _recall(self, history: History) -> None:
        """Finds the turns of an earlier process of this session, along the line that leads to where the files are now."""
        mine = {**OURS, "session": self.session_id}
        for saved in reversed([each for each in history.line() if each.has(mine)]):
            turn, seen = saved.metadata.get("turn"), view(saved)
            if isinstance(turn, int):
                count = messages_in(saved.state.get(CONVERSATION))
                self._turns.append(Turn(turn, saved.id, seen.short_id, seen.message, count))
        numbers = [each.metadata.get("turn", 0) for each in history.workspace.log(match=mine)]
        self._counter = max(numbers, default=0)
