"""
Rewinds: a client put files back by itself, to where they stood before one of its prompts.

Claude Code's `/rewind` has no event, and its transcript shows the fork only after the next prompt was sent. The files show it at
once: everything that changed since the last event stands as it did when an earlier prompt was sent. A person who reverts an
agent's edits by hand leaves the same picture, and means the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mulligan.model.cause import CAUSE
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.deed import PROMPT, Deed, Recorded, Turn
from mulligan.timeline import saving
from mulligan.timeline.moves import Mark

if TYPE_CHECKING:
    from mulligan.timeline.commits import Entry
    from mulligan.timeline.sources import Look
    from mulligan.timeline.vault import Vault

#: So many prompts are looked back, and with more changes than this nothing is compared: a prompt must not wait for it.
_PROMPTS = 50
_CHANGES = 5_000
_REWOUND = "rewound"


class Rewind(NamedTuple):
    """
    Where files went back to: a prompt, and the checkpoint that holds the workspace of that moment.

    `turns` are those that nothing is left of; none where a shell command left something that the client did not put back.
    """

    prompt: int
    checkpoint: str
    turns: tuple[Turn, ...] = ()

    def marks(self) -> list[Mark]:
        """Returns what the undo stack must know: which turns are undone, or else to which state some paths went back."""
        return [Mark(turn) for turn in self.turns] or [Mark(to=self.checkpoint)]

    def noted(self, metadata: dict[str, object]) -> dict[str, object]:
        """Returns a checkpoint's metadata with the prompt in its cause."""
        cause = metadata[CAUSE]
        return {**metadata, CAUSE: {**cause, _REWOUND: self.prompt}} if isinstance(cause, dict) else metadata


def rewind_of(checkpoint: Checkpoint) -> int:
    """Returns the prompt that a checkpoint was found rewound to, 0 for none."""
    cause = checkpoint.metadata.get(CAUSE)
    return int(cause.get(_REWOUND, 0)) if isinstance(cause, dict) else 0


def find_rewind(vault: Vault, deed: Deed, look: Look) -> Rewind | None:
    """Returns the newest prompt of a session to which everything went back that changed since its last event."""
    base = vault.checkpoints.current()
    changes = saving.changes_since(base, look.scan, look.source) if base is not None else []
    if not changes or len(changes) > _CHANGES:
        return None
    prompts = _prompts(vault, deed.session)
    for each in prompts:
        there = vault.checkpoints.by_id(each.checkpoint)
        if there is not None and all(_stands(look, there, change.path, change.new) for change in changes):
            over = [Turn(deed.session, one.prompt) for one in prompts if one.prompt >= each.prompt]
            return Rewind(each.prompt, there.id, tuple(over) if saving.same_state(there, look.scan) else ())
    return None


def _prompts(vault: Vault, session: str) -> list[Recorded]:
    found = [each for each in vault.deeds.newest(1000, session) if each.deed.kind == PROMPT and each.deed.person]
    return found[:_PROMPTS]


def _stands(look: Look, there: Entry, path: bytes, now: object) -> bool:
    return look.source.lookup(there.files_tree, path) == now
