"""What the environment says to programs beside mulligan itself: git, PraisonAI, container engines."""

from __future__ import annotations

import os
from typing import NamedTuple

from mulligan.settings import places
from mulligan.settings.locations import Environ


class Tools(NamedTuple):
    """What a program that is started needs to know of the environment."""

    path: str
    home: str
    config: str


def tools(environ: Environ | None = None) -> Tools:
    """Returns where programs are looked for, and the home that their own configuration is in."""
    env = os.environ if environ is None else environ
    return Tools(env.get("PATH") or "/usr/bin:/bin", places(env).home, env.get("XDG_CONFIG_HOME", ""))


def environment() -> dict[str, str]:
    """Returns the environment as it is, for programs that are the user's own: git, and what it starts to reach a server."""
    return dict(os.environ)


def expand_user(path: str, environ: Environ | None = None) -> str:
    """Returns a path with a leading `~` or `~name` replaced by that home directory."""
    if path == "~" or path.startswith("~/"):
        return places(environ).home + path[1:]
    return os.path.expanduser(path)


class PraisonaiChoices(NamedTuple):
    """What PraisonAI's own variables say: its checkpoints' directory and author, and whether sessions make checkpoints."""

    storage: str
    user_name: str
    user_email: str
    checkpoints: bool | None


def praisonai_choices(environ: Environ | None = None) -> PraisonaiChoices:
    """Returns the variables that a program written for PraisonAI expects to be obeyed."""
    env = os.environ if environ is None else environ
    home, said = places(env).home, env.get("PRAISONAI_CHECKPOINTS")
    data = env.get("PRAISONAI_HOME") or os.path.join(home, ".praisonai")
    return PraisonaiChoices(
        os.path.join(expand_user(data, env), "checkpoints"),
        env.get("PRAISONAI_GIT_USER_NAME", "PraisonAI Checkpoints"),
        env.get("PRAISONAI_GIT_USER_EMAIL", "checkpoints@praison.ai"),
        None if said is None else said.strip().lower() in {"1", "true", "yes", "on"},
    )


def container_engines(environ: Environ | None = None) -> tuple[str, ...]:
    """Returns where a container engine may answer: what `DOCKER_HOST` says, else Docker's and podman's own sockets."""
    env = os.environ if environ is None else environ
    if env.get("DOCKER_HOST"):
        return (env["DOCKER_HOST"],)
    own = env.get("XDG_RUNTIME_DIR", "")
    mine = (f"unix://{own}/docker.sock", f"unix://{own}/podman/podman.sock") if os.path.isabs(own) else ()
    return ("unix:///var/run/docker.sock", *mine, "unix:///run/podman/podman.sock")
