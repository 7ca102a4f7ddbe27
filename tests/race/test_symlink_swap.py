"""
An attacker inside the workspace exchanges directories with links to the outside, as fast as it can, while restores run.

Whatever a restore manages to do under that, not one byte, name, mode or time outside the workspace may change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import mulligan
from tools import plain_environment, sweep
from tree import put, snapshot

ATTACKER = """
    import ctypes, os, sys
    libc, here = ctypes.CDLL(None, use_errno=True), os.fsencode(sys.argv[1])
    print("go", flush=True)
    while True:
        for number in range(3):
            trap, real = here + b"/trap%d" % number, here + b"/d%d" % number
            libc.renameat2(-100, trap, -100, real, 2)
            libc.renameat2(-100, trap, -100, real, 2)
"""


def disturb(project: Path, number: int) -> None:
    """Gives the restore something to do, by descriptors that no link can lead astray."""
    for folder in range(3):
        try:
            handle = os.open(project / f"d{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # it is a link at this moment
        try:
            file = os.open(
                f"f{number % 2}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=handle
            )
            os.write(file, b"%d" % number)
            os.close(file)
            new = os.open(f"new{number}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=handle)
            os.close(new)
        finally:
            os.close(handle)


def test_nothing_outside_changes_while_directories_turn_into_links(ws, project, tmp_path):
    """Reliability row 29, small."""
    outside = tmp_path / "outside"
    for name in ("f0", "f1", "sub/g", "only-outside"):
        put(outside, name, "theirs", perm=0o640)
        if name != "only-outside":
            for number in range(3):
                put(project, f"d{number}/{name}", "saved")
    put(project, ".gitignore", "trap*\n")
    ws.save("base")
    for number in range(3):
        os.symlink(outside, project / f"trap{number}")
    before = snapshot(tmp_path / "outside")
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ATTACKER), os.fspath(project)],
        stdout=subprocess.PIPE,
        text=True,
        env=plain_environment(),
    )
    done = refused = 0
    try:
        assert child.stdout is not None
        child.stdout.readline()
        for number in range(sweep(40)):
            disturb(project, number)
            try:
                ws.restore("base")
                done += 1
            except mulligan.MulliganError:
                refused += 1
    finally:
        child.kill()
        child.communicate()
    assert snapshot(tmp_path / "outside") == before, f"{done} restores done, {refused} refused"
