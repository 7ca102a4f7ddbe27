"""
How a container is to be made: everything the caller asked for, as one JSON object.

It is written on the container and on every checkpoint, so a restore makes a container of exactly these settings without
asking the engine to describe the old one, which no two engines do alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mulligan.errors import UserError

Request = Mapping[str, Any]

# An idle shell that ends at once on a signal and reaps orphaned processes.
_IDLE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"]


def make_request(
    *,
    name: str,
    workdir: str,
    user: str,
    mounts: Mapping[str | os.PathLike[str], str] | None,
    environment: Mapping[str, str] | None,
    command: str | Sequence[str] | None,
    ports: Mapping[str | int, Any] | None,
    labels: Mapping[str, str] | None,
    sandbox: Any,
    options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Returns the request of an environment; ValueError where it contradicts itself."""
    if not workdir.startswith("/"):
        raise ValueError(f"workdir is a path in the container, from its root: /{workdir}, not {workdir}")
    limits = {**_sandboxed(sandbox), **(options or {})}
    if limits.get("auto_remove"):
        raise ValueError("auto_remove would remove the old container before the new one runs; cleanup() removes it")
    request = {
        "name": name,
        "workdir": workdir,
        "user": user,
        "mounts": _mounts(mounts or {}),
        "environment": dict(environment or {}),
        "command": _IDLE[1:] if command is None else command if isinstance(command, str) else list(command),
        "entrypoint": _IDLE[:1] if command is None else None,
        "ports": {_port(port): to for port, to in (ports or {}).items()},
        "labels": dict(labels or {}),
        "options": limits,
    }
    try:
        plain: dict[str, Any] = json.loads(json.dumps(request))
    except TypeError as error:
        raise ValueError(f"the settings of a container are kept as JSON: {error}") from None
    return plain


def _mounts(mounts: Mapping[str | os.PathLike[str], str]) -> dict[str, str]:
    found = {os.path.realpath(os.fspath(host)): inside for host, inside in mounts.items()}
    for host, inside in found.items():
        if not os.path.isdir(host):
            raise ValueError(f"{host} is not a directory, and only directories are mounted")
        if not inside.startswith("/"):
            raise ValueError(f"{host} is mounted at a path in the container, from its root, not at {inside!r}")
        if ":" in host:
            raise ValueError(f"{host} cannot be mounted: container engines do not take a path with a colon")
        if any(other != host and other.startswith(host.rstrip("/") + "/") for other in found):
            raise ValueError(f"{host} holds another mounted directory; mount only the outer one")
    if len(found) != len(mounts):
        raise ValueError("one directory is mounted twice")
    return found


def _port(port: str | int) -> str:
    text = str(port)
    return text if "/" in text else f"{text}/tcp"


def _sandboxed(policy: Any) -> dict[str, Any]:
    """Returns what a sandbox policy (Chimera's, or anything with its attributes) means for a container."""
    if policy is None:
        return {}
    options: dict[str, Any] = {}
    rules = getattr(policy, "network_rules", None)
    if rules and not any(rule.allow for rule in rules):
        options["network_mode"] = "none"
    if memory := getattr(policy, "max_memory_mb", None):
        options["mem_limit"] = f"{memory}m"
    if processes := getattr(policy, "max_processes", None):
        options["pids_limit"] = processes
    paths = getattr(policy, "path_rules", None)
    if paths is not None and not any(_may_write(rule) for rule in paths):
        options |= {"read_only": True, "tmpfs": {"/tmp": "size=100m"}}  # noqa: S108 - inside the container
    return options


def _may_write(rule: Any) -> bool:
    return str(getattr(rule.access, "value", rule.access)) in {"write", "execute"}


def refuse_other_request(
    name: str, found: Mapping[str, Any], asked: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Refuses to use a container that was made with other settings than the caller gives now."""
    different = [key for key, value in given.items() if value is not None and found.get(key) != asked[key]]
    if different:
        raise UserError(
            f"The container {name} was made with other {' and '.join(different)}. Nothing was changed.",
            hint="Leave them out to use it as it is, choose another name, or remove it first: cleanup()",
        )


def writable(request: Request) -> list[tuple[str, str]]:
    """Returns the mounted directories that the container can change, as pairs of host and inside."""
    pairs = [(host, *inside.partition(":")[::2]) for host, inside in request["mounts"].items()]
    return [(host, inside) for host, inside, mode in pairs if "ro" not in mode.split(",")]


def own_hostname(request: Request) -> str | None:
    """Returns the host name, the same after every restore; None where the container has none of its own."""
    shared = str(request["options"].get("network_mode", "")).startswith(("host", "container:"))
    return None if shared else request["name"][:63]
