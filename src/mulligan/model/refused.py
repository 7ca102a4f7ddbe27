"""Directories that are never a workspace: the home directory, the system's, the one for temporary files."""

from __future__ import annotations

import os

# Not /mnt, /opt or /srv: a container may have its one project there.
_NAMES = "bin boot dev etc home lib lib32 lib64 proc root run sbin sys usr var Users"
_SYSTEM = frozenset("/" + name for name in _NAMES.split())
_USER_DIRECTORIES = ("Desktop", "Documents", "Downloads")


def why_refused(directory: str, home: str, temporary: str) -> str:
    """Returns why a directory is never protected, empty for one that may be; all paths are real ones."""
    if directory == "/":
        return "it is the whole machine"
    if directory == home:
        return "it is your home directory"
    if directory in _SYSTEM:
        return "it belongs to the system"
    if home.startswith(directory + "/"):
        return "your home directory is inside it"
    if os.path.dirname(directory) == home and os.path.basename(directory) in _USER_DIRECTORIES:
        return "it holds more than one project"
    if directory in ("/tmp", "/var/tmp", temporary):  # noqa: S108 - refused, not used
        return "it is everybody's directory for temporary files"
    return ""
