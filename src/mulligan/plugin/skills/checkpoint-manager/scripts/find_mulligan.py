"""
Finds mulligan where the Python that runs these scripts does not have it.

Tools such as pipx and uv install a program into an environment of its own. The program is then on the path, and the first
line of its file names the Python of that environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

MISSING = (
    "mulligan is not installed. Nothing was changed.\n"
    "Install the program: pipx install mulligan (or: uv tool install mulligan)"
)
_ASK = "import json, sys, mulligan; print(json.dumps([list(sys.version_info[:2]), list(mulligan.__path__)]))"


def use_installed(script: str, *, running: bool) -> None:
    """
    Makes `import mulligan` work for a script.

    A script that is being run is started anew with the Python of the installed program, and this call does not return. For
    an import, that Python's packages are added to the path, if it is the same version. Raises ModuleNotFoundError otherwise.
    """
    for python in _pythons():
        version, place = _ask(python)
        if not place:
            continue
        if running:
            os.execv(python, [python, script, *sys.argv[1:]])  # noqa: S606 - a Python, and this script again
        if tuple(version) == sys.version_info[:2]:
            sys.path.append(os.path.dirname(place))
            return
        raise ModuleNotFoundError(
            f"mulligan is installed for {python} (Python {version[0]}.{version[1]}), and this is Python"
            f" {sys.version_info[0]}.{sys.version_info[1]}. Use that Python, or install mulligan for this one."
        )
    if running:
        sys.exit(MISSING)
    raise ModuleNotFoundError(MISSING)


def _pythons() -> list[str]:
    """Returns the Pythons of the installed programs, and then the usual ones."""
    programs = [shutil.which("mulligan"), os.path.expanduser("~/.local/bin/mulligan")]
    found = [_python_of(program) for program in programs if program]
    found += [shutil.which(name) or "" for name in ("python3", "python")]
    return [python for python in dict.fromkeys(found) if python not in ("", sys.executable)]


def _python_of(program: str) -> str:
    """
    Returns the Python of a program: the one that its first lines name, else the one beside its file.

    A path with spaces is in the second line, after `exec`. A compiled program has no such lines.
    """
    try:
        with open(program, "rb") as file:
            head = file.read(4096).decode("utf-8", "replace").splitlines()[:2]
    except OSError:
        return ""
    found = re.match(r"#!\s*(\S*python[\d.]*)(\s|$)", head[0]) if head else None
    if found is None and len(head) > 1:
        found = re.match(r"""'''exec' "?([^"]*python[\d.]*)"? "\$0" """, head[1])
    python = found[1] if found else os.path.join(os.path.dirname(os.path.realpath(program)), "python3")
    return python if os.access(python, os.X_OK) else ""


def _ask(python: str) -> tuple[list[int], str]:
    """Returns the version of a Python and where it has mulligan; -P keeps the current directory out of its search."""
    try:
        ask = [python, "-P", "-c", _ASK]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - fixed words
        version, paths = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return [], ""
    return version, paths[0]
