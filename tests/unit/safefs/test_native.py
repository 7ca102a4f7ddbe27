"""The native look: when it is used, and that no record it is given can make it read where it must not."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faults import Counting
from mulligan.safefs import native, syscalls
from mulligan.safefs.directory import Directory
from sanitizing import sanitized
from scans import Looking
from tools import plain_environment

SOURCE = Path(__file__).parents[3] / "native" / "look.c"
# Reads lines of paths and records in hexadecimal digits, and looks at the directories beneath the current one.
MAIN = rb"""
#include <stdio.h>
#define MOST 4096
int main(void) {
    static const char *paths[MOST];
    static const unsigned char *records[MOST];
    static uint32_t sizes[MOST];
    static unsigned char same[MOST];
    uint32_t count = 0;
    char path[64], text[8192];
    while (count < MOST && scanf("%63s %8191s", path, text) == 2) {
        size_t size = strlen(text) / 2;
        unsigned char *record = malloc(size ? size : 1);
        for (size_t at = 0; at < size; at++)
            sscanf(text + 2 * at, "%2hhx", record + at);
        paths[count] = strdup(path[0] == '.' ? "" : path), records[count] = record, sizes[count++] = (uint32_t)size;
    }
    for (int again = 0; again < 2; again++) {
        mulligan_end(mulligan_begin(open(".", O_RDONLY), count, paths, records, sizes, same, again, 2));
        for (uint32_t at = 0; at < count; at++)
            putchar('0' + same[at]);
        putchar('\n');
    }
    return 0;
}
"""


def saved(project: Path) -> Looking:
    for at in range(5):
        (project / f"d{at % 2}" / "below").mkdir(parents=True, exist_ok=True)
        (project / f"d{at % 2}" / f"file{at}").write_text("1")
        (project / f"file{at}").write_text("1")
    looking = Looking(project)
    looking.look()
    return looking


@pytest.mark.parametrize("kind", ["address,undefined", "thread"])
def test_no_record_makes_it_read_where_it_must_not(project, tmp_path, kind):
    program, cache, rng = (
        sanitized(SOURCE.read_bytes() + MAIN, tmp_path / "look", kind),
        saved(project).cache,
        random.Random(5),
    )
    right = [(path or b".", cache.packed(path)) for path in sorted(cache.paths())]
    bad = [(path, packed[:size]) for path, packed in right for size in range(103, len(packed))]
    for _ in range(1500):
        path, packed = rng.choice(right)
        other = bytearray(packed)
        for _ in range(rng.randrange(1, 4)):
            other[rng.randrange(83, len(other))] = rng.choice([0, 1, 47, 255, rng.randrange(256)])
        bad.append((path, bytes(other)))
    rows = [*right, *(row for row in bad if row[1] and row not in right)]
    given = b"".join(b"%b %b\n" % (path, packed.hex().encode()) for path, packed in rows)
    done = subprocess.run([program], input=given, cwd=project, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    first, _ = done.stdout.split()
    assert first.startswith(b"1" * len(right)) and len(first) == len(rows)


def test_without_a_library_python_looks(project, monkeypatch):
    monkeypatch.setattr(native, "_library", None)
    with Directory.open(project) as root:
        assert native.look(root.fd, [b""], [b""]) is None


def test_calls_that_were_replaced_are_all_made(project, native_look):
    cache = saved(project).cache
    with Directory.open(project) as root:
        assert native.look(root.fd, [b""], [cache.packed(b"")]) is not None
        with syscalls.using(Counting()):
            assert native.look(root.fd, [b""], [cache.packed(b"")]) is None


def test_what_cannot_be_loaded_is_done_without(tmp_path):
    (tmp_path / "look.so").write_bytes(b"no library")
    assert native.load(os.fspath(tmp_path / "look.so")) is None
    assert native.load(os.fspath(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(("said", "used"), [("", True), ("0", False)])
def test_the_environment_switches_it_off(look_library, tmp_path, said, used):
    """The library lies in the package, and is chosen once."""
    package = tmp_path / "mulligan"
    shutil.copytree(Path(native.PATH).parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_native").mkdir(exist_ok=True)
    shutil.copy(look_library, package / "_native" / "look.so")
    program = (
        "from mulligan.safefs import native; import os, sys\n"
        "print(native.look(os.open('.', os.O_RDONLY), [b''], [b'']) is not None, 'ctypes' in sys.modules)"
    )
    env = plain_environment() | {"PYTHONPATH": os.fspath(tmp_path), "MULLIGAN_NATIVE": said}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(used)] * 2
