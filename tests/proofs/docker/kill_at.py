"""
A process that opens an environment, does one thing with it, and is killed at the k-th step of that: `kill_at.py URL NAME VERB ID K`.

A step is anything that could have been the last: a question to the engine, a write of the record, a save or restore of a
mounted workspace. Prints how many there were when K is larger than that.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.environments.container.engine import Engine
from mulligan.environments.container.record import EnvironmentRecord
from mulligan.environments.docker import DockerEnvironment

count = 0
last = 0


def watched(owner: type, name: str) -> None:
    inner = getattr(owner, name)

    def step(*args: Any, **more: Any) -> Any:
        global count  # noqa: PLW0603 - a script
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(*args, **more)

    setattr(owner, name, step)


url, name, verb, checkpoint = sys.argv[1:5]
environment = DockerEnvironment(base_url=url, name=name)
environment.setup()
last = int(sys.argv[5])
for owner, method in ((Engine, "asking"), (EnvironmentRecord, "_write"), (Workspace, "save"), (Workspace, "restore")):
    watched(owner, method)
if verb == "restore":
    environment.restore(checkpoint)
elif verb == "clone":
    twin = environment.clone()
else:
    environment.checkpoint()
print(count)
last = 0
if verb == "clone":
    twin.cleanup()
