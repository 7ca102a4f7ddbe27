"""
How a container is saved, together with what is mounted into it, and how old checkpoints go.

A checkpoint is one image and one checkpoint of each mounted workspace, taken while the container is paused. The workspaces
come first and the image last: its labels name them, so an image that exists is a checkpoint that is complete. The journal
names a checkpoint before anything of it is made; the next use removes one that was interrupted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from mulligan.engine.workspace import Workspace
from mulligan.environments.base import unknown_checkpoint
from mulligan.environments.container.checkpoints import (
    BACK,
    CHECKPOINT,
    ENVIRONMENT,
    FORWARD,
    MANUAL,
    OPERATION,
    REQUEST,
    SAFETY,
    ContainerCheckpoint,
    SavedWorkspace,
    created_at,
    decode,
    named,
    read_images,
    tag_of,
)
from mulligan.environments.container.engine import Container, Engine
from mulligan.environments.container.record import EnvironmentRecord
from mulligan.environments.container.request import writable
from mulligan.environments.container.trouble import Missing
from mulligan.errors import MulliganError, UserError
from mulligan.safefs.directory import random_name
from mulligan.settings import resolve

#: How many safety checkpoints stay: as many restores can be undone.
SAFETY_KEPT = 10

Mounts = Iterable[tuple[str, str]]


class ContainerSaves:
    """The checkpoints of one environment; the caller holds the record during every method."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        record: EnvironmentRecord,
        *,
        retain: int | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.engine, self.name, self.record, self.retain = engine, name, record, retain
        self._now_ns = now_ns
        self._workspaces: dict[str, Workspace] = {}

    def close(self) -> None:
        """Gives the workspaces' files back."""
        for workspace in self._workspaces.values():
            workspace.close()
        self._workspaces.clear()

    def workspace(self, host: str) -> Workspace:
        """Returns the engine's view of a mounted directory; raises Unprotectable for one that must not be captured."""
        if host not in self._workspaces:
            self._workspaces[host] = Workspace(resolve(host))
        return self._workspaces[host]

    # -- seeing ---------------------------------------------------------------------------------

    def live(self) -> Container | None:
        """Returns the environment's container, None if it has none."""
        found = self.engine.containers(f"{ENVIRONMENT}={self.name}")
        return found[0] if found else None

    def needed(self) -> Container:
        """Returns the environment's container."""
        found = self.live()
        if found is None:
            raise Missing(
                f"The container of the environment {self.name} is gone. Its checkpoints are safe.",
                hint="Call setup() for a new one, then restore a checkpoint",
            )
        return found

    def checkpoints(self, *kinds: str) -> list[ContainerCheckpoint]:
        """Returns the checkpoints, oldest first."""
        gone = set(self.record.abandoned)
        found = read_images(self.engine.images(f"{ENVIRONMENT}={self.name}"), self.name)
        return [each for each in found if each.id not in gone and (not kinds or each.kind in kinds)]

    def get(self, checkpoint_id: str) -> ContainerCheckpoint:
        """Returns one checkpoint; ValueError if there is none of that id."""
        for each in self.checkpoints(MANUAL, SAFETY):
            if each.id == checkpoint_id:
                return each
        raise unknown_checkpoint(checkpoint_id)

    # -- saving ---------------------------------------------------------------------------------

    def save(self, *, name: str = "", description: str = "") -> ContainerCheckpoint:
        """Saves the container and its workspaces, and removes what is kept no longer."""
        live = self.needed()
        draft = self._draft(MANUAL, live, name, description)
        saved = self._save(live, draft, writable(draft.request))
        self._thaw(live)
        self.record.end()
        # What was to be done is done; that something old could not be removed is no reason to call it failed.
        with suppress(MulliganError):
            self.trim()
        return saved

    def _thaw(self, live: Container) -> None:
        if live.status == "running":
            self.engine.thaw(live.id)

    def _draft(self, kind: str, live: Container, name: str = "", description: str = "") -> ContainerCheckpoint:
        taken = {each.id for each in self.checkpoints()} | set(self.record.abandoned)
        while (fresh := random_name(4)) in taken:
            pass
        now, labels = self._now_ns(), live.labels
        request, back, forward = decode(labels[REQUEST]), named(labels, BACK), named(labels, FORWARD)
        draft = ContainerCheckpoint(fresh, created_at(now), kind, "", request, (), name, description)
        return draft._replace(back=back, forward=forward, order=now)

    def _save(self, live: Container, draft: ContainerCheckpoint, mounts: Mounts) -> ContainerCheckpoint:
        """Saves everything and leaves the container paused and the journal open, for the caller to close."""
        mounts = list(mounts)
        journal = {"what": "save", "id": draft.id, **around(live), "hosts": [host for host, _ in mounts]}
        self.record.begin(journal)
        try:
            still = self.engine.freeze(live.id)
            if not still and draft.kind == SAFETY:
                # A restore ends this container anyway; now, so that nothing is written after its state is saved.
                self.engine.kill(live.id)
                still = True
            pairs = [self._save_workspace(draft, *mount) for mount in mounts]
            draft = draft._replace(
                workspaces=tuple(saved for saved, _ in pairs), complete=all(whole for _, whole in pairs), still=still
            )
            image = self.engine.commit(live, tag_of(self.name, draft.id), draft.labels(self.name))
        except BaseException:
            # If this rollback fails, the next use reads the journal and repeats it.
            with suppress(MulliganError):
                self._abandon(journal)
            raise
        return draft._replace(image=image)

    def _save_workspace(self, draft: ContainerCheckpoint, host: str, inside: str) -> tuple[SavedWorkspace, bool]:
        about = draft.name or (f"before the container {self.name} went back" if draft.kind == SAFETY else "")
        saved = self.workspace(host).save(
            about or f"container {self.name}",
            description=draft.description,
            metadata={"environment": "docker", "container": self.name, "container_checkpoint": draft.id},
        )
        if saved is None:
            raise UserError("Nothing was saved.")  # only with if_changed, which is off
        return SavedWorkspace(host, inside, saved.id), saved.complete

    # -- giving up -----------------------------------------------------------------------------

    def _abandon(self, journal: Mapping[str, Any]) -> None:
        """Removes what an interrupted checkpoint or clone left, and resumes the container."""
        self._resume(journal)
        for each in self._made_by(journal) if journal["what"] == "clone" else ():
            self.engine.remove(each.id)
        for row in self.engine.images(f"{CHECKPOINT}={journal['id']}"):
            self._remove_tags(row)
        for host in journal["hosts"]:
            self._forget_workspace(host, journal["id"])
        self.record.end(abandoned=journal["id"])

    def _remove_late(self) -> None:
        """Removes images of checkpoints that were given up: an engine goes on after its client was killed."""
        given_up = set(self.record.abandoned)
        for row in self.engine.images(CHECKPOINT) if given_up else ():
            if row["Labels"].get(CHECKPOINT) in given_up:
                self._remove_tags(row)

    def _remove_tags(self, row: Mapping[str, Any]) -> None:
        for tag in row["RepoTags"]:
            self.engine.remove_image(tag.rpartition(":")[2])

    def _resume(self, journal: Mapping[str, Any]) -> None:
        if journal["was_running"]:
            with suppress(Missing):  # removed by hand since
                self.engine.wake(journal["container"])

    def _made_by(self, journal: Mapping[str, Any]) -> list[Container]:
        return self.engine.containers(f"{OPERATION}={journal['operation']}")

    def _forget_workspace(self, host: str, checkpoint_id: str) -> None:
        if os.path.isdir(host):
            workspace = self.workspace(host)
            for each in workspace.log(match={"container": self.name, "container_checkpoint": checkpoint_id}):
                workspace.delete(each)

    # -- keeping and removing -------------------------------------------------------------------

    def trim(self) -> list[str]:
        """Removes expired checkpoints (beyond the newest `retain`, old safety ones); returns their ids."""
        found = self.checkpoints(MANUAL, SAFETY)
        limits = ((MANUAL, self.retain), (SAFETY, SAFETY_KEPT))
        beyond = [e for kind, keep in limits if keep is not None for e in [c for c in found if c.kind == kind][:-keep]]
        if not beyond:
            return []
        live = self.live()
        used = self.engine.images_in_use()
        needed = {named(live.labels, BACK), named(live.labels, FORWARD)} if live else set()
        free = [e for e in beyond if e.id not in needed and e.image.removeprefix("sha256:") not in used]
        return [each.id for each in free if self._remove(each)]

    def _remove(self, checkpoint: ContainerCheckpoint) -> bool:
        if not self.engine.remove_image(tag_of(self.name, checkpoint.id)):
            return False
        for saved in checkpoint.workspaces:
            self._forget_workspace(saved.host, checkpoint.id)
        return True

    def remove_all(self, *, images: bool) -> None:
        """Removes the container, and with `images` every checkpoint's image; files of workspaces stay saved."""
        for each in self.engine.containers(f"{ENVIRONMENT}={self.name}"):
            self.engine.remove(each.id, volumes=[volume for volume in each.volumes if nobody_named(volume)])
        if images:
            for checkpoint in self.checkpoints():
                self.engine.remove_image(tag_of(self.name, checkpoint.id))


def around(live: Container | None) -> dict[str, Any]:
    """Returns what a journal says of the container a step begins with."""
    if live is None:
        return {"container": "", "was_running": False}
    return {"container": live.id, "was_running": live.status == "running"}


def nobody_named(volume: str) -> bool:
    """Returns whether the engine made up a volume's name: 64 hexadecimal digits. The others are their owner's."""
    return len(volume) == 64 and volume.isalnum()
