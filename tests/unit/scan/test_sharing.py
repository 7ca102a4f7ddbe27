"""A walk that two processes share finds what one alone finds, whatever becomes of the second."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from checker import judge
from tools import plain_environment, sweep

# Twins are made only by processes with one thread, and a test runner may have more: each look is its own process.
PRELUDE = """
    import json, os, signal, sys
    import mulligan
    from mulligan.safefs import twin
    from mulligan.scan import walk

    walk._SHARE_READ = walk._SHARE_DIRECTORIES = int(sys.argv[3])
    made = []

    class Counted(twin.Twin):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self.pid)

    walk.Twin = Counted
    can = walk.can_twin
    walk.can_twin = lambda: can() or "forced"  # a machine with one processor must pass too
    ws = mulligan.open(sys.argv[1], store=sys.argv[2])

    def tell(cp):
        entry = ws._bench.vault.checkpoints.by_id(cp.id)
        print(json.dumps({
            "tree": entry.files_tree.hex(), "modes": entry.modes_tree.hex(), "files": sorted(cp.files_changed),
            "missed": [row.to_dict() for row in cp.not_captured], "twins": len(made), "status": ws.status()["files"],
            "tmp": os.listdir(os.path.join(sys.argv[2], "tmp")),
        }))
"""


def run(body: str, project: Path, store: Path, *, share_from: int = 3) -> dict[str, object]:
    """Runs a script in a process of its own and returns what it told."""
    script = textwrap.dedent(PRELUDE) + textwrap.dedent(body)
    command = [sys.executable, "-W", "error", "-c", script, str(project), str(store), str(share_from)]
    done = subprocess.run(command, capture_output=True, text=True, env=plain_environment(), check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def grow(project: Path, rng: random.Random) -> None:
    """A random tree with everything that decides what is captured."""
    folders = [project]
    for number in range(40):
        folder = rng.choice(folders) / f"d{number}"
        folder.mkdir()
        folders.append(folder)
    for number in range(150):
        folder = rng.choice(folders)
        kind = rng.random()
        file = folder / f"f{number}"
        if kind < 0.8:
            file.write_bytes(rng.randbytes(rng.randrange(300)))
            file.chmod(rng.choice((0o644, 0o755, 0o600, 0o640)))
        elif kind < 0.85:
            file.symlink_to("nowhere")
        elif kind < 0.9:
            (folder / ".gitignore").write_text(f"f{number + 1}\n!f{number + 2}\nd{number % 40}/\n")
        elif kind < 0.95:
            (folder / f".env.{number}").write_text("TOKEN=1")
        else:
            os.mkfifo(file)


@pytest.mark.parametrize("seed", range(sweep(6)))
def test_two_processes_find_what_one_finds(project, tmp_path, seed):
    rng = random.Random(seed)
    grow(project, rng)
    alone = run("tell(ws.save('a'))", project, tmp_path / "alone", share_from=10**9)
    shared = run("tell(ws.save('a'))", project, tmp_path / "shared")
    assert alone.pop("twins") == 0
    assert shared.pop("twins")  # of the save, and of the look for its status
    assert shared == alone
    assert judge(tmp_path / "shared", project) == []
    for file in rng.sample(sorted(p for p in project.rglob("f*") if p.is_file() and not p.is_symlink()), 20):
        file.write_bytes(rng.randbytes(99))
    again = [
        run("tell(ws.save('b'))", project, tmp_path / name, share_from=n)
        for name, n in (("alone", 10**9), ("shared", 3))
    ]
    assert again[0] | {"twins": 0} == again[1] | {"twins": 0}


def test_a_twin_that_dies_is_not_missed_and_leaves_nothing(project, tmp_path):
    grow(project, random.Random(1))
    alone = run("tell(ws.save('a'))", project, tmp_path / "alone", share_from=10**9)
    body = """
        part = walk.Scanner._part

        def die(self, tasks, numbers):
            part(self, tasks, numbers)  # everything is read, and its pack is written
            os.kill(os.getpid(), signal.SIGKILL)

        walk.Scanner._part = die
        tell(ws.save("a"))
    """
    shared = run(body, project, tmp_path / "shared")
    assert shared.pop("twins")
    assert shared == {key: value for key, value in alone.items() if key != "twins"}
    assert shared["tmp"] == []
    assert judge(tmp_path / "shared", project) == []


def test_an_error_of_ours_ends_the_twin_and_leaves_nothing(project, tmp_path):
    grow(project, random.Random(2))
    body = """
        maker, take = os.getpid(), walk.Scanner._take

        def fail(self, parent, name):
            raise MemoryError

        walk.Scanner._take = fail
        try:
            ws.save("a")
        except mulligan.MulliganError as error:
            assert isinstance(error.__cause__, MemoryError)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                left = os.listdir(os.path.join(sys.argv[2], "tmp"))
                walk.Scanner._take = take
                tell(ws.save("b"))
                assert not left, left
    """
    assert run(body, project, tmp_path / "store")["twins"]


def test_locks_die_with_the_process_that_took_them_not_with_its_twin(project, tmp_path):
    grow(project, random.Random(3))
    body = """
        read, write = os.pipe()
        part = walk.Scanner._part

        def outlive(self, tasks, numbers):
            os.kill(os.getppid(), signal.SIGKILL)
            os.write(write, str(os.getpid()).encode())
            signal.pause()

        if os.fork():
            twin_pid = int(os.read(read, 20))
            os.wait()
            try:
                tell(ws.save("after"))
            finally:
                os.kill(twin_pid, signal.SIGKILL)
        else:
            walk.Scanner._part = outlive
            ws.save("killed")
    """
    assert run(body, project, tmp_path / "store")["status"]
