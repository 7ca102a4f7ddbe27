"""What an agent reads at its next prompt after its work was undone."""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.present.text import shorten, some
from mulligan.present.visible import visible
from mulligan.timeline.notices import NAMED, RestoreNotice

_DONE = {"undo": "undid", "redo": "redid", "restore": "restored an earlier state of the files"}
_LONGEST = 60


def news(notices: Sequence[RestoreNotice]) -> str:
    """Returns the sentences, one for each restore, and what follows from them."""
    said = " ".join(_sentence(notice) for notice in notices)
    return f"{said} The files are no longer as you left them: read them again before you change them."


def _sentence(notice: RestoreNotice) -> str:
    about = _DONE[notice.verb]
    if notice.verb != "restore":
        text = f' ("{visible(shorten(notice.text, _LONGEST))}")' if notice.text else ""
        about += f" the changes of prompt {notice.prompt}{text}" if notice.prompt else " the last changes"
    parts = [
        f"{verb} {some([visible(path) for path in paths], NAMED, of=number)}"
        for verb, paths, number in (
            ("restored", notice.restored, notice.restored_count),
            ("removed", notice.removed, notice.removed_count),
        )
        if number
    ]
    return f"Since your last turn the user {about} with mulligan: {'; '.join(parts)}."
