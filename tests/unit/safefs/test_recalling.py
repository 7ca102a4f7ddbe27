"""The log, read and looked at by the compiled part: whatever stands in it, nothing is touched that is not its own."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from mulligan.safefs import compiled
from mulligan.safefs.directory import Directory
from mulligan.scan.cache import Cache
from random_trees import plant
from sanitizing import sanitized
from scans import Looking

# Asks for all there is of each log it is given, one after the other, of one root.
ASKING = rb"""
#include <stdio.h>
int main(int count, char **given) {
    int root = open(given[1], O_RDONLY | O_DIRECTORY);
    for (int at = 2; at < count; at++) {
        int log = open(given[at], O_RDONLY);
        uint64_t told[5], row[5], files = 0;
        void *self = mulligan_recall(log, root, at & 1);
        close(log);
        if (at % 5 == 0) { /* nobody asks */
            mulligan_recall_free(self);
            continue;
        }
        int good = mulligan_recalled(self, told);
        mulligan_recall_end(self, at & 2);
        uint32_t all = good ? (uint32_t)told[1] : 0;
        for (uint32_t each = 0; each <= all; each++) {
            mulligan_recall_at(self, each, row);
            if (row[0] && mulligan_recall_find(self, (const char *)(uintptr_t)row[0], (uint32_t)row[1]) != (int64_t)each)
                return 2;
            files += row[4] ? mulligan_recall_files(self, each, (uint32_t)row[4]) : 0;
            mulligan_recall_missing(self, each, all);
        }
        mulligan_recall_again(self, 1);
        mulligan_recall_moved(self, 0, all);
        mulligan_recall_stop(self);
        mulligan_recall_free(self);
        printf("%d %u\n", good, all);
    }
    return 0;
}
"""


def framed(path: bytes, record: bytes) -> bytes:
    """One frame as the log has it, with a checksum that is right."""
    body = path + record
    return struct.pack("<IIII", len(path), len(record), zlib.crc32(body), 0) + body


def hostile(rng: random.Random, looking: Looking) -> bytes:
    """A log whose checksums are right, and whose records and paths are not."""
    frames = [b"mulligan-cache-4\n"]
    records = list(looking.cache._packed.items())
    for path, record in records * 2:
        bad, where = bytearray(record), path
        kind = rng.randrange(8)
        if kind == 0:
            bad = bad[: rng.randrange(len(bad))]
        elif kind == 1:
            for _ in range(rng.randrange(1, 4)):
                bad[rng.choice([*range(24, 40), *range(80, 103)])] = rng.randrange(256)
        elif kind == 2:
            where = rng.choice([b"..", b"/", b"//", b"a//b", b"x" * 5000, b"a/" * 90, b".", b"\xff"]) + path
        elif kind == 3:
            bad = bytearray(b"\0")
        frames.append(framed(where, bytes(bad)))
    if rng.random() < 0.2:
        frames.append(framed(b"a\0b", b"record"))
    frames.append(framed(b"\0root", rng.randbytes(rng.randrange(40))))
    data = b"".join(frames)
    return data if rng.random() < 0.7 else data[: rng.randrange(len(data))]


def test_sanitizers_find_nothing_whatever_the_log_says(project, tmp_path):
    program = sanitized(ASKING, tmp_path / "asking")
    rng, logs = random.Random(11), []
    plant(rng, project)
    looking = Looking(project)
    looking.look()
    for at in range(120):
        logs.append(str(tmp_path / f"log{at}"))
        Path(logs[-1]).write_bytes(hostile(rng, looking))
    done = subprocess.run([program, str(project), *logs], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {line[0] for line in done.stdout.split("\n") if line} == {"0", "1"}


@pytest.mark.parametrize("content", [b"", b"mulligan-cache-3\n", b"mulligan-cache-4", None])
def test_what_is_no_log_is_left_to_python(library, tmp_path, content):
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    os.write(log, content if content is not None else b"mulligan-cache-4\n" + framed(b"a\0b", b"record"))
    with Directory.open(tmp_path) as root:
        recall = compiled.recall(library, log, root.fd)
        os.close(log)
        assert recall.told() is None
        assert recall.find(b"") == -1 and recall.record(0) == b""
        recall.end(index_changed=False)


def test_an_empty_log_is_a_log(library, tmp_path):
    (tmp_path / "tmp").mkdir()
    with Directory.open(tmp_path) as root:
        cache = Cache()
        cache.root_tree, cache.note = b"t" * 20, b"{}"
        cache.save(root, [])
        with root.reading(b"cache") as log:
            recall = compiled.recall(library, log, root.fd)
        told = recall.told()
        assert (told.directories, told.live, told.note) == (0, 0, b"t" * 20 + b"{}")
        assert told.whole == os.path.getsize(tmp_path / "cache")
