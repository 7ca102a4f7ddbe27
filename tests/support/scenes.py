"""
A restore in which every kind of path turns into every other, to be broken off at any point.

`Scene` can be set up again and again in a few milliseconds: the store is copied from a template, the workspace written
anew. States are values, with the permission bits of directories too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import mulligan
from tree import snapshot, wipe

State = dict[str, tuple[str, int, bytes]]


def file(content: str, mode: int = 0o644) -> tuple[str, int, bytes]:
    """A regular file."""
    return ("file", mode, content.encode())


def link(target: str) -> tuple[str, int, bytes]:
    """A symbolic link."""
    return ("link", 0, target.encode())


def folder(mode: int = 0o755) -> tuple[str, int, bytes]:
    """A directory."""
    return ("dir", mode, b"")


OLD: State = {
    "same": file("same"),
    "modified": file("old"),
    "deleted": file("deleted"),
    "file_to_dir": file("a file"),
    "dir_to_file": folder(),
    "dir_to_file/deep": folder(),
    "dir_to_file/deep/inner": file("inner"),
    "link_to_dir": link("same"),
    "dir_to_link": folder(),
    "dir_to_link/inner": link("same"),
    "file_to_link": file("f"),
    "bits": file("bits", 0o600),
    "dir_bits": folder(0o700),
    "dir_bits/kept": file("kept"),
}
MID: State = {"mid": file("mid")}
NEW: State = {
    "same": file("same"),
    "modified": file("new"),
    "file_to_dir": folder(),
    "file_to_dir/deep": folder(0o750),
    "file_to_dir/deep/made": file("made", 0o755),
    "dir_to_file": file("now a file"),
    "link_to_dir": folder(),
    "link_to_dir/made": link("nowhere"),
    "dir_to_link": link("elsewhere"),
    "file_to_link": link("same"),
    "bits": file("bits", 0o640),
    "dir_bits": folder(),
    "dir_bits/kept": file("kept"),
}


def state_of(project: Path) -> State:
    """The workspace as a value."""
    found = snapshot(project, skip=frozenset({".git"}))
    return {
        path: (entry.kind, 0 if entry.kind == "link" else entry.mode, entry.content) for path, entry in found.items()
    }


def write_state(project: Path, state: State) -> None:
    """Makes the workspace this and nothing else."""
    wipe(project)
    for path in sorted(state):
        kind, mode, content = state[path]
        place = project / path
        if kind == "dir":
            place.mkdir()
        elif kind == "link":
            place.symlink_to(os.fsdecode(content))
        else:
            place.write_bytes(content)
            place.chmod(mode)
    for path in sorted(state, reverse=True):
        if state[path][0] == "dir":
            (project / path).chmod(state[path][1])


def left_lying(project: Path) -> list[str]:
    """Names of ours in the workspace."""
    return [path for path in snapshot(project) if ".mulligan-" in path or ".kept-" in path]


class Scene:
    """Checkpoints `new` and then `mid`; the workspace stands at `OLD`, unsaved."""

    def __init__(self, home: Path) -> None:
        self.project, self.store, self._template = home / "project", home / "store", home / "template"
        self.project.mkdir()
        with mulligan.open(self.project, store=self.store) as ws:
            for name, state in (("new", NEW), ("mid", MID)):
                write_state(self.project, state)
                ws.save(name)
        shutil.copytree(self.store, self._template)
        self.reset()

    def reset(self) -> Any:
        """Puts everything back to the beginning and returns the workspace."""
        self.put(OLD, self._template)
        return self.open()

    def open(self) -> Any:
        """A new workspace object, as a new process would have it."""
        return mulligan.open(self.project, store=self.store)

    def put(self, state: State, store: Path) -> None:
        """Puts the workspace and the store into a state seen before."""
        write_state(self.project, state)
        shutil.rmtree(self.store)
        shutil.copytree(store, self.store)

    def keep_store(self, name: str) -> Path:
        """Copies the store as it is now, for `put`."""
        place = self.store.with_name(name)
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(self.store, place))
