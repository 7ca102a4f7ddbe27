"""
One container engine, Docker's or podman's, spoken to over its socket.

Everything that is asked of an engine is asked here, and every failure leaves as one of three errors: it does not answer
(`EngineUnreachable`), it refused (`EngineRefused`), or what was named is not there (`Missing`, for the caller to judge).
Images are named by their id and containers by theirs: the names that people see differ from engine to engine.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from mulligan.environments.container.request import own_hostname
from mulligan.environments.container.trouble import (
    EngineRefused,
    EngineUnreachable,
    Missing,
    NotRunning,
    load_docker,
    reason,
)

REPOSITORY = "localhost/mulligan"
PING_SECONDS = 10
ANSWER_SECONDS = 120
# A commit of a large container takes minutes, and the engine sends nothing until it is done.
LONG_SECONDS = 3600
# Overlay file systems end at about 125 layers; before that a checkpoint is written as one layer.
MOST_LAYERS = 100
_IS_LINK = 1 << 27  # Go's os.ModeSymlink, which both engines send
_IS_DIRECTORY = 1 << 31
# How both engines send two outputs over one connection: before each piece, whose it is and its length.
_OUTPUT_HEAD = struct.Struct(">BxxxL")
_ERROR_OUTPUT = 2
_RUNNING = frozenset({"running", "restarting"})


class Container(NamedTuple):
    """What the engine says of one container."""

    id: str
    status: str
    labels: dict[str, str]
    image: str
    created: str
    exit_code: int
    volumes: dict[str, str]


class PathStatus(NamedTuple):
    """What the engine says of one path in a container."""

    is_link: bool
    is_directory: bool
    leads_to: str


def connect(urls: Sequence[str]) -> Engine:
    """Returns the first engine that answers; raises EngineUnreachable, saying what each one said."""
    docker = load_docker()
    said = []
    for url in urls:
        path = url.removeprefix("unix://")
        if path != url and not os.path.exists(path):
            said.append(f"{url} (no such file)")  # asked here, since the docker package leaves a socket open over it
            continue
        try:
            api = docker.APIClient(base_url=url, version="auto", timeout=PING_SECONDS)
            api.ping()
        except (docker.errors.DockerException, OSError, ValueError) as error:
            said.append(f"{url} ({reason(error)})")
            continue
        api.timeout = ANSWER_SECONDS
        return Engine(api, url)
    raise EngineUnreachable(
        f"No container engine answers at {', '.join(said)}. Nothing was changed; checkpoints and files are as they were.",
        hint="Start one (systemctl start docker, or: podman system service --time=0), or say where it is with DOCKER_HOST; then run this again",
    )


class Engine:
    """A connection to an engine; `api` is docker's low-level client."""

    def __init__(self, api: Any, url: str) -> None:
        self._errors = load_docker().errors
        self.api = api
        self.url = url

    @property
    def is_local(self) -> bool:
        """Whether the engine sees this machine's directories."""
        return self.url.startswith(("unix://", "http+unix://", "http+docker://localhost"))

    def close(self) -> None:
        """Gives the connections back."""
        self.api.close()

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Turns whatever goes wrong with a request into one of this module's errors."""
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except self._errors.NotFound as error:
            raise Missing(f"The container engine could not {what}: {reason(error)}.") from error
        except self._errors.APIError as error:
            kind = NotRunning if error.status_code == 409 else EngineRefused
            raise kind(
                f"The container engine could not {what}: {reason(error)}. What was saved before is safe."
            ) from error
        except (self._errors.DockerException, RequestException, HTTPError, ConnectionError) as error:
            raise EngineUnreachable(
                f"The container engine at {self.url} stopped answering while it should {what} ({reason(error)}). "
                "Every checkpoint is safe; the next use finishes an interrupted step.",
                hint="Start the engine again (systemctl start docker, or: podman system service --time=0), then repeat this",
            ) from error

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Waits longer for an answer; the caller's own client has its own time again afterwards."""
        before, self.api.timeout = self.api.timeout, LONG_SECONDS
        try:
            yield
        finally:
            self.api.timeout = before

    # -- containers -----------------------------------------------------------------------------

    def containers(self, label: str) -> list[Container]:
        """Returns the containers with a label, running or not, newest first."""
        with self.asking("list containers"):
            rows = self.api.containers(all=True, filters={"label": label})
        found = [self.container(row["Id"]) for row in rows]
        return sorted((each for each in found if each is not None), key=lambda each: each.created, reverse=True)

    def container(self, container_id: str) -> Container | None:
        """Returns what is known of a container, None if there is none."""
        try:
            with self.asking("look at the container"):
                row = self.api.inspect_container(container_id)
        except Missing:
            return None
        state = row["State"]
        labels = row["Config"].get("Labels") or {}
        volumes = {m["Name"]: m["Destination"] for m in row.get("Mounts") or () if m["Type"] == "volume"}
        code = state.get("ExitCode") or 0
        return Container(row["Id"], state["Status"], labels, row["Image"], row["Created"], code, volumes)

    def create(
        self,
        image: str,
        request: Mapping[str, Any],
        *,
        name: str,
        labels: Mapping[str, str],
        volumes: Mapping[str, str] | None = None,
    ) -> str:
        """Creates a container, not started, as a request describes it, and returns its id."""
        binds = [f"{source}:{inside}" for source, inside in {**request["mounts"], **(volumes or {})}.items()]
        ports = {port: tuple(to) if isinstance(to, list) else to for port, to in request["ports"].items()}
        with self.asking(f"create the container {name}"):
            host = self.api.create_host_config(binds=binds, port_bindings=ports, **request["options"])
            made = self.api.create_container(
                image,
                command=request["command"],
                entrypoint=request["entrypoint"],
                environment=request["environment"],
                user=request["user"],
                working_dir=request["workdir"],
                labels={**request["labels"], **labels},
                ports=[tuple(port.split("/")) for port in ports],
                hostname=own_hostname(request),
                name=name,
                host_config=host,
            )
        return str(made["Id"])

    def wake(self, container_id: str) -> None:
        """Makes a container run, whatever state it is in; refuses one whose command has nothing to do."""
        found = self.container(container_id)
        if found is None:
            raise Missing("The container is gone. Its checkpoints are safe.")
        if found.status == "paused":
            with self.asking("resume the container"):
                self.api.unpause(container_id)
        elif found.status not in _RUNNING:
            with self.asking("start the container"):
                self.api.start(container_id)
        found = self.container(container_id)
        if found is None or found.status not in _RUNNING:
            code = found.exit_code if found else 0
            raise EngineRefused(
                f"The container ended by itself right after its start (exit code {code}): its command does not keep running. Checkpoints are safe.",
                hint='Give a command that stays, for example command="sleep infinity", or none',
            )

    def freeze(self, container_id: str) -> bool:
        """Pauses a container; returns whether nothing in it runs now (an engine may not be able to pause)."""
        found = self.container(container_id)
        if found is None:
            raise Missing("The container is gone. Its checkpoints are safe.")
        if found.status == "running":
            try:
                with self.asking("pause the container"):
                    self.api.pause(container_id)
            except EngineRefused:
                return False
            return True
        return found.status in {"paused", "exited", "created"}

    def thaw(self, container_id: str) -> None:
        """Lets a paused container go on; one that is gone or not paused is left alone."""
        found = self.container(container_id)
        if found is not None and found.status == "paused":
            with self.asking("resume the container"):
                self.api.unpause(container_id)

    def kill(self, container_id: str) -> None:
        """Ends every process of a container at once; again is harmless."""
        found = self.container(container_id)
        if found is not None and found.status in _RUNNING | {"paused"}:
            with self.asking("stop the container"):
                self.api.kill(container_id)
                self.api.wait(container_id)

    def remove(self, container_id: str, *, volumes: Iterable[str] = ()) -> None:
        """Removes a container, running or not, and of its volumes those named here; again is harmless."""
        try:
            with self.asking("remove the container"):
                self.api.remove_container(container_id, force=True)
        except Missing:
            pass  # already removed
        for volume in volumes:
            with suppress(EngineRefused), self.asking("remove a volume"):
                self.api.remove_volume(volume)

    def rename(self, container_id: str, name: str) -> None:
        """Gives a container its name."""
        with self.asking(f"name the container {name}"):
            self.api.rename(container_id, name)

    @contextmanager
    def started(self, run: str) -> Iterator[Iterator[tuple[bool, bytes]]]:
        """Starts a command that was created, and opens what it prints; closed, its connection is gone."""
        with self.asking("run the command"):
            url = f"{self._root}/exec/{run}/start"
            # Not the client's exec_start: that never quite closes its socket.
            with self.api.post(url, json={"Detach": False, "Tty": False}, stream=True, timeout=None) as answer:
                _refuse_unless_fine(answer, "the command")
                yield _outputs(answer.raw)

    # -- images ---------------------------------------------------------------------------------

    def images(self, label: str) -> list[dict[str, Any]]:
        """Returns the tagged images with a label, as the engine describes them."""
        with self.asking("list images"):
            rows: list[dict[str, Any]] = self.api.images(filters={"label": label})
        return [row for row in rows if row.get("RepoTags")]

    def images_in_use(self) -> set[str]:
        """Returns the ids of the images that containers stand on."""
        with self.asking("list containers"):
            return {str(row.get("ImageID", "")).removeprefix("sha256:") for row in self.api.containers(all=True)}

    def commit(self, container: Container, tag: str, labels: Mapping[str, str]) -> str:
        """Writes a container's file system to an image with a tag and labels, and returns the image's id."""
        changes = [f"LABEL {key}={value}" for key, value in labels.items()]
        with self._patience(), self.asking("write the container's files to an image"):
            layers = self.api.inspect_image(container.image).get("RootFS", {}).get("Layers") or []
            if len(layers) >= MOST_LAYERS:
                return self._flatten(container, tag, changes)
            made = self.api.commit(container.id, repository=REPOSITORY, tag=tag, pause=False, changes=changes)
        return str(made["Id"])

    def _flatten(self, container: Container, tag: str, changes: list[str]) -> str:
        said = self.api.import_image_from_stream(
            self.api.export(container.id), repository=f"{REPOSITORY}-flat", tag=tag, changes=changes
        )
        image = str(json.loads(said.strip().splitlines()[-1])["status"])
        self.api.tag(image, REPOSITORY, tag)
        # podman's import ignores the tag it is given, so both of its names go by what they are.
        for name in self.api.inspect_image(image)["RepoTags"]:
            if f"{REPOSITORY}-flat" in name:
                self.api.remove_image(name)
        return image

    def remove_image(self, tag: str) -> bool:
        """Removes an image by its tag; returns False where something still needs it."""
        try:
            with self.asking("remove an image"):
                self.api.remove_image(f"{REPOSITORY}:{tag}")
        except Missing:
            return True
        except EngineRefused:
            return False
        return True

    def find_image(self, name: str) -> str:
        """Returns the id of an image by the name a person gives it, pulling it if it is not there."""
        for candidate in (name, f"localhost/{name}", f"docker.io/library/{name}"):
            try:
                with self.asking(f"look at the image {candidate}"):
                    return str(self.api.inspect_image(candidate)["Id"])
            except Missing:
                continue
        try:
            with self._patience(), self.asking(f"pull the image {name}"):
                self.api.pull(name, tag=None if ":" in name.rpartition("/")[2] or "@" in name else "latest")
                return str(self.api.inspect_image(name)["Id"])
        except EngineRefused as error:
            raise EngineRefused(
                f"The image {name} is not on this engine, and it could not be pulled. Nothing was changed. ({error})",
                hint=f"docker pull {name}, or name an image that is there: docker images",
            ) from error

    # -- paths ----------------------------------------------------------------------------------

    def look(self, container_id: str, path: str) -> PathStatus | None:
        """Returns what stands at a path in a container, None if nothing does."""
        with self.asking(f"look at {path}"):
            answer = self.api.head(self._archive_url(container_id), params={"path": path}, timeout=ANSWER_SECONDS)
            if answer.status_code != 404:
                _refuse_unless_fine(answer, path)
                status = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
                mode = int(status["mode"])
                target = str(status.get("linkTarget") or "")
                return PathStatus(bool(mode & _IS_LINK), bool(mode & _IS_DIRECTORY), target)
        if self.container(container_id) is None:
            raise Missing("The container is gone. Its checkpoints are safe.")
        return None

    @contextmanager
    def archive(self, container_id: str, path: str) -> Iterator[Iterator[bytes]]:
        """Opens a path of a container as the pieces of a tar archive, and closes it, read to its end or not."""
        with self.asking(f"read {path}"):
            url = self._archive_url(container_id)
            # Not the client's get_archive: what that opens cannot be closed before its end.
            with self.api.get(url, params={"path": path}, stream=True, timeout=ANSWER_SECONDS) as answer:
                _refuse_unless_fine(answer, path)
                yield answer.iter_content(1 << 20)

    def _archive_url(self, container_id: str) -> str:
        return f"{self._root}/containers/{container_id}/archive"

    @property
    def _root(self) -> str:
        return f"{self.api.base_url}/v{self.api.api_version}"

    def unpack(self, container_id: str, path: str, archive: bytes | Iterable[bytes]) -> None:
        """Unpacks a tar archive into a directory of a container."""
        with self._patience(), self.asking(f"write below {path}"):
            self.api.put_archive(container_id, path, archive)


def engine_of(client: Any) -> Engine:
    """Returns the engine behind a client that the caller made."""
    api = getattr(client, "api", client)
    return Engine(api, str(getattr(api, "base_url", "")))


def _refuse_unless_fine(answer: Any, what: str) -> None:
    if answer.status_code != 200:
        kind = {404: Missing, 409: NotRunning}.get(answer.status_code, EngineRefused)
        raise kind(f"The container engine refused {what} (status {answer.status_code}: {answer.text.strip()}).")


def _outputs(raw: Any) -> Iterator[tuple[bool, bytes]]:
    """Yields what a command prints as it comes: whether it is from the error output, and the bytes."""
    while len(head := raw.read(_OUTPUT_HEAD.size)) == _OUTPUT_HEAD.size:
        stream, size = _OUTPUT_HEAD.unpack(head)
        yield stream == _ERROR_OUTPUT, raw.read(size)
