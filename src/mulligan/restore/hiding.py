"""
Files that a restore writes and that no scan sees afterwards, because a rule hides them: its undo must be told of them by name.

Otherwise it would take back the step before, or leave what it may not touch. Never a directory: its name would stand for all
that anybody puts there later, secrets too.
"""

from __future__ import annotations

import os

from mulligan.model.paths import parent_of
from mulligan.model.plan import RestorePlan, is_sealed
from mulligan.scan.read import IGNORES_LIMIT
from mulligan.scan.scanner import Scanner
from mulligan.scan.scope import IGNORE_FILE
from mulligan.scan.secrets import secret_name
from mulligan.store.objects import ObjectStore


def written_in_hiding(plan: RestorePlan, scanner: Scanner, store: ObjectStore) -> list[bytes]:
    """Returns the files that a plan writes although a rule of today hides them, or a rule that it brings back will."""
    coming = _coming_rules(plan, store)
    # A secret is seen by its name, whatever hides it.
    after = [
        action
        for action in plan.actions
        if action.after is not None and not action.after.is_dir and not (is_sealed(action) and secret_name(action.path))
    ]
    made = [(action.path, False) for action in after if action.before is None]
    found = scanner.hidden(made) if made else []
    if coming:
        found += scanner.hidden([(action.path, False) for action in after], coming)
    return list(dict.fromkeys(found))


def _coming_rules(plan: RestorePlan, store: ObjectStore) -> dict[bytes, bytes]:
    """Returns the ignore files that a plan writes or removes: by directory, what they will say."""
    found = {}
    for action in plan.actions:
        if os.path.basename(action.path) == IGNORE_FILE:
            node, said = action.after, b""
            is_file = node is not None and not (node.is_dir or node.is_link) and not is_sealed(action)
            for chunk in store.stream(node.oid) if node is not None and is_file else ():
                said += chunk
                if len(said) > IGNORES_LIMIT:
                    break
            found[parent_of(action.path)] = said[:IGNORES_LIMIT]
    return found
