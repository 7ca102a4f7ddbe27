"""
Kills `mulligan` at every system call that changes something, and asks the next command to work without help.

    python tests/crash/kill_sweep.py [--trials N] [--seed N] [--verb save|restore|undo|gc|restore-git|undo-git] [--call NAME ...]

Each trial makes a fresh project and store, runs one command under strace with a SIGKILL injected at the k-th call of one
kind, and then checks: every workspace file is old or new; the next commands work; the whole workspace is old or new after
them; every acknowledged checkpoint is there with its bytes; what was unsaved can be had back; the judge finds nothing.
Where git is moved too: what git says is old or new together with the files, no commit is lost, and no lock is left.
Without `--trials` every (call, k) of every verb is tried. The exit code is 1 if any invariant broke.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import mulligan
from checker import judge
from tools import mulligan_argv, plain_environment
from tree import Node, contents, put
from users_repository import commits, expect_whole, make_dirty, move_on, new_repository, seen

CALLS = [
    "openat",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlinkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "fsync",
    "fdatasync",
    "syncfs",
    "ftruncate",
    "fchmod",
    "fchmodat",
    "utimensat",
    "copy_file_range",
    "sendfile",
    "fallocate",
    "flock",
    "fcntl",
]
VERBS = {
    "save": ["save", "killed"],
    "restore": ["restore", "one", "-y"],
    "undo": ["undo"],
    "gc": ["gc"],
    "restore-git": ["restore", "one", "--git", "-y"],
    "undo-git": ["undo"],
}
Tree = dict[str, Node]


class Scene(NamedTuple):
    """One trial's places, and what must be true of them."""

    project: Path
    store: Path
    old: Tree
    new: Tree
    acknowledged: dict[str, Tree]
    git: tuple[Any, Any, set[bytes]] | None = None


def edit(project: Path, number: int) -> None:
    """A few changes of every kind, different for each number."""
    for index in range(3):
        put(project, f"d{index}/f", f"{number} {index}\n" * 40)
    put(project, "same", "same")
    put(project, f"only{number}/x", str(number))
    for other in range(9):
        if other != number:
            shutil.rmtree(project / f"only{other}", ignore_errors=True)
    swap = project / "swap"
    if swap.is_dir():
        shutil.rmtree(swap)
    swap.unlink(missing_ok=True)
    if number % 2:
        put(project, "swap", "a file")
    else:
        put(project, "swap/inner", "in a directory")


def scene(folder: Path, verb: str) -> Scene:
    """A project with two checkpoints and unsaved edits, ready for one command."""
    project, store = folder / "project", folder / "store"
    project.mkdir()
    ws = mulligan.open(project, store=store)
    saved = {}
    for number, name in ((1, "one"), (2, "two"), (3, "three")):
        edit(project, number)
        saved[ws.save(name).id] = contents(project)
    if verb == "gc":
        gone = ws.get("two").id
        ws.delete("two")
        del saved[gone]
    else:
        edit(project, 4)
        put(project, "unsaved/work", "mine")
    old = contents(project)
    target = {"restore": ws.get("one").id, "undo": ws.get("three").id}.get(verb)
    return Scene(project, store, old, saved[target] if target else old, saved)


def scene_with_git(folder: Path, verb: str) -> Scene:
    """A repository that an agent moved on in, and unsaved edits; for undo, after all of that was rolled back."""
    project, store = folder / "project", folder / "store"
    new_repository(project)
    make_dirty(project)
    ws = mulligan.open(project, store=store)
    saved = {ws.save("one", git=True).id: contents(project)}
    then = seen(project)
    move_on(project)
    put(project, "unsaved/work", "mine")
    later, files, made = seen(project), contents(project), commits(project)
    branches = "for-each-ref", "refs/heads", "refs/tags", "refs/stash"
    if verb == "undo-git":
        ws.restore("one", git=True)
        return Scene(project, store, contents(project), files, saved, (seen(project), later, made))
    agent = [line for line in later[branches].splitlines(keepends=True) if line.endswith(b"/agent\n")]
    then[branches] = b"".join(
        sorted([*agent, *then[branches].splitlines(keepends=True)], key=lambda line: line.split()[2])
    )
    return Scene(project, store, files, saved[ws.get("one").id], saved, (later, then, made))


def broken_git(scene: Scene, *, new: bool) -> Iterator[str]:
    """Whatever is not as it must be in the user's repository, given which way the files went."""
    if scene.git is None:
        return
    old, moved, made = scene.git
    now, wanted = seen(scene.project), moved if new else old
    differing = [words for words in wanted if now[words] != wanted[words]]
    if differing:
        yield f"files are {'new' if new else 'old'}, git is not: {differing}"
    if not made <= commits(scene.project):
        yield "a commit is not reachable any more"
    try:
        expect_whole(scene.project)
    except AssertionError as error:
        yield f"git: {error}"


def traced(scene: Scene, verb: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the command of a verb under strace."""
    command = mulligan_argv("--json", "--store", scene.store, *VERBS[verb])
    return subprocess.run(
        ["strace", "-f", "-qq", *options, *command],
        cwd=scene.project,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


def points(folder: Path, verb: str) -> list[tuple[str, int]]:
    """Every (call, k) of a verb from the moment it first names its store on."""
    folder.mkdir()
    here, log = (scene_with_git if verb.endswith("-git") else scene)(folder, verb), folder / "trace"
    done = traced(here, verb, "-e", "trace=" + ",".join(f"?{call}" for call in CALLS), "-o", os.fspath(log))
    assert done.returncode == 0, done.stderr.decode()
    seen: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    reached: dict[str, int] = {}
    started = False
    for line in log.read_text(errors="replace").splitlines():
        pid, rest = line.split(None, 1)
        call = rest.split("(", 1)[0]
        if call not in CALLS:
            continue
        seen[pid][call] += 1
        started = started or os.fspath(here.store) in rest
        if started:
            reached.setdefault(call, seen[pid][call])
    most = {call: max(counts[call] for counts in seen.values()) for call in reached}
    return [(call, k) for call in reached for k in range(min(reached[call], most[call]), most[call] + 1)]


def broken(scene: Scene, verb: str, killed: bool, said: bytes) -> Iterator[str]:
    """Whatever is not as it must be after the command was killed, or came through."""
    between = contents(scene.project)
    for path, node in between.items():
        ours = Path(path).name.startswith(".mulligan-")
        if node.kind == "file" and not ours and node not in {scene.old.get(path), scene.new.get(path)}:
            yield f"{path} is neither old nor new right after the kill"
    ws = mulligan.open(scene.project, store=scene.store)
    found = {cp.id for cp in ws.log()}
    if not scene.acknowledged.keys() <= found:
        yield "an acknowledged checkpoint is missing"
    after = ws.save("after")
    now = contents(scene.project)
    if now not in (scene.old, scene.new):
        changed = [path for path in now.keys() | scene.old.keys() if now.get(path) != scene.old.get(path)]
        yield f"the workspace is neither old nor new after the next command; not old: {sorted(changed)}"
    yield from broken_git(scene, new=now == scene.new)
    if not killed and now != scene.new:
        yield "acknowledged, but the workspace is not new"
    if not killed and verb == "save" and json.loads(said)["checkpoint"]["id"] not in {cp.id for cp in ws.log()}:
        yield "the save was acknowledged and is not there"
    for cp in [*ws.log(), after]:
        yield from unreadable(ws, cp, scene.acknowledged.get(cp.id) or (scene.old if cp.name == "killed" else None))
    if now == scene.new != scene.old and not any(holds(ws, cp, scene.old) for cp in ws.log()):
        yield "what was unsaved before the command is in no checkpoint"
    ws.restore(next(iter(scene.acknowledged)))
    if contents(scene.project) != scene.acknowledged[next(iter(scene.acknowledged))]:
        yield "a restore after the kill is not exact"
    if not ws.check().ok:
        yield f"check: {ws.check().problems}"
    yield from judge(scene.store, scene.project)


def holds(ws: Any, cp: Any, tree: Tree) -> bool:
    """Whether a checkpoint has every file of a tree."""
    return not list(unreadable(ws, cp, tree))


def unreadable(ws: Any, cp: Any, tree: Tree | None) -> Iterator[str]:
    """Files of a checkpoint that do not have the bytes they should."""
    for path, node in (tree or {}).items():
        if node.kind == "file":
            try:
                same = ws.cat(cp, path) == node.content
            except mulligan.MulliganError as error:
                yield f"{cp.name}: {path}: {error}"
                continue
            if not same:
                yield f"{cp.name}: {path} has other bytes"


def trial(folder: Path, verb: str, call: str, k: int) -> tuple[bool, list[str]]:
    """One kill: whether it hit, and what broke."""
    folder.mkdir()
    here = (scene_with_git if verb.endswith("-git") else scene)(folder, verb)
    done = traced(here, verb, "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={k}")
    killed = done.returncode in {-9, 137}
    if not killed and done.returncode != 0:
        return killed, [f"exit {done.returncode}: {done.stderr.decode(errors='replace')}"]
    try:
        return killed, list(broken(here, verb, killed, done.stdout))
    except mulligan.MulliganError as error:
        return killed, [f"the next command failed: {type(error).__name__}: {error}"]


def spread(chosen: list[tuple[str, int]], rng: random.Random) -> list[tuple[str, int]]:
    """All points in an order that visits every kind of call early, since the rare ones are the telling ones."""
    shuffled = rng.sample(chosen, len(chosen))
    turn: collections.Counter[str] = collections.Counter()
    ranked = []
    for call, k in shuffled:
        turn[call] += 1
        ranked.append((turn[call], call, k))
    return [(call, k) for _turn, call, k in sorted(ranked, key=lambda rank: rank[0])]


def main() -> int:
    """Runs the sweep and prints one line per verb, and one per violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=0, help="kills per verb, spread at random; 0 for every one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verb", choices=VERBS, action="append")
    parser.add_argument("--call", choices=CALLS, action="append", help="kill at these calls only")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="kill-sweep-") as base:
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = base
        for verb in options.verb or VERBS:
            began = time.monotonic()
            chosen = [
                point for point in points(Path(base, f"{verb}-count"), verb) if point[0] in (options.call or CALLS)
            ]
            total, hits = len(chosen), 0
            if options.trials:
                chosen = spread(chosen, random.Random(options.seed))[: options.trials]
            for call, k in chosen:
                folder = Path(base, "trial")
                hit, wrong = trial(folder, verb, call, k)
                hits += hit
                failures += bool(wrong)
                for line in wrong:
                    print(f"BROKEN {verb} {call} {k}: {line}", flush=True)
                shutil.rmtree(folder)
            took = time.monotonic() - began
            print(f"{verb}: {total} points, {len(chosen)} tried, {hits} killed, {took:.0f} s", flush=True)
    print(f"{failures} trials broke an invariant")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
