"""
A model of the whole engine: a dictionary of paths, a list of checkpoints, a stack of states; and random histories.

After every rule the workspace must be what the model says, bystanders included; at the end every live checkpoint is
read back through the engine and through plain git, and the independent judge looks at the store.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import mulligan
from checker import judge
from mulligan.scan.secrets import secret_content
from tools import git, sweep
from tree import Node, contents, put, snapshot

Tree = dict[str, Node]
NAMES = ["a", "b", "c.txt", "sp ace", "new\nline", "-dash", "ünï😀", "\udcff\udcfe", "d", "e"]
BYSTANDERS = ("ignored/log", "keep.skip", "base/side.skip", ".env")
SKIPPED = {"ignored", "ignored/log", "keep.skip", "base/side.skip", ".env"}

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
sizes = st.sampled_from([0, 0, 0, 500, 80_000])
# Hypothesis tries the constants that it finds in our source too; what begins like a key store is left out, as it should be.
bodies = st.builds(lambda body, more: body + b"line\n" * (more // 5), st.binary(max_size=20), sizes).filter(
    lambda body: not secret_content(body[:4096])
)
perms = st.sampled_from([0o644, 0o755, 0o600, 0o700, 0o640, 0o444])


class Timeline(RuleBasedStateMachine):
    """Random edits, saves, restores, undos, deletes and prunes against the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stateful-"))
        self.project, self.store = self.folder / "project", self.folder / "store"
        put(self.project, ".gitignore", "ignored/\n*.skip\n")
        for path in BYSTANDERS:
            put(self.project, path, "not yours")
        put(self.project, "base/file", "1")
        self.bystanders = {path: snapshot(self.project)[path] for path in BYSTANDERS}
        self.spaces = self.open_spaces()
        self.turn = 0
        self.saved: dict[str, tuple[Any, Tree]] = {}
        # The states that undo walks, the one the workspace came from last, and those that redo goes back to.
        self.back: list[Tree] = []
        self.forward: list[Tree] = []
        self.strict = True
        self.restores = 0

    def open_spaces(self) -> list[Any]:
        """Two workspace objects."""
        return [mulligan.open(self.project, store=self.store) for _ in range(2)]

    @property
    def ws(self) -> Any:
        """One of two workspace objects over the same store, in turns."""
        self.turn += 1
        return self.spaces[self.turn % 2]

    def now(self) -> Tree:
        """What a checkpoint of the workspace would hold."""
        return {path: node for path, node in contents(self.project).items() if path not in SKIPPED}

    def place(self, path: str) -> str:
        """The path on disk."""
        return os.path.join(self.project, path)

    def clear(self, path: str) -> None:
        """Makes room for something at `path`: no file above it, nothing at it."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            above = self.place("/".join(parts[:depth]))
            if os.path.lexists(above) and (os.path.islink(above) or not os.path.isdir(above)):
                os.unlink(above)
        os.makedirs(os.path.dirname(self.place(path)), exist_ok=True)
        if os.path.islink(self.place(path)) or os.path.isfile(self.place(path)):
            os.unlink(self.place(path))
        elif os.path.isdir(self.place(path)):
            shutil.rmtree(self.place(path))

    def chosen(self, number: int) -> tuple[Any, Tree]:
        """Some live checkpoint and its tree; in the order they were made, since ids differ from run to run."""
        return list(self.saved.values())[number % len(self.saved)]

    def one_of(self, number: int, kind: str | None = None) -> str | None:
        """Some path of the workspace, chosen by number."""
        found = sorted(path for path, node in self.now().items() if kind in {None, node.kind} and "/" in f"{path}/")
        found = [path for path in found if path not in {"base", ".gitignore"} and not path.startswith("base/")]
        return found[number % len(found)] if found else None

    # What people and agents do to files

    @rule(path=paths, body=bodies, perm=perms)
    def write(self, path: str, body: bytes, perm: int) -> None:
        self.clear(path)
        Path(self.place(path)).write_bytes(body)
        os.chmod(self.place(path), perm)

    @rule(number=st.integers(0, 99), body=st.binary(max_size=9).map(b"+".__add__))
    def append(self, number: int, body: bytes) -> None:
        if path := self.one_of(number, "file"):
            with open(self.place(path), "ab") as file:
                file.write(body)

    @rule(number=st.integers(0, 99))
    def flip_in_place(self, number: int) -> None:
        """A same-size edit whose mtime is put back."""
        if path := self.one_of(number, "file"):
            before = os.stat(self.place(path))
            body = Path(self.place(path)).read_bytes()
            with open(self.place(path), "r+b") as file:
                file.write(bytes(byte ^ 1 for byte in body[:8]))
            os.utime(self.place(path), ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(number=st.integers(0, 99))
    def remove(self, number: int) -> None:
        if path := self.one_of(number):
            if os.path.isdir(self.place(path)) and not os.path.islink(self.place(path)):
                shutil.rmtree(self.place(path))
            else:
                os.unlink(self.place(path))

    @rule(path=paths)
    def make_directory(self, path: str) -> None:
        self.clear(path)
        os.mkdir(self.place(path))

    @rule(path=paths, to=st.sampled_from(["a", "..", "/etc", "nowhere", "new\nline", "\udcff"]))
    def link(self, path: str, to: str) -> None:
        self.clear(path)
        os.symlink(to, self.place(path))

    @rule(number=st.integers(0, 99), perm=perms)
    def change_mode(self, number: int, perm: int) -> None:
        if path := self.one_of(number, "file"):
            os.chmod(self.place(path), perm)

    @rule(number=st.integers(0, 99), path=paths)
    def rename(self, number: int, path: str) -> None:
        source = self.one_of(number)
        if source and not path.startswith(source + "/") and not source.startswith(path + "/") and source != path:
            parts = path.split("/")
            if any("/".join(parts[:depth]) == source for depth in range(1, len(parts))):
                return
            os.rename(self.place(source), self.folder / "moving")
            self.clear(path)
            os.rename(self.folder / "moving", self.place(path))

    @rule(body=bodies)
    def edit_a_bystander(self, body: bytes) -> None:
        """An ignored file changes: no checkpoint knows it, no restore touches it."""
        put(self.project, "base/side.skip", body)
        self.bystanders["base/side.skip"] = snapshot(self.project)["base/side.skip"]

    # The verbs

    @initialize(delete=st.integers(0, 3))
    def first_save(self, delete: int) -> None:
        self.may_delete = delete == 0
        self.save(None)

    @rule(name=st.sampled_from([None, "n", "m"]))
    def save(self, name: str | None) -> None:
        cp = self.ws.save(name)
        assert cp.complete
        assert {entry.path.rstrip("/") for entry in cp.not_captured} <= SKIPPED
        self.record(cp)

    def record(self, cp: Any) -> None:
        """A save: a state of its own, and the end of redo."""
        self.saved[cp.id] = (cp, self.now())
        self.back.append(self.now())
        self.forward.clear()

    @rule()
    def save_if_changed(self) -> None:
        known = self.at_position()
        cp = self.ws.save(if_changed=True)
        if known is not None:
            assert (cp is None) == (known == self.now())
        if cp is not None:
            self.record(cp)

    def at_position(self) -> Tree | None:
        """The tree of the position, where the model knows it; none after the position itself was deleted."""
        try:
            position = self.ws.get("@")
        except mulligan.UnknownCheckpoint:
            assert self.may_delete
            return None
        return self.saved[position.id][1] if position.id in self.saved else None

    def after_restore(self, before: Tree, expected: Tree, report: Any) -> None:
        """What every restore owes: the target, and a safety checkpoint of what was there."""
        assert self.now() == expected
        assert not report.kept
        changed = {*report.created, *report.modified, *report.deleted}
        differing = {path for path in before.keys() | expected.keys() if before.get(path) != expected.get(path)}
        assert {path for path in differing if "dir" not in self.kinds(path, before, expected)} <= changed
        if before != expected:
            kept = self.ws.get(report.undo)
            for path, node in before.items():
                if node.kind == "file":
                    assert self.ws.cat(kept, path) == node.content

    def kinds(self, path: str, *trees: Tree) -> set[str]:
        """The kinds a path has in some trees."""
        return {tree[path].kind for tree in trees if path in tree}

    def moved(self, before: Tree, after: Tree) -> None:
        """A restore in the model: what was there, then what came."""
        if not self.back or self.back[-1] != before:
            self.back.append(before)
        self.back.append(after)
        self.forward.clear()
        self.restores += 1

    @precondition(lambda self: self.restores < 15)
    @rule(number=st.integers(0, 99))
    def restore(self, number: int) -> None:
        cp, expected = self.chosen(number)
        before = self.now()
        plan = self.ws.plan(cp)
        assert plan.is_noop == (before == expected)
        self.after_restore(before, expected, self.ws.restore(cp))
        assert self.ws.get("@").id == cp.id
        self.moved(before, expected)

    @precondition(lambda self: self.restores < 15)
    @rule(number=st.integers(0, 99), which=st.integers(0, 99))
    def restore_paths(self, number: int, which: int) -> None:
        cp, target = self.chosen(number)
        before = self.now()
        tops = sorted({path.split("/")[0] for path in before.keys() | target.keys()} - {"base"})
        if not tops:
            return
        top = tops[which % len(tops)]
        expected = {path: node for path, node in before.items() if path.split("/")[0] != top}
        expected |= {path: node for path, node in target.items() if path.split("/")[0] == top}
        report = self.ws.restore(cp, paths=[top])
        self.after_restore(before, expected, report)
        self.moved(before, expected)
        # Whether the position moves with a part is the engine's affair; what undo does after further edits follows it.
        self.strict = False

    @precondition(lambda self: self.restores < 15)
    @rule()
    def undo(self) -> None:
        before = self.now()
        stack = list(self.back)
        while stack and stack[-1] == before:
            stack.pop()
        try:
            report = self.ws.undo()
        except mulligan.NothingToUndo:
            assert self.now() == before
            assert not stack or not self.strict
            return
        self.restores += 1
        after = self.now()
        assert after != before
        if self.strict:
            assert stack, "an undo where the model knows no earlier state"
            self.after_restore(before, stack[-1], report)
            self.back = stack
        else:
            self.adopt(before, after)
        self.forward.append(before)

    def adopt(self, before: Tree, after: Tree) -> None:
        """Accepts any earlier state where the contract leaves room, but none that never was."""
        known = [*self.back, *self.forward, *(tree for _cp, tree in self.saved.values())]
        assert after in known, "undo led to a state that never was"
        while self.back and self.back[-1] != after:
            self.back.pop()

    @precondition(lambda self: self.restores < 15)
    @rule()
    def redo(self) -> None:
        before = self.now()
        try:
            report = self.ws.redo()
        except mulligan.NothingToRedo:
            assert self.now() == before
            assert not self.forward or not self.strict or all(tree == before for tree in self.forward)
            return
        self.restores += 1
        assert self.forward
        expected = self.forward.pop()
        while self.forward and expected == before:
            expected = self.forward.pop()
        if self.strict:
            self.after_restore(before, expected, report)
        after = self.now()
        if not self.back or self.back[-1] != before:
            self.back.append(before)
        self.back.append(after)

    @precondition(lambda self: self.may_delete and len(self.saved) > 1)
    @rule(number=st.integers(0, 99))
    def delete(self, number: int) -> None:
        cp, _tree = self.chosen(number)
        self.ws.delete(cp.id)
        del self.saved[cp.id]
        self.strict = False

    @rule()
    def prune(self) -> None:
        assert self.ws.prune() >= 0

    @rule()
    def reopen(self) -> None:
        self.spaces = self.open_spaces()

    # What must hold

    @invariant()
    def bystanders_are_untouched(self) -> None:
        found = snapshot(self.project)
        assert {path: found.get(path) for path in BYSTANDERS} == self.bystanders

    @invariant()
    def the_list_holds_every_checkpoint(self) -> None:
        if self.saved:
            assert {cp.id for cp in self.ws.log() if cp.kind != "safety"} == set(self.saved)

    @rule(number=st.integers(0, 99))
    def read_one_back(self, number: int) -> None:
        cp, tree = self.chosen(number)
        for path, node in tree.items():
            if node.kind == "file":
                assert self.ws.cat(cp.id, path) == node.content
        assert self.ws.get(cp.id).commit == cp.commit

    def in_git(self, commit: str) -> dict[str, tuple[str, bytes]]:
        """A checkpoint as plain git sees it: mode and content of every path."""
        listed = git(f"--git-dir={self.store}", "ls-tree", "-r", "-t", "-z", f"{commit}:files")
        found = {}
        for line in listed.split(b"\0")[:-1]:
            head, path = line.split(b"\t", 1)
            mode, _kind, name = head.decode().split()
            found[os.fsdecode(path)] = (mode, name)
        asked = "".join(f"{name}\n" for mode, name in found.values() if mode != "040000").encode()
        said = git(f"--git-dir={self.store}", "cat-file", "--batch", stdin=asked)
        for path, (mode, _name) in found.items():
            if mode == "040000":
                found[path] = (mode, b"")
                continue
            head, said = said.split(b"\n", 1)
            size = int(head.split()[2])
            found[path], said = (mode, said[:size]), said[size + 1 :]
        return found

    def teardown(self) -> None:
        try:
            for cp, tree in self.saved.values():
                modes = {"dir": lambda _perm: "040000", "link": lambda _perm: "120000"}
                plain = {
                    path: (
                        modes.get(node.kind, lambda perm: "100755" if perm & 0o100 else "100644")(node.perm),
                        node.content,
                    )
                    for path, node in tree.items()
                }
                assert self.in_git(cp.commit) == plain
            assert judge(self.store, self.project) == []
        finally:
            shutil.rmtree(self.folder)


TestTimeline = Timeline.TestCase
TestTimeline.settings = settings(
    max_examples=sweep(12),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


class WatchedTimeline(Timeline):
    """The same with a watcher: one of the two workspace objects looks only where something happened."""

    def open_spaces(self) -> list[Any]:
        spaces = super().open_spaces()
        self.watching = spaces[0].watch()
        return spaces


TestWatchedTimeline = WatchedTimeline.TestCase
TestWatchedTimeline.settings = settings(TestTimeline.settings, max_examples=sweep(8))
