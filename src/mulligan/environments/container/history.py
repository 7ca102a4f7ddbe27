"""
How a container is saved and taken back, whole or not at all.

A checkpoint is one image and one checkpoint of each mounted workspace, taken while the container is paused. The workspaces
come first and the image last: its labels name them, so an image that exists is a checkpoint that is complete.

A restore saves the present state, creates the new container beside the old one, takes the workspaces back, and starts the
new one. Until that runs, the old container stands paused with its processes (it is ended first only where both would
claim the same ports), and every failure leads back to it; from then on every path leads forward. The journal says on
which side of that point a step was cut short, and `recover` ends it at the next use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mulligan.environments.base import unknown_checkpoint
from mulligan.environments.container.checkpoints import (
    BACK,
    BASE,
    CHECKPOINT,
    ENVIRONMENT,
    FORWARD,
    MANUAL,
    NONE,
    OPERATION,
    REQUEST,
    SAFETY,
    ContainerCheckpoint,
    SavedWorkspace,
    created_at,
    decode,
    encode,
    named,
    read_images,
    tag_of,
)
from mulligan.environments.container.engine import Container, Engine, EngineRefused, Missing
from mulligan.environments.container.record import Record
from mulligan.errors import MulliganError, NothingToRedo, NothingToUndo, UnknownCheckpoint, UserError
from mulligan.safefs.directory import random_name

if TYPE_CHECKING:
    from mulligan.engine import Workspace

#: How many safety checkpoints stay: as many restores can be undone.
SAFETY_KEPT = 10

Request = Mapping[str, Any]


class ContainerHistory:
    """The checkpoints of one environment; the caller holds the record during every method."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        record: Record,
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
            from mulligan.engine import Workspace
            from mulligan.settings import resolve

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

    # -- starting -------------------------------------------------------------------------------

    def start(self, request: Request, image: str) -> Container:
        """Creates and starts the environment's first container."""
        labels = {ENVIRONMENT: self.name, REQUEST: encode(request), BACK: NONE, FORWARD: NONE, OPERATION: NONE}
        made = self.engine.create(self.engine.find_image(image), request, name=self.name, labels=labels)
        try:
            self.engine.wake(made)
        except EngineRefused:
            self.engine.remove(made)
            raise
        return self.needed()

    # -- saving ---------------------------------------------------------------------------------

    def save(self, *, name: str = "", description: str = "") -> ContainerCheckpoint:
        """Saves the container and its workspaces, and removes what is kept no longer."""
        live = self.needed()
        saved = self._save(live, MANUAL, name, description)
        self.engine.thaw(live.id)
        self.record.end()
        self.trim()
        return saved

    def _save(self, live: Container, kind: str, name: str = "", description: str = "") -> ContainerCheckpoint:
        """Saves everything and leaves the container paused and the journal open, for the caller to close."""
        request = decode(live.labels[REQUEST])
        draft = ContainerCheckpoint(
            self._fresh_id(), created_at(now := self._now_ns()), kind, "", request, (), name, description,
            back=named(live.labels, BACK), forward=named(live.labels, FORWARD), order=now,
        )  # fmt: skip
        journal = {"what": "save", "id": draft.id, **self._around(live, request)}
        self.record.begin(journal)
        try:
            still = self.engine.freeze(live.id)
            if not still and kind == SAFETY:
                # A restore ends this container anyway; now, so that nothing is written after its state is saved.
                self.engine.kill(live.id)
                still = True
            pairs = [self._save_workspace(draft, *mount) for mount in writable(request)]
            draft = draft._replace(
                workspaces=tuple(saved for saved, _ in pairs), complete=all(whole for _, whole in pairs), still=still
            )
            image = self.engine.commit(live, tag_of(self.name, draft.id), draft.labels(self.name))
        except BaseException:
            # What cannot be taken back now is taken back by the next use, which reads the journal.
            with suppress(MulliganError):
                self._abandon(journal)
            raise
        return draft._replace(image=image)

    def _around(self, live: Container, request: Request) -> dict[str, Any]:
        hosts = [host for host, _ in writable(request)]
        return {"container": live.id, "was_running": live.status == "running", "hosts": hosts}

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

    def _fresh_id(self) -> str:
        taken = {each.id for each in self.checkpoints()} | set(self.record.abandoned)
        while (fresh := random_name(4)) in taken:
            pass
        return fresh

    # -- going back -----------------------------------------------------------------------------

    def restore(self, checkpoint_id: str) -> ContainerCheckpoint:
        """Takes the container and its workspaces back to a checkpoint."""
        target = self.get(checkpoint_id)
        self._go(target, lambda safety: {BACK: safety, FORWARD: NONE})
        return target

    def undo(self) -> ContainerCheckpoint:
        """Takes the last restore back."""
        target = self._step(BACK, NothingToUndo("No restore of this environment is left to undo. Nothing was changed."))
        self._go(target, lambda safety: {BACK: target.back or NONE, FORWARD: safety})
        return target

    def redo(self) -> ContainerCheckpoint:
        """Takes the last undo back."""
        target = self._step(FORWARD, NothingToRedo("Nothing of this environment was undone. Nothing was changed."))
        self._go(target, lambda safety: {BACK: safety, FORWARD: target.forward or NONE})
        return target

    def _step(self, label: str, nothing: UserError) -> ContainerCheckpoint:
        wanted = named(self.needed().labels, label)
        try:
            return self.get(wanted)
        except ValueError:
            raise nothing from None

    def _go(self, target: ContainerCheckpoint, steps: Callable[[str], dict[str, str]]) -> None:
        self._refuse_impossible(target)
        live = self.live()
        safety = self._save(live, SAFETY) if live is not None else None
        journal = {
            "what": "restore",
            "operation": random_name(8),
            "way": "back",
            "target": target.id,
            "workspaces": [list(each) for each in (safety.workspaces if safety else ())],
            **(self._around(live, target.request) if live else {"container": "", "was_running": False, "hosts": []}),
        }
        self.record.begin(journal)
        try:
            self._switch(target, live, journal, steps(safety.id if safety else NONE))
        except BaseException as error:
            self._take_back_after(error, journal)
            raise
        self.record.begin({**journal, "way": "forward"})
        self._finish(journal)
        self.trim()

    def _switch(
        self, target: ContainerCheckpoint, live: Container | None, journal: dict[str, Any], steps: dict[str, str]
    ) -> None:
        """Everything up to the moment at which the new container runs."""
        labels = {**steps, ENVIRONMENT: self.name, REQUEST: encode(target.request), OPERATION: journal["operation"]}
        new = self.engine.create(
            target.image,
            target.request,
            name=f"{self.name}-{journal['operation']}",
            labels=labels,
            volumes=_unnamed(live, target.request) if live else {},
        )
        if live is not None and claims_ports(target.request):
            self.engine.kill(live.id)
        for saved in target.workspaces:
            self._bring_back(saved)
        self.engine.wake(new)

    def _bring_back(self, saved: SavedWorkspace) -> None:
        workspace = self.workspace(saved.host)
        if workspace.plan(saved.checkpoint).is_noop:
            return
        report = workspace.restore(saved.checkpoint)
        if not report.complete:
            failed = ", ".join(f"{keep.path} ({keep.reason})" for keep in report.kept if keep.failed)
            raise UserError(f"Not everything in {saved.host} could be taken back: {failed}.")

    def _refuse_impossible(self, target: ContainerCheckpoint) -> None:
        for saved in target.workspaces:
            if not os.path.isdir(saved.host):
                raise UserError(
                    f"Checkpoint {target.id} cannot be restored: its directory {saved.host} is gone. Nothing was changed.",
                    hint=f"mkdir {saved.host}, then repeat this",
                )
            try:
                self.workspace(saved.host).get(saved.checkpoint)
            except UnknownCheckpoint:
                raise UserError(
                    f"Checkpoint {target.id} cannot be restored: what it holds of {saved.host} was deleted. Nothing was changed.",
                    hint="Restore another one; checkpoints() lists them",
                ) from None

    # -- ending what was begun ------------------------------------------------------------------

    def recover(self) -> str:
        """Ends a step that was cut short, forward or back; returns what it did, in words."""
        journal = self.record.journal
        for late in self.record.abandoned:
            self.engine.remove_image(tag_of(self.name, late))
        if journal is None:
            return ""
        if journal["what"] == "restore" and journal["way"] == "forward":
            self._finish(journal)
            return f"A restore to {journal['target']} that was cut short was finished."
        if journal["what"] == "restore":
            self._take_back(journal)
            return f"A restore to {journal['target']} that was cut short was taken back."
        self._abandon(journal)
        return "A checkpoint that was cut short was removed."

    def _finish(self, journal: Mapping[str, Any]) -> None:
        new = self._made_by(journal)
        if not new:
            # Somebody removed the new container before the old one went.
            self._take_back(journal)
            return
        self.engine.wake(new[0].id)
        if journal["container"]:
            self.engine.remove(journal["container"])
        with suppress(EngineRefused):  # it bears the name already, or another container took it: a name is a courtesy
            self.engine.rename(new[0].id, self.name)
        self.record.end()

    def _take_back_after(self, error: BaseException, journal: Mapping[str, Any]) -> None:
        try:
            self._take_back(journal)
        except MulliganError as trouble:
            error.add_note(f"It could not be taken back yet ({trouble}); the next use of the environment does.")

    def _take_back(self, journal: Mapping[str, Any]) -> None:
        new = self._made_by(journal)
        for each in new:
            self.engine.kill(each.id)
        for saved in journal["workspaces"]:
            self._bring_back(SavedWorkspace(*saved))
        self._resume(journal)
        for each in new:
            self.engine.remove(each.id)
        self.record.end()

    def _abandon(self, journal: Mapping[str, Any]) -> None:
        """Removes what a checkpoint or a clone left that was cut short, and lets the container go on."""
        self._resume(journal)
        for each in self._made_by(journal) if journal["what"] == "clone" else ():
            self.engine.remove(each.id)
        for row in self.engine.images(f"{CHECKPOINT}={journal['id']}"):
            for tag in row["RepoTags"]:
                self.engine.remove_image(tag.rpartition(":")[2])
        for host in journal["hosts"]:
            self._forget_workspace(host, journal["id"])
        self.record.end(abandoned=journal["id"])

    def _resume(self, journal: Mapping[str, Any]) -> None:
        if journal["was_running"]:
            with suppress(Missing):  # removed by hand meanwhile
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
        """Removes what is kept no longer: beyond the newest `retain`, and old safety checkpoints; returns their ids."""
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
            self.engine.remove(each.id, volumes=[volume for volume in each.volumes if _nobody_named(volume)])
        if images:
            for checkpoint in self.checkpoints():
                self.engine.remove_image(tag_of(self.name, checkpoint.id))

    # -- a second one ---------------------------------------------------------------------------

    def clone(self, other: ContainerHistory) -> Container:
        """Starts a container of another environment in this one's present state, what is mounted here copied into it."""
        live = self.needed()
        request = decode(live.labels[REQUEST])
        apart = {**request, "name": other.name, "mounts": {}, "ports": dict.fromkeys(request["ports"])}
        now = self._now_ns()
        base = ContainerCheckpoint(random_name(4), created_at(now), BASE, "", apart, order=now)
        journal = {
            "what": "clone",
            "id": base.id,
            "operation": random_name(8),
            **self._around(live, request),
            "hosts": [],
        }
        self.record.begin(journal)
        try:
            self.engine.freeze(live.id)
            image = self.engine.commit(live, tag_of(other.name, base.id), base.labels(other.name))
            labels = {ENVIRONMENT: other.name, REQUEST: encode(apart), BACK: NONE, FORWARD: NONE}
            new = self.engine.create(image, apart, name=other.name, labels={**labels, OPERATION: journal["operation"]})
            self.engine.wake(new)
            for inside in request["mounts"].values():
                path = inside.partition(":")[0]
                # Of the content, not of the directory: podman leaves out a mounted directory's own name while it pauses.
                with self.engine.archive(live.id, path.rstrip("/") + "/.") as pieces:
                    self.engine.unpack(new, path, pieces)
        except BaseException:
            with suppress(MulliganError):
                self._abandon(journal)
            raise
        self.engine.thaw(live.id)
        self.record.end()
        return other.needed()


def writable(request: Request) -> list[tuple[str, str]]:
    """Returns the mounted directories that the container can change, as pairs of host and inside."""
    pairs = [(host, *inside.partition(":")[::2]) for host, inside in request["mounts"].items()]
    return [(host, inside) for host, inside, mode in pairs if "ro" not in mode.split(",")]


def claims_ports(request: Request) -> bool:
    """Returns whether two containers of this request cannot run side by side."""
    return bool(request["ports"]) or request["options"].get("network_mode") == "host"


def _unnamed(live: Container, request: Request) -> dict[str, str]:
    """Returns the volumes that only this container knows of: the next one gets them, or what is in them would be lost."""
    declared = {mount.get("Target") for mount in request["options"].get("mounts", ())}
    return {v: inside for v, inside in live.volumes.items() if _nobody_named(v) and inside not in declared}


def _nobody_named(volume: str) -> bool:
    """Returns whether the engine made up a volume's name: 64 hexadecimal digits. The others are their owner's."""
    return len(volume) == 64 and volume.isalnum()
