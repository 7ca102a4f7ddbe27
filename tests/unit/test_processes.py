"""Several processes over one store: one writer at a time, a bounded wait, readers never in line, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mulligan
from checker import judge
from tools import cli, cli_json, plain_environment, sweep
from tree import put


def start(script: str, *args: str | Path) -> subprocess.Popen[str]:
    """Starts a Python process with the package on its path."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=plain_environment())


def freeze_in_save(project: Path, store: Path) -> subprocess.Popen[str]:
    """A process stopped in the middle of a save, while it holds the store."""
    script = """
        import sys, mulligan
        ws = mulligan.open(sys.argv[1], store=sys.argv[2])
        print("ready", flush=True)
        ws.save("frozen")
    """
    content = os.urandom(3_000_000)
    for number in range(12):
        put(project, f"bulk{number}", content[number:])
    child = start(script, project, store)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def stop_when_it_holds(child: subprocess.Popen[str], store: Path) -> bool:
    """Stops the child as soon as it has a lock on a file of the store; whether that was in time."""
    inodes: set[int] = set()
    while child.poll() is None:
        if store.exists():
            inodes = {path.stat().st_ino for path in store.iterdir() if path.is_file() and path.suffix != ".db"}
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and fields[4] == str(child.pid) and int(fields[5].split(":")[2]) in inodes:
                child.send_signal(signal.SIGSTOP)
                return True
            if "OFDLCK" in fields and int(fields[5].split(":")[2]) in inodes:
                child.send_signal(signal.SIGSTOP)
                return True
    return False


@pytest.fixture
def frozen(project, store):
    """A stopped process that holds the store, ended and reaped afterwards."""
    put(project, "a", "1")
    mulligan.open(project, store=store).save("before")
    child = freeze_in_save(project, store)
    held = stop_when_it_holds(child, store)
    yield child if held else None
    child.kill()
    child.communicate()


def test_a_second_writer_waits_then_is_told_who_holds_the_store(project, store, frozen):
    if frozen is None:
        pytest.skip("the save was over before it could be stopped, or the lock is of a kind not listed in /proc/locks")
    with pytest.raises(mulligan.Busy) as caught:
        mulligan.open(project, store=store).save("second")
    assert str(frozen.pid) in str(caught.value)
    assert cli("--store", store, "save", "third", cwd=project).returncode == 11


def test_readers_never_wait(project, store, frozen):
    if frozen is None:
        pytest.skip("the save was over before it could be stopped, or the lock is of a kind not listed in /proc/locks")
    ws = mulligan.open(project, store=store)
    assert [cp.name for cp in ws.log()] == ["before"]
    assert ws.cat("before", "a") == b"1"
    assert ws.get("latest").name == "before"
    assert [cp["name"] for cp in cli_json("--store", store, "log", cwd=project)["checkpoints"]] == ["before"]


def test_a_killed_writer_leaves_no_lock_and_no_half_checkpoint(project, store, frozen):
    if frozen is None:
        pytest.skip("the save was over before it could be stopped, or the lock is of a kind not listed in /proc/locks")
    frozen.kill()
    frozen.wait()
    ws = mulligan.open(project, store=store)
    assert ws.save("after") is not None
    assert [cp.name for cp in ws.log()] == ["after", "before"]
    assert judge(store, project) == []


SAVER = """
    import sys, mulligan
    ws = mulligan.open(sys.argv[1], store=sys.argv[2])
    sys.stdin.readline()
    for number in range(int(sys.argv[4])):
        while True:
            try:
                print(ws.save(f"{sys.argv[3]}-{number}").id, flush=True)
                break
            except mulligan.Busy:
                continue
"""


def test_many_processes_saving_at_once_lose_nothing(project, store):
    put(project, "a", "1")
    rounds = sweep(5)
    children = [start(SAVER, project, store, f"p{number}", str(rounds)) for number in range(4)]
    printed = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        printed += child.communicate(timeout=120)[0].split()
        assert child.returncode == 0
    ws = mulligan.open(project, store=store)
    logged = ws.log()
    assert len(printed) == len(set(printed)) == 4 * rounds
    assert {cp.id for cp in logged} == set(printed)
    assert len({cp.name for cp in logged}) == 4 * rounds
    assert judge(store, project) == []


def test_the_first_save_of_two_processes_makes_one_store(project, store):
    put(project, "a", "1")
    children = [start(SAVER, project, store, f"p{number}", "1") for number in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    ids = [child.communicate(timeout=60)[0].strip() for child in children]
    assert all(child.returncode == 0 for child in children)
    assert {cp.id for cp in mulligan.open(project, store=store).log()} == set(ids)
    assert judge(store, project) == []


def test_saves_while_another_process_writes_hold_only_states_that_existed(project, store):
    writer = """
        import os, sys
        names = [os.path.join(sys.argv[1], f"f{n}") for n in range(20)]
        print("go", flush=True)
        number = 0
        while True:
            number += 1
            for name in names:
                with open(name + ".new", "wb") as file:
                    file.write(b"%08d" % number * 2000)
                os.replace(name + ".new", name)
    """
    put(project, ".gitignore", "*.new\n")
    ws = mulligan.open(project, store=store)
    child = start(writer, project)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        for number in range(sweep(5)):
            cp = ws.save(f"n{number}")
            torn = {entry.path for entry in cp.not_captured if entry.reason == "moving"}
            for index in range(20):
                if f"f{index}" in torn:
                    continue
                try:
                    content = ws.cat(cp, f"f{index}")
                except KeyError:
                    continue
                assert len(content) == 16000
                assert content == content[:8] * 2000, "a torn file was stored as if it had existed"
    finally:
        child.kill()
        child.communicate()
    assert judge(store, project) == []


def test_what_another_process_removed_is_not_relied_on_even_within_one_tick_of_the_clock(
    project, tmp_path, monkeypatch
):
    """Each writer lists the packs, so that no clock has to tell whether they are what they were."""
    from mulligan.store.objects import ObjectStore

    # As if the directory of packs showed no change.
    monkeypatch.setattr(ObjectStore, "_stamp", lambda _: (1, 1, 1))
    store = tmp_path / "store"
    with mulligan.open(project, store=store) as one, mulligan.open(project, store=store) as other:
        put(project, "a", b"kept")
        one.save()
        put(project, "a", b"gone, and back again")
        gone = one.save()
        put(project, "a", b"kept")
        one.save()
        other.delete(gone)
        other.prune()
        put(project, "a", b"gone, and back again")
        assert one.cat(one.save(), "a") == b"gone, and back again"
    assert judge(store) == []
