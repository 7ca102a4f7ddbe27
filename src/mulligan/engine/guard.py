"""Saves before some work and restores where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mulligan.errors import MulliganError, UserError
from mulligan.safefs.pins import Pin

if TYPE_CHECKING:
    from mulligan.engine.workspace import Workspace
    from mulligan.model.checkpoint import Checkpoint


@contextmanager
def guard(workspace: Workspace, name: str, on_error: str) -> Iterator[Checkpoint]:
    """Saves on entry; on an exception restores (unless `on_error` is "keep") and raises it again."""
    if on_error not in ("restore", "keep"):
        raise UserError(f"on_error is 'restore' or 'keep', not {on_error!r}. Nothing was saved.")
    checkpoint, bench = workspace.save(name, kind="automatic"), workspace.bench
    if checkpoint is None:
        raise UserError("Nothing was saved.")  # only with if_changed, which is off
    with bench.needing() as store:
        pin = Pin(store.directory)
        with store.database.transaction():
            store.database.insert("pin", checkpoint.id, pin.number)
    try:
        yield checkpoint
    except BaseException as error:
        if on_error == "restore":
            try:
                workspace.restore(checkpoint)
            except MulliganError as trouble:
                error.add_note(f"mulligan could not restore {checkpoint.short_id}: {trouble}")
        raise
    finally:
        # A pin that stays ends with this process; the caller's own exception must not be hidden by it.
        with suppress(MulliganError):
            try:
                with bench.needing() as store, store.database.transaction():
                    store.database.run("DELETE FROM pin WHERE id=? AND pid=?", checkpoint.id, pin.number)
            finally:
                pin.close()
