"""On file systems that share blocks a fork is a reflink, and still no write in one shows in the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "filesystems"))

import mounts

from tools import plain_environment

CODE = """
import os, sys
sys.path[:0] = [{filesystems!r}, {support!r}]
import mounts, mulligan
from tree import put, snapshot
mounts.disks.keep_mounts_to_ourselves()
with mounts.mounted({kind!r}) as place:
    project = place / "project"
    for number in range(40):
        put(project, f"d{{number % 4}}/f{{number}}", os.urandom(9000))
    put(project, "node_modules/x", os.urandom(9000))
    old = {{path: entry.content for path, entry in snapshot(project).items()}}
    for path in old:
        os.utime(project / path, ns=(10**18, 10**18))
    with mulligan.open(project, store=place / "stores" / "own") as ws:
        ws.save("start")
        import time
        time.sleep(2.2)  # until the times of the files prove that nothing changed
        ws.save("again")
        fork = ws.fork("start", place / "try", with_ignored=True)
        print(ws.forks()[0].backend)
        assert {{p: e.content for p, e in snapshot(place / "try").items()}} == old
        for number in range(40):  # in place, a byte in the middle
            for root in ((project,) if number % 2 else (place / "try",)):
                with open(root / f"d{{number % 4}}/f{{number}}", "r+b") as file:
                    file.seek(4096)
                    file.write(b"changed")
        for number in range(40):
            other = place / "try" if number % 2 else project
            path = f"d{{number % 4}}/f{{number}}"
            assert (other / path).read_bytes() == old[path], path
        assert ws.check().ok and fork.check().ok
        fork.restore("start")
        assert {{p: e.content for p, e in snapshot(place / "try").items()}} == old
        fork.close()
"""


@pytest.mark.parametrize(
    ("kind", "backend"), [("xfs", "reflink"), ("btrfs", "reflink"), ("overlay", "copy"), ("tmpfs", "copy")]
)
def test_no_write_in_one_shows_in_the_other(kind: str, backend: str, tmp_path: Path) -> None:
    if why := mounts.why_not(kind):
        pytest.skip(why)
    folders = {"filesystems": str(Path(mounts.__file__).parent), "support": str(Path(__file__).parents[2] / "support")}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(kind=kind, **folders)],
        env=plain_environment(HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{backend}\n"), done.stderr
