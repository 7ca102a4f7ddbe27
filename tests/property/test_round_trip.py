"""
Any tree the kernel accepts goes into a checkpoint and comes back the same, and the ids are the ones git computes.

Names are arbitrary bytes; left out are only the names that mean something to git or to mulligan itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mulligan
from checker import judge
from mulligan.scan.secrets import secret_content, secret_name
from tools import git, sweep
from tree import Node, contents, wipe, write_nodes

Tree = dict[str, Node]
SETTINGS = settings(
    max_examples=sweep(20), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def means_something(name: bytes) -> bool:
    """Whether a name is an alias of `.git`, a rule file, or one that the default policy treats by name."""
    text = name.decode("utf-8", "surrogateescape").lower()
    plain = "".join(letter for letter in text if unicodedata.category(letter) != "Cf").rstrip(". ").split(":")[0]
    reserved = (".git", "git~", ".env", ".mulligan", "mulligan.toml", "pyproject.toml", "id_", ".npmrc", ".netrc")
    known = text in {".venv", "venv", "node_modules", "__pycache__"} or bool(secret_name(name))
    return plain.rstrip(". ").startswith(reserved) or known


ordinary = st.text("abcdefgh.-_ ", min_size=1, max_size=6).map(str.encode)
strange = st.binary(min_size=1, max_size=12)
long = st.text("äx😀", min_size=20, max_size=60).map(str.encode)
names = (
    st.one_of(ordinary, strange, long)
    .map(lambda name: name.replace(b"/", b"|").replace(b"\0", b"0")[:255])
    .filter(lambda name: name not in {b".", b".."} and not means_something(name))
)
perms = st.sampled_from([0o644, 0o644, 0o755, 0o600, 0o700, 0o640, 0o664, 0o444, 0o777, 0o555])
# Hypothesis tries the constants that it finds in our source too; what begins like a key store is left out, as it should be.
bodies = st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=4).map(lambda part: part * 3000)).filter(
    lambda body: not secret_content(body[:4096])
)
targets = st.binary(min_size=1, max_size=60).map(lambda target: target.replace(b"\0", b"0"))
files = st.builds(Node, st.just("file"), perms, bodies)
links = st.builds(Node, st.just("link"), st.just(0), targets)
trees = st.recursive(
    st.dictionaries(names, st.one_of(files, links), max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(files, links, inner), max_size=4),
    max_leaves=12,
)


def flatten(tree: dict[bytes, object], above: bytes = b"") -> Iterator[tuple[str, Node]]:
    """The nested dictionary as paths and nodes, directories included."""
    for name, value in tree.items():
        path = above + name
        if isinstance(value, dict):
            yield os.fsdecode(path), Node("dir", 0, b"")
            yield from flatten(value, path + b"/")
        else:
            assert isinstance(value, Node)
            yield os.fsdecode(path), value


@contextmanager
def places() -> Iterator[tuple[Path, Path]]:
    """A project and a store of their own for one example."""
    folder = Path(tempfile.mkdtemp(prefix="round-trip-"))
    (folder / "project").mkdir()
    try:
        yield folder / "project", folder / "store"
    finally:
        shutil.rmtree(folder)


@given(tree=trees)
@SETTINGS
def test_any_tree_comes_back_the_same(tree):
    """Reliability row 52."""
    with places() as (project, store):
        write_nodes(project, dict(flatten(tree)))
        before = contents(project)
        ws = mulligan.open(project, store=store)
        cp = ws.save("one")
        assume(not cp.not_captured)
        assert cp.complete
        wipe(project)
        report = ws.restore(cp)
        assert contents(project) == before
        assert not report.kept
        ws.undo() if before else None
        assert contents(project) == {}
        assert judge(store, project) == []


@given(first=trees, second=trees)
@SETTINGS
def test_any_tree_turns_into_any_other_and_back(first, second):
    """Files become directories, links become files, and a restore knows the way."""
    with places() as (project, store):
        ws = mulligan.open(project, store=store)
        saved = []
        for tree in (first, second):
            wipe(project)
            write_nodes(project, dict(flatten(tree)))
            cp = ws.save()
            assume(not cp.not_captured)
            saved.append((cp, contents(project)))
        for cp, before in saved + saved[:1]:
            ws.restore(cp)
            assert contents(project) == before
            assert ws.diff().patch == ""
        (one, left), (two, right) = saved
        diff = ws.diff(one, two)
        gone = {
            path
            for path, node in left.items()
            if node.kind != "dir" and right.get(path, Node("dir", 0, b"")).kind == "dir"
        }
        new = {
            path
            for path, node in right.items()
            if node.kind != "dir" and left.get(path, Node("dir", 0, b"")).kind == "dir"
        }
        assert set(diff.deleted) | {old for old, _new in diff.renamed} == gone
        assert set(diff.added) | {path for _old, path in diff.renamed} == new
        both = {path for path in left.keys() & right.keys() if left[path] != right[path]} - gone - new
        assert set(diff.modified) == {path for path in both if left[path].kind != "dir"}


@given(tree=trees)
@SETTINGS
def test_the_files_tree_is_the_one_git_writes(tree):
    """Reliability row 54: same tree, same id as `git write-tree`."""
    nodes = dict(flatten(tree))
    full = {path for path, node in nodes.items() if node.kind != "dir"}
    assume(full)
    assume(
        all(any(path.startswith(folder + "/") for path in full) for folder, node in nodes.items() if node.kind == "dir")
    )
    with places() as (project, store):
        write_nodes(project, nodes)
        cp = mulligan.open(project, store=store).save("one")
        assume(not cp.not_captured)
        ours = git(f"--git-dir={store}", "rev-parse", f"{cp.commit}:files").strip()
        scratch = store.parent / "scratch"
        git("init", "-q", "--bare", scratch)
        there = [f"--git-dir={scratch}", f"--work-tree={project}"]
        plain = ["-c", "core.fileMode=true", "-c", "core.autocrlf=false", "-c", "core.symlinks=true"]
        git(*there, *plain, "add", "-A", "-f", ".", cwd=project)
        assert git(*there, "write-tree", cwd=project).strip() == ours
