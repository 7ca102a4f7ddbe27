"""
A container engine of one's own, for tests: Docker's or podman's, on a socket and a data directory that go with it.

Started by `Engine.start` when the programs are there (or can be installed: Debian, as root), stopped by the id of its
process, and everything it made is removed: containers, mounts, directories. One per test process, so that several of them
can run side by side; what one leaves that was killed is removed by the next. The image is made of Debian's static busybox,
without a registry.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

KINDS = ("docker", "podman")
IMAGE = "localhost/mulligan-test-base:1"
_PROGRAMS = {"docker": ("dockerd", "containerd", "runc"), "podman": ("podman", "conmon", "runc")}
_PACKAGES = {"docker": ("docker.io",), "podman": ("podman", "runc")}
_START_SECONDS = 60
_PODMAN_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
exit_command_delay = 1
"""


class CannotRun(Exception):
    """This machine has no such engine, and none could be started; says why."""


class Engine:
    """One engine, running."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        # Short, since the path of a socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix=f"mgn-{kind[0]}-", dir="/tmp"))
        (self.directory / "owner").write_text(str(os.getpid()))
        self.socket = self.directory / "engine.sock"
        self.url = f"unix://{self.socket}"
        self.api: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, kind: str) -> Engine:
        """Starts an engine with one image in it; raises CannotRun."""
        if os.geteuid() != 0:
            raise CannotRun(f"{kind}: an engine of one's own needs root")
        _install(kind)
        _remove_orphans()
        engine = cls(kind)
        try:
            engine.run()
            engine._import_image()
        except BaseException:
            engine.stop()
            raise
        return engine

    def run(self) -> None:
        """Starts the process (again) and waits until it answers."""
        import docker

        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment(),
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotRun(f"{self.kind} does not start here: {self._last_words()}")
            time.sleep(0.05)
        self.api = docker.APIClient(base_url=self.url, version="auto", timeout=60)

    def _answers(self) -> bool:
        """Asks by hand: the docker package leaves a socket open whenever nobody answers."""
        try:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.settimeout(10)
                wire.connect(str(self.socket))
                wire.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in wire.recv(64)
        except OSError:
            return False

    def kill(self) -> None:
        """Ends the engine's own process without warning, as a crash would; its containers may live on."""
        self.api.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        # Its containerd dies with it; where nobody collects it, the next dockerd would take the dead for the living.
        (self.directory / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Ends everything and leaves nothing behind."""
        with suppress(Exception):  # an engine that does not answer is ended below
            for row in self.api.containers(all=True):
                self.api.remove_container(row["Id"], force=True)
            self.api.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        _remove(self.directory)

    # -- what is on it --------------------------------------------------------------------------

    def containers(self) -> list[str]:
        """Returns the names of all containers."""
        return sorted(name.lstrip("/") for row in self.api.containers(all=True) for name in row["Names"])

    def tags(self) -> list[str]:
        """Returns the tags of all images but the base."""
        return sorted(tag for row in self.api.images() for tag in row["RepoTags"] or () if tag != IMAGE)

    # -- how it is made -------------------------------------------------------------------------

    def _command(self) -> list[str]:
        here = self.directory
        if self.kind == "docker":
            return [
                "dockerd", "--host", self.url, "--data-root", f"{here}/data", "--exec-root", f"{here}/exec",
                "--pidfile", f"{here}/pid", "--bridge", "none", "--iptables=false", "--ip6tables=false",
                "--ip-forward=false", "--config-file", f"{here}/none.json",
            ]  # fmt: skip
        return [
            "podman", "--root", f"{here}/root", "--runroot", f"{here}/run", "--tmpdir", f"{here}/tmp",
            "system", "service", "--time=0", self.url,
        ]  # fmt: skip

    def _environment(self) -> dict[str, str]:
        conf = self.directory / "containers.conf"
        conf.write_text(_PODMAN_CONF)
        (self.directory / "none.json").write_text("{}")
        path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
        # podman leaves a copy of what it was given to load among the temporary files: then it goes with the rest.
        own = {"HOME": str(self.directory), "TMPDIR": str(self.directory), "CONTAINERS_CONF": str(conf)}
        return {"PATH": path, "LC_ALL": "C.UTF-8", **own}

    def _import_image(self) -> None:
        said = self.api.import_image_from_data(_busybox_root(), repository=IMAGE.rpartition(":")[0], tag="1")
        # podman's import ignores the tag.
        image = next(row for row in self.api.images() if row["Id"] in said)
        self.api.tag(image["Id"], *IMAGE.rsplit(":", 1))
        for tag in image["RepoTags"]:
            if tag != IMAGE:
                self.api.remove_image(tag)

    def _last_words(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason given"


def _install(kind: str) -> None:
    """Installs what is missing, where that is possible; raises CannotRun where it is not."""
    packages = [*_PACKAGES[kind], "busybox-static"]
    with Path("/tmp/mulligan-test-install.lock").open("a") as lock:  # two test processes, one package manager
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _missing(kind) and shutil.which("apt-get"):
            for command in (["install", "-qq", "-y", "--no-install-recommends", *packages], ["update", "-qq"]) * 2:
                if _missing(kind):
                    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                    subprocess.run(["apt-get", *command], env=env, check=False, capture_output=True, timeout=300)
    if missing := _missing(kind):
        raise CannotRun(f"{kind}: {', '.join(missing)} missing, and could not be installed")


def _missing(kind: str) -> list[str]:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    found = [name for name in _PROGRAMS[kind] if not shutil.which(name, path=path)]
    return found if Path("/bin/busybox").exists() else [*found, "busybox"]


def _busybox_root() -> bytes:
    """Returns a root file system of one program, as a tar archive."""
    names = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for name in names:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        for name in ("etc", "tmp", "workspace", "root"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(directory)
        users = b"root:x:0:0::/root:/bin/sh\njoe:x:1000:1000::/tmp:/bin/sh\n"
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size = len(users)
        tar.addfile(passwd, BytesIO(users))
    return buffer.getvalue()


def _remove_orphans() -> None:
    """Removes what a test process left that was killed before it could do so."""
    for directory in Path("/tmp").glob("mgn-[dp]-*"):
        with suppress(OSError, ValueError):  # just being made, or just being removed, by its owner
            owner = int((directory / "owner").read_text())
            if not Path("/proc", str(owner)).exists():
                _remove(directory)


def _remove(directory: Path) -> None:
    """Ends the processes that name an engine's directory (shims, monitors, a containerd), and removes its mounts and files."""
    for _ in range(3):
        for pid in _processes(directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in _mounts(directory):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)


def _processes(directory: Path) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and os.fsencode(directory) + b"/" in Path("/proc", entry, "cmdline").read_bytes():
                found.append(int(entry))
    return [pid for pid in found if pid != os.getpid()]


def _mounts(directory: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    points = [line.split()[4] for line in lines]
    return sorted((point for point in points if point.startswith(f"{directory}/")), reverse=True)
