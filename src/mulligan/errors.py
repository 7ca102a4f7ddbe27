"""
Every error mulligan raises, as one tree.

    MulliganError                 exit 1   what the caller asked for cannot be done; nothing changed
    ├── UserError                 exit 1
    │   ├── UnknownCheckpoint     exit 1   (a KeyError too)
    │   │   └── NothingSaved      exit 10  no checkpoint here yet
    │   ├── AmbiguousCheckpoint   exit 1   (a KeyError too)
    │   ├── UnknownPath           exit 1   (a KeyError too)
    │   ├── NothingToUndo         exit 1
    │   ├── NothingToRedo         exit 1
    │   ├── FileSealed            exit 1   a secret, whose content is shown only on request
    │   ├── KeyMissing            exit 1   the key that seals or opens a secret is not on this machine, or cannot be used
    │   ├── PlanStale             exit 1   the workspace moved under the plan
    │   ├── ConfigError           exit 1   the user's own configuration cannot be read
    │   ├── Unprotectable         exit 1   a root mulligan refuses: /, home, the store itself …
    │   ├── WorkspaceReplaced     exit 1   another directory stands where the history was made
    │   ├── WorkspaceGone         exit 1   the project's directory does not exist any more
    │   ├── NoRoom                exit 1   the disk, or the budget, has no room; nothing was deleted for it
    │   ├── GitNotMoved           exit 1   git stands where it must not, or cannot, be moved from; nothing was changed
    │   ├── RemoteFailed          exit 1   a remote could not be reached, refused, or cannot do what is needed
    │   │   ├── RemoteDamaged     exit 1   what a remote sent cannot be believed; nothing of it was taken
    │   │   └── ContentsElsewhere exit 1   a remote has the contents of a checkpoint, and they were not fetched
    │   └── GitFailed             exit 1   a command of git failed, where one is needed at all
    │       └── GitMissing        exit 1   there is no git to run (a FileNotFoundError too)
    ├── Busy                      exit 11  another process holds the store
    ├── UnsafePath                exit 83  a path that would leave the workspace, or enter .git
    └── StoreError
        ├── StoreDamaged          exit 90  names the objects, the checkpoints touched, the next command
        └── DurabilityLost        exit 91  the disk did not confirm a write; nothing was saved

Each message says what happened and what is safe; `hint` says what to type next.
A workspace file that cannot be read is not an error but a finding: it is listed in the checkpoint.
"""

from __future__ import annotations


class MulliganError(Exception):
    """The root of every error that mulligan raises on purpose."""

    exit_code: int = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UserError(MulliganError):
    """The request cannot be met; nothing changed."""


class UnknownCheckpoint(UserError, KeyError):
    """No checkpoint answers to this reference."""


class AmbiguousCheckpoint(UserError, KeyError):
    """Several checkpoints begin with this prefix."""


class UnknownPath(UserError, KeyError):
    """The checkpoint does not hold this path."""


class NothingToUndo(UserError):
    """There is no earlier state that differs from the workspace."""


class NothingToRedo(UserError):
    """Nothing was undone since the last save or restore."""


class FileSealed(UserError):
    """The file is a secret that is saved sealed; its content is shown only on request."""


class KeyMissing(UserError):
    """The key that seals or opens a secret is not on this machine, or cannot be used."""


class PlanStale(UserError):
    """The workspace is no longer what the plan was made for; nothing changed. `moved` are the paths, where they are known."""

    def __init__(self, message: str, *, hint: str = "", moved: tuple[bytes, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.moved = moved


class ConfigError(UserError):
    """The user's own configuration holds something that cannot be used."""


class Unprotectable(UserError):
    """This directory is not one that mulligan should capture."""


class WorkspaceReplaced(UserError):
    """The directory is not the one this history was made in."""


class WorkspaceGone(UserError):
    """The project's directory does not exist any more; its checkpoints do."""


class NoRoom(UserError):
    """Neither the disk nor the budget has room for this, and nothing was deleted to make some."""


class GitNotMoved(UserError):
    """HEAD, branch and index cannot be moved as asked; neither they nor the files were changed."""


class RemoteFailed(UserError):
    """A remote could not be reached, refused the request, or cannot do what is needed."""


class RemoteDamaged(RemoteFailed):
    """What a remote sent is missing something or cannot be believed; nothing of it was taken."""


class ContentsElsewhere(RemoteFailed):
    """The contents of a checkpoint are on a remote; `row` is its number among those of other machines."""

    row = 0


class GitFailed(UserError):
    """A command of git failed, took too long or could not be started."""


class GitMissing(GitFailed, FileNotFoundError):
    """There is no git on this machine, and what was asked needs one."""


class NothingSaved(UnknownCheckpoint):
    """The command needs a checkpoint and none was saved here yet."""

    exit_code = 10


class Busy(MulliganError):
    """Another process held the store for longer than the wait."""

    exit_code = 11


class UnsafePath(MulliganError):
    """A path that would leave the workspace or reach into a repository's own files."""

    exit_code = 83


class StoreError(MulliganError):
    """The store cannot be trusted for this request."""

    exit_code = 90


class StoreDamaged(StoreError):
    """Bytes in the store are missing or wrong."""

    exit_code = 90


class DurabilityLost(StoreError):
    """The disk did not confirm a write; nothing was saved."""

    exit_code = 91
