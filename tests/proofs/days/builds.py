"""Known-bad builds of the program for the played days: what each puts into every process when it starts."""

from __future__ import annotations

import os
from pathlib import Path

#: Python that runs when the interpreter starts. All but the first patch public names.
BUILDS = {
    "claims-everything": """
import mulligan.engine.revert as turns
from mulligan.steps.three_way import all_of_it
step = turns.step_of
turns.step_of = lambda part: step(part)._replace(mine=all_of_it)
""",
    "always-complete": """
from mulligan.model.plan import RestoreReport
RestoreReport.complete = property(lambda self: True)
""",
    "ignores-paths": """
from mulligan.engine.workspace import Workspace
undo = Workspace.undo
Workspace.undo = lambda self, **said: undo(self, **{**said, "paths": None})
""",
    "dry-runs-for-real": """
from mulligan.engine.workspace import Workspace
undo = Workspace.undo
def dry(self, **said):
    plan = undo(self, **said)
    if said.get("dry_run"):
        undo(self, **{**said, "dry_run": False})
    return plan
Workspace.undo = dry
""",
    "any-session": """
from mulligan.engine.workspace import Workspace
undo = Workspace.undo
Workspace.undo = lambda self, **said: undo(self, **{**said, "session": None})
""",
    "secrets-in-the-clear": "",
}
#: The user's configuration that a build has.
_SETTINGS = {"secrets-in-the-clear": '[capture]\nsecrets = "plain"\n'}


def use(base: Path, name: str) -> None:
    """Lets every Python that is started from now on begin with the fault of a build."""
    (base / "fault").mkdir()
    (base / "fault" / "sitecustomize.py").write_text(BUILDS.get(name, ""))
    os.environ["PYTHONPATH"] = str(base / "fault")
    os.environ["XDG_CONFIG_HOME"] = str(base / "config")
    (base / "config" / "mulligan").mkdir(parents=True)
    (base / "config" / "mulligan" / "config.toml").write_text(_SETTINGS.get(name, ""))
