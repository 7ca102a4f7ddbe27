"""
How a container is restored, whole or not at all.

A restore saves the present state, creates the new container beside the old one and takes the workspaces back while the
old one stands paused; then it ends that one and starts the new. Until the new one runs every failure leads back to the
old, which is removed only then; from there on every path leads forward. The journal says on which side of that point a
step was interrupted, and `recover` finishes it at the next use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mulligan.environments.container.checkpoints import (
    BACK,
    BASE,
    ENVIRONMENT,
    FORWARD,
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
    tag_of,
)
from mulligan.environments.container.engine import Container
from mulligan.environments.container.request import Request, writable
from mulligan.environments.container.saving import ContainerSaves, around, nobody_named
from mulligan.environments.container.trouble import EngineRefused
from mulligan.errors import MulliganError, NothingToRedo, NothingToUndo, UnknownCheckpoint, UserError
from mulligan.safefs.directory import random_name


class ContainerHistory(ContainerSaves):
    """The checkpoints of one environment, and the ways between them."""

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
        safety, saved = self._save_present(live, target)
        journal = {
            "what": "restore",
            "operation": random_name(8),
            "way": "back",
            "target": target.id,
            "workspaces": [list(each) for each in saved],
            **around(live),
        }
        self.record.begin(journal)
        try:
            self._switch(target, live, journal, steps(safety))
        except BaseException as error:
            self._take_back_after(error, journal)
            raise
        self.record.begin({**journal, "way": "forward"})
        self._finish(journal)
        with suppress(MulliganError):  # as after a save: the restore is done
            self.trim()

    def _save_present(
        self, live: Container | None, target: ContainerCheckpoint
    ) -> tuple[str, tuple[SavedWorkspace, ...]]:
        """Saves what a restore is about to replace, also directories that only the target mounts."""
        goes_back = {each.host: each.inside for each in target.workspaces}
        if live is None:
            # Without a container there is no state of one to come back to; the files are saved all the same.
            now = self._now_ns()
            draft = ContainerCheckpoint(random_name(4), created_at(now), SAFETY, "", target.request)
            return NONE, tuple(self._save_workspace(draft, *mount)[0] for mount in goes_back.items())
        draft = self._draft(SAFETY, live)
        safety = self._save(live, draft, {**goes_back, **dict(writable(draft.request))}.items())
        return safety.id, safety.workspaces

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
        self._bring_back_all(target)
        if live is not None:
            # It has the ports, and while it dies its processes are no longer paused: what they write then goes back too.
            self.engine.kill(live.id)
            self._bring_back_all(target)
        self.engine.wake(new)

    def _bring_back_all(self, target: ContainerCheckpoint) -> None:
        for saved in target.workspaces:
            if left := self._bring_back(saved):
                raise UserError(f"Checkpoint {target.id} was not restored, and all is as it was before.{left}")

    def _bring_back(self, saved: SavedWorkspace) -> str:
        """Takes a mounted workspace back; returns what could not be, in words."""
        workspace = self.workspace(saved.host)
        if workspace.plan(saved.checkpoint).is_noop:
            return ""
        report = workspace.restore(saved.checkpoint)
        failed = [f"{keep.path} ({keep.reason})" for keep in report.kept if keep.failed]
        return f" In {saved.host} these could not be restored: {', '.join(failed)}." if failed else ""

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
        """Finishes an interrupted step or rolls it back; returns what it did, in words."""
        self._remove_late()
        journal = self.record.journal
        if journal is None:
            return ""
        if journal["what"] == "restore" and journal["way"] == "forward":
            self._finish(journal)
            return f"An interrupted restore to {journal['target']} was finished."
        if journal["what"] == "restore":
            left = self._take_back(journal)
            return f"An interrupted restore to {journal['target']} was rolled back.{left}"
        self._abandon(journal)
        return "An interrupted checkpoint was removed."

    def _finish(self, journal: Mapping[str, Any]) -> None:
        new = self._made_by(journal)
        if not new:
            # The new container was removed from outside before the old one was.
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
            left = self._take_back(journal)
        except MulliganError as trouble:
            left = f"It could not be rolled back yet ({trouble}); the next use of the environment tries again."
        if left:
            error.add_note(left.strip())

    def _take_back(self, journal: Mapping[str, Any]) -> str:
        """Brings everything to where it was before a restore; returns what could not be, in words."""
        new = self._made_by(journal)
        for each in new:
            self.engine.kill(each.id)
        left = "".join(self._bring_back_if_there(SavedWorkspace(*saved)) for saved in journal["workspaces"])
        self._resume(journal)
        for each in new:
            self.engine.remove(each.id)
        self.record.end()
        return left

    def _bring_back_if_there(self, saved: SavedWorkspace) -> str:
        """Restores a workspace; one that was removed must not block the container for good."""
        try:
            return self._bring_back(saved) if os.path.isdir(saved.host) else f" {saved.host} is gone."
        except UnknownCheckpoint as error:
            return f" {saved.host} stays as it is: {error}"

    # -- a second one ---------------------------------------------------------------------------

    def clone(self, other: ContainerHistory) -> Container:
        """Starts a container of another environment in this one's present state, what is mounted here copied into it."""
        live = self.needed()
        request = decode(live.labels[REQUEST])
        apart = {**request, "name": other.name, "mounts": {}, "ports": dict.fromkeys(request["ports"])}
        now = self._now_ns()
        base = ContainerCheckpoint(random_name(4), created_at(now), BASE, "", apart, order=now)
        journal = {"what": "clone", "id": base.id, "operation": random_name(8), "hosts": [], **around(live)}
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
        made = other.needed()
        self._thaw(live)
        self.record.end()  # last: until here, the next use removes a clone that was not handed out
        return made


def _unnamed(live: Container, request: Request) -> dict[str, str]:
    """Returns the anonymous volumes; the next container gets them, so that no data is lost."""
    declared = {mount.get("Target") for mount in request["options"].get("mounts", ())}
    return {v: inside for v, inside in live.volumes.items() if nobody_named(v) and inside not in declared}
