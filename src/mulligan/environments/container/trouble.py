"""
What can go wrong with a container engine, as errors, and the reason for it in a few words.

Each message says what happened and what is safe; `hint` says what to type next.
"""

from __future__ import annotations

from typing import Any

from mulligan.errors import UserError


class EngineUnreachable(UserError):
    """No container engine answers, or it stopped answering."""


class EngineRefused(UserError):
    """The engine answered, and did not do what it was asked."""


class Missing(EngineRefused):
    """The container, image or path that was named is not there."""


class NotRunning(EngineRefused):
    """The container is not in a state for this: stopped, paused, or its name is taken."""


def load_docker() -> Any:
    """Returns the `docker` package; raises ImportError with what to type where it is missing."""
    try:
        import docker
        import docker.errors
    except ImportError as error:
        raise ImportError(
            'DockerEnvironment needs the package "docker". Install it with: pip install docker'
            " (or: pip install 'mulligan[docker]')"
        ) from error
    return docker


def reason(error: BaseException) -> str:
    """Returns what went wrong in a few words: the engine's own, else the innermost cause's."""
    explained = getattr(error, "explanation", None)
    if explained:
        return str(explained).strip().rstrip(".")
    innermost = error
    while (inner := innermost.__cause__ or innermost.__context__) is not None:
        innermost = inner
    text = getattr(innermost, "strerror", None) or str(innermost) or type(innermost).__name__
    return str(text).strip().rstrip(".")
