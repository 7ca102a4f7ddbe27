"""
What this system can do beyond POSIX, chosen once, when this package is imported.

Each module here is one kind of system, and the only place for names that no other kind has; all other code asks `HERE`.
"""

from __future__ import annotations

import os
import sys

from mulligan.safefs.platform.portable import Portable


def choose(wanted: str, system: str) -> Portable:
    """Returns the platform for a system by Python's name of it, or `portable` where that is wanted."""
    if system == "linux":
        from mulligan.safefs.platform import linux

        return linux.PortableOnLinux() if wanted == Portable.name else linux.Linux()
    if system == "darwin" and wanted != Portable.name:
        from mulligan.safefs.platform.darwin import Darwin

        return Darwin()
    return Portable()


HERE = choose(os.environ.get("MULLIGAN_PLATFORM", ""), sys.platform)
