"""
The journal of a restore.

Written durably before the first byte of the workspace changes: the frozen plan, the token its temporary names carry, and the
phase. While a journal stands, the next writing command finishes the restore or takes it back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mulligan.errors import StoreDamaged, UserError
from mulligan.gitformat.record import deflate
from mulligan.model.bounded import unpack
from mulligan.model.checkpoint import pack_text
from mulligan.model.paths import parse_path, to_text
from mulligan.model.plan import Action, Node
from mulligan.timeline.database import Database

if TYPE_CHECKING:
    from mulligan.model.gitposition import GitMove

# Staging: nothing has changed yet. Applying: some paths have, and a temporary may hold displaced bytes.
# Resuming: some paths have, and every temporary is a new file being staged again.
STAGING, APPLYING, RESUMING = "staging", "applying", "resuming"
#: In the store's own values: the checkpoint whose state is still to be handed back.
OWED = "state_owed"


@dataclass(frozen=True)
class Journal:
    """
    A restore under way.

    `verb`, `depth` and `position` say what becomes of the undo stack and the position when it is done; `locked` are the
    directories that were opened for it, with the permission bits they had; `git` is the move of the user's repository that
    belongs to it. `mark` says what an undo takes back without going to a state, or with `redo` the state that such an undo left.
    """

    token: str
    target: str
    safety: str
    what: str
    position: str
    verb: str
    depth: int = 0
    phase: str = STAGING
    actions: tuple[Action, ...] = ()
    locked: tuple[tuple[bytes, int], ...] = ()
    git: GitMove | None = None
    mark: str = ""


def _node(node: Node | None) -> list[Any] | None:
    return None if node is None else [node.mode, node.oid.hex(), node.perm]


def _parse_node(row: Any) -> Node | None:
    return None if row is None else Node(int(row[0]), bytes.fromhex(row[1]), int(row[2]))


def _parse_git(plain: Any) -> GitMove:
    from mulligan.model.gitposition import GitMove

    return GitMove.from_dict(plain)


def open_journal(database: Database, journal: Journal, phase: str) -> None:
    """Writes the journal of a restore that is in this phase, whatever the journal says; durable when the caller's transaction is."""
    plain = {name: value for name, value in vars(journal).items() if name not in ("phase", "git", "mark")}
    # What an earlier release knows nothing of is written only where it is needed: without it, that release can end this restore.
    if journal.git is not None:
        plain["git"] = journal.git.to_dict()
    if journal.mark:
        plain["mark"] = journal.mark
    plain["actions"] = [[to_text(a.path), _node(a.before), _node(a.after)] for a in journal.actions]
    plain["locked"] = [[to_text(path), perm] for path, perm in journal.locked]
    packed = pack_text(json.dumps(plain).encode("ascii"), deflate)
    database.insert("journal", 1, phase, packed)


def set_phase(database: Database, phase: str) -> None:
    """Moves the journal on, durably."""
    with database.transaction():
        database.select("journal")  # raises where it is damaged
        database.update("journal", "one=1", phase=phase)


def close_journal(database: Database) -> None:
    """Ends the restore, inside the transaction that acknowledges it."""
    database.empty("journal")


def read_journal(database: Database) -> Journal | None:
    """Returns the restore that was cut short, None if there is none."""
    rows = database.select("journal")
    if not rows:
        return None
    row = rows[0]
    try:
        plain = unpack(row["plan"])
        actions = tuple(
            Action(parse_path(path), _parse_node(old), _parse_node(new)) for path, old, new in plain.pop("actions")
        )
        locked = tuple((parse_path(path), int(perm)) for path, perm in plain.pop("locked", ()))
        git = _parse_git(plain.pop("git")) if "git" in plain else None
        return Journal(**plain, phase=row["phase"], actions=actions, locked=locked, git=git)
    except (ValueError, AttributeError, TypeError, KeyError, UserError) as error:
        raise StoreDamaged(
            f"The journal of an interrupted restore cannot be read ({error}). The workspace is as the restore left it.",
            hint="mulligan doctor",
        ) from None


# -- the other half of a restore of everything ----------------------------------------------------


def owe_state(database: Database, target: str) -> None:
    """Says that the files are back and the agent's state is not yet (inside the transaction that closes the journal)."""
    database.set_meta(OWED, target)


def state_owed(database: Database) -> str:
    """Returns the checkpoint whose state was to be handed back and was not, empty when there is none."""
    return database.meta(OWED)


def state_given(database: Database) -> None:
    """Says that the state has been handed back, or is not wanted any more."""
    if state_owed(database):
        with database.transaction():
            database.set_meta(OWED, "")
