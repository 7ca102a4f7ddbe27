"""
`python -m mulligan.compat [-m MODULE | script.py] …`: runs a program with drop-in imports, as Python itself would run it.

    python -m mulligan.compat agent.py --task "fix the tests"
    python -m mulligan.compat -m praisonai checkpoint list
"""

from __future__ import annotations

import os
import runpy
import sys

from mulligan.compat import install

USAGE = "usage: python -m mulligan.compat [-m MODULE | script.py] [ARGUMENT …]"


def main() -> int:
    """Installs the finder and runs what the arguments name; its own exit code is the process's."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(f"{USAGE}\n")
        return 0 if words else 2
    if words[0] == "-m" and len(words) > 1:
        install()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return 0
    if words[0].startswith("-"):
        sys.stderr.write(f"{USAGE}\nUnknown option: {words[0]}\n")
        return 2
    install()
    sys.argv = words
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
    runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
