"""
Plans that were shown and may be applied.

An id stands for one plan down to the last byte: it is made from the plan's own content, with a secret of this server, so that
an attacker who writes into files cannot know one in advance. A plan is applied at most once, and only by the server that made it.
"""

from __future__ import annotations

import hashlib
import os

from mulligan.errors import PlanStale
from mulligan.model.plan import RestorePlan

_MOST = 8


class ServerPlans:
    """The plans of one server, newest last."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = os.urandom(32) if secret is None else secret
        self._made: dict[str, RestorePlan] = {}

    def add(self, plan: RestorePlan) -> str:
        """Keeps a plan and returns its id; the same plan has the same id."""
        name = "plan-" + hashlib.blake2b(plan.digest.encode(), key=self._secret, digest_size=12).hexdigest()
        self._made.pop(name, None)
        self._made[name] = plan
        while len(self._made) > _MOST:
            del self._made[next(iter(self._made))]
        return name

    def take(self, name: str) -> RestorePlan:
        """Returns a plan that is still to be applied, and forgets it; raises PlanStale if there is none."""
        plan = self._made.pop(name, None)
        if plan is None:
            raise PlanStale(
                "This server has no such plan to apply: it was applied already, is one of many older ones, or was never made. "
                "Nothing was changed.",
                hint="Call plan_restore, look at the plan, then call apply_restore with the id it returns.",
            )
        return plan
