"""Secrets come back, and are in the plain in no store, output, event or report; one that got in is taken out, provably."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mulligan
from checker import batch_objects, judge
from secret_corpus import key_files, secret_paths, token_files
from tools import cli
from tree import put, snapshot


@pytest.fixture
def secrets(project: Path) -> dict[str, bytes]:
    """Five hundred files that are secret by name or by content, each with bytes of its own: path and those bytes."""
    planted: dict[str, bytes] = {}
    for number, path in enumerate(secret_paths()):
        marker = b"hush-%04d-%08x" % (number, random.Random(number).getrandbits(32))
        put(project, os.fsdecode(path), b"value = " + marker + b"\n")
        planted[os.fsdecode(path)] = marker
    rng = random.Random(7)
    for number, content in enumerate([*key_files(rng), *token_files(rng)]):
        path = f"notes/n{number}.txt"
        put(project, path, content)
        # Short magic numbers are no secrets; of the others the middle is enough to know them by.
        planted[path] = content[len(content) // 2 :][:24] if len(content) > 60 else b""
    for number in range(40):
        put(project, f"src/m{number}.py", f"value = {number}\n" * 20)
    return planted


def streams(raw: bytes) -> Iterator[bytes]:
    """Whatever inflates at any offset that looks like a zlib header."""
    for at in range(len(raw) - 2):
        if raw[at] & 0x0F == 8 and (raw[at] << 8 | raw[at + 1]) % 31 == 0:
            try:
                yield zlib.decompressobj().decompress(raw[at:], 1 << 20)
            except zlib.error:
                continue  # not a zlib stream after all


def everything_in(*tops: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below some directories, as it is."""
    for top in tops:
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield os.fspath(path), path.read_bytes()


def outputs(project: Path, store: Path) -> list[tuple[str, bytes]]:
    """What the commands that show things print."""
    said = []
    for words in (
        ["log", "--json"],
        ["show", "one", "--json"],
        ["show", "one", "-p"],
        ["diff", "--json"],
        ["diff", "one"],
        ["status", "--json"],
        ["show", "nowhere"],
        ["cat", "one:.env"],
        ["cat", "one:.env", "--reveal"],
    ):
        done = cli("--store", store, *words, cwd=project)
        said.append((" ".join(words), (done.stdout + done.stderr).encode("utf-8", "surrogateescape")))
    return said


def test_five_hundred_secrets_are_sealed_and_reach_no_output_and_no_event(project, store, private_home, secrets):
    """Reliability row 37."""
    assert len(secrets) >= 500
    said: list[tuple[str, bytes]] = []
    with mulligan.open(project, store=store) as ws:
        for event in ("saved", "restored", "partial", "pruned", "deleted", "error"):
            ws.on(event, lambda *args, event=event: said.append((event, repr(args).encode("utf-8", "replace"))))
        saved = ws.save("one")
        assert saved is not None and set(secrets) <= {*saved.sealed} and saved.complete
        before = snapshot(project)
        for path in [path for path in secrets if not path.startswith("notes/")][::3]:
            with (project / path).open("ab") as file:
                file.write(b"\nmore\n")
        put(project, "src/m1.py", "changed\n")
        (project / "notes/n0.txt").unlink()
        said += outputs(project, store)
        changed = snapshot(project)
        assert ws.restore("one").complete
        assert texts(snapshot(project)) == texts(before)
        ws.undo()
        assert texts(snapshot(project)) == texts(changed)
        ws.prune()
        assert ws.check().ok
    said += outputs(project, store)
    said += [(name, content) for name, _kind, content in batch_objects(store)]
    said += everything_in(store, private_home)
    said += [
        (where, inflated) for where, raw in everything_in(store) if len(raw) < 1 << 16 for inflated in streams(raw)
    ]
    markers = {marker for marker in secrets.values() if marker}
    assert len(markers) > 450
    found = [(where, marker) for where, text in said for marker in markers if marker in text]
    assert found == []
    assert judge(store, project) == []


def texts(album: dict[str, Any]) -> dict[str, Any]:
    """What a snapshot says of each path, times aside."""
    return {path: (node.kind, node.mode, node.content) for path, node in album.items()}


def test_a_secret_that_was_captured_is_forgotten_in_every_byte(ws, project, store, private_home):
    """Reliability row 39: packs, deltas, timeline, its log, the journal and the caches; everything else is intact."""
    secret = b"correct-horse-battery-staple-" + random.Random(3).randbytes(12).hex().encode()
    lines = [b"line %d of a long enough file" % number for number in range(400)]
    for number in range(12):
        lines[number * 30] = b"changed %d" % number
        put(project, "conf/settings.txt", b"\n".join([*lines[:200], b"key = " + secret, *lines[200:]]))
        put(project, "src/plain.txt", b"\n".join(lines))
        put(project, f"src/f{number}", f"{number}")
        ws.save(f"c{number}")
    ws.restore("c3")
    ws.undo()
    ws.prune()
    held = {cp.id: {path: ws.cat(cp, path) for path in ("src/plain.txt", "src/f0")} for cp in ws.log()}
    assert any(secret in content for _name, _kind, content in batch_objects(store)), "it must be there to be forgotten"
    report = ws.forget("conf/settings.txt")
    assert report.freed_bytes > 0
    for where, raw in everything_in(store, private_home):
        assert secret not in raw, where
        assert not any(secret in inflated for inflated in streams(raw)), where
    assert not any(secret in content for _name, _kind, content in batch_objects(store))
    assert {cp.id: {path: ws.cat(cp, path) for path in held[cp.id]} for cp in ws.log()} == held
    assert secret in (project / "conf/settings.txt").read_bytes(), "the workspace is not touched"
    assert judge(store, project) == []


def refused(project: Path, store: Path, *words: str) -> None:
    """A command that must not work with such a store, says so, and changes nothing."""
    before = snapshot(store) if store.exists() else {}
    done = cli("--store", store, "--json", *words, cwd=project)
    assert done.returncode not in {0, 3}, done.stdout
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"]["message"]
    assert (snapshot(store) if store.exists() else {}) == before


@pytest.mark.parametrize("how", ["foreign", "group", "world", "link"])
def test_a_store_that_somebody_else_could_have_made_is_refused(project, store, tmp_path, how):
    """Reliability row 38."""
    put(project, "a", "1")
    with mulligan.open(project, store=store) as ws:
        ws.save("one")
    if how == "foreign":
        if os.geteuid():
            pytest.skip("only root gives files away")
        os.chown(store, 4242, 4242)
    elif how == "link":
        store.rename(tmp_path / "elsewhere")
        store.symlink_to(tmp_path / "elsewhere")
    else:
        store.chmod(0o770 if how == "group" else 0o707)
    put(project, "a", "2")
    for words in (["save", "two"], ["restore", "one", "-y"], ["log"], ["gc"]):
        refused(project, store, *words)
    assert (project / "a").read_text() == "2"
