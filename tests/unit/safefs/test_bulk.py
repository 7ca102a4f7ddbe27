"""What the compiled part reads, hashes, deflates and leaves alone, against the Python that it stands in for."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.cli.commands.compile import build
from mulligan.model.objects import BLOB, object_id
from mulligan.safefs import bulk, compiled
from mulligan.safefs.directory import Directory
from mulligan.safefs.stillness import stamping_clock
from mulligan.scan.reading import fields
from mulligan.scan.record import STAT, Stat
from mulligan.scan.secrets import secret_content
from sanitizing import STRICT, sanitized
from secret_corpus import key_files, plain_contents, token_files

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

WINDOW = 32768
# What the compiled part keeps to itself, for tests alone.
EXPORTS = b"""
size_t test_most(size_t size) { return DEFLATE_MOST(size); }
size_t test_deflate(const unsigned char *from, size_t size, unsigned char *to) {
    static struct deflater self;
    return deflate(&self, from, size, to);
}
void test_sha1(const char *header, size_t header_size, const unsigned char *data, size_t size, unsigned char *to, int quick) {
    sha1_of((const unsigned char *)header, header_size, data, size, to, quick);
}
#if HAS_SHA_NI
int test_has_quick(void) { return has_sha_ni(); }
#else
int test_has_quick(void) { return 0; }
#endif
uint32_t test_crc(const unsigned char *data, size_t size) { return crc32_of(data, size); }
int test_secret(const unsigned char *data, size_t size) { return may_be_secret(data, size); }
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The pieces, each by itself."""
    place = tmp_path_factory.mktemp("parts") / "parts.so"
    source = compiled.source() + EXPORTS
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *STRICT, "-o", place], input=source, check=True)
    found = ctypes.CDLL(str(place))
    size, data = ctypes.c_size_t, ctypes.c_char_p
    found.test_most.argtypes, found.test_most.restype = (size,), size
    found.test_deflate.argtypes, found.test_deflate.restype = (data, size, data), size
    found.test_sha1.argtypes, found.test_sha1.restype = (data, size, data, size, data, ctypes.c_int), None
    found.test_crc.argtypes, found.test_crc.restype = (data, size), ctypes.c_uint32
    found.test_secret.argtypes = (data, size)
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> compiled.Library:
    """The compiled part as it is used."""
    place = str(tmp_path_factory.mktemp("state") / "compiled")
    build(place, "cc")
    found = compiled.load(place)
    assert found is not None
    return found


def deflated(parts, data: bytes) -> bytes:
    """A zlib stream, which must not be longer than was promised, nor spoil what lies behind its room."""
    most = parts.test_most(len(data))
    room = ctypes.create_string_buffer(b"\xa5" * (most + 64), most + 64)
    length = parts.test_deflate(data, len(data), room)
    assert length <= most and room.raw[most:] == b"\xa5" * 64
    return room.raw[:length]


def inputs():
    """Bytes of the kinds that a deflate may stumble over."""
    text = st.text(st.sampled_from("abcdefgh \n(){}=_.,:"), max_size=3000).map(str.encode)
    runs = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 900)), max_size=12)
    repeated = runs.map(lambda rows: b"".join(piece * times for piece, times in rows)[:1_000_000])
    far = st.tuples(st.integers(0, 2**32), st.sampled_from([WINDOW - 9, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 300]))
    echoes = far.map(lambda row: _echo(*row))
    skewed = st.tuples(st.integers(0, 2**32), st.integers(0, 70_000)).map(lambda row: _skewed(*row))
    return st.one_of(st.binary(max_size=4000), text, repeated, echoes, skewed)


def _echo(seed: int, distance: int) -> bytes:
    piece = random.Random(seed).randbytes(distance)
    return piece + piece[: 400 + seed % 300]


def _skewed(seed: int, size: int) -> bytes:
    """Bytes whose frequencies are Fibonacci's, which asks for codes longer than there may be."""
    weights = [1.6**-at for at in range(60)]
    return bytes(random.Random(seed).choices(range(60), weights, k=size))


@settings(max_examples=300, deadline=None)
@given(data=inputs())
def test_zlib_inflates_whatever_was_deflated(parts, data):
    assert zlib.decompress(deflated(parts, data)) == data


@pytest.mark.parametrize(
    "size", [0, 1, 2, 3, 4, 7, 8, 9, 257, 258, 259, 511, 512, 513, 16384, 16385, 65535, 65536, 262144]
)
def test_every_size_comes_back_however_it_is_filled(parts, size):
    noise = random.Random(size).randbytes(size)
    words = b" ".join(random.Random(size).choices([b"def", b"return", b"self", b"x" * 30, b"\n"], k=size // 2 + 1))
    for data in (bytes(size), noise, words[:size], (noise[:100] * (size // 100 + 1))[:size], noise[: size // 2] * 2):
        assert zlib.decompress(deflated(parts, data)) == data


def test_text_shrinks_and_noise_hardly_grows(parts):
    source = Path(__file__).read_bytes()
    assert len(deflated(parts, source)) < len(source) * 0.5
    noise = random.Random(1).randbytes(200_000)
    assert len(deflated(parts, noise)) < len(noise) + 200


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=1000), header=st.binary(max_size=40))
def test_both_ways_to_hash_give_what_hashlib_gives(parts, data, header):
    for quick in range(1 + parts.test_has_quick()):
        digest = ctypes.create_string_buffer(20)
        parts.test_sha1(header, len(header), data, len(data), digest, quick)
        assert digest.raw == hashlib.sha1(header + data, usedforsecurity=False).digest()


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=500))
def test_the_checksum_of_a_record_is_that_of_zlib(parts, data):
    assert parts.test_crc(data, len(data)) == zlib.crc32(data)


def heads():
    """Beginnings of files, most of them near to what a secret looks like."""
    tokens = st.sampled_from([
        b"ghp_" + b"a" * 36, b"xoxb-1234567890", b"sk_live_" + b"1" * 16, b"AIza" + b"b" * 35, b"eyJ" + b"a" * 12,
    ])  # fmt: skip
    openings = st.sampled_from([
        b"-----BEGIN RSA PRIVATE KEY-----", b"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", b"PuTTY-User-Key-File-2",
        b"SSH PRIVATE KEY FILE FORMAT", b"\xfe\xed\xfe\xed\0\0\0\2", b"\xce\xce\xce\xce\0\0\0", b"\x03\xd9\xa2\x9a",
        b"Access key ID,Secret access key", b"AWSAccessKeyId=", b"\xff\xfe", b"\xfe\xff", b"Bag Attributes", b"\xef\xbb\xbf",
        b'{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY', b"# a comment\n", b"\n", b" ", b"x",
    ])  # fmt: skip
    blank = st.sampled_from([b"", b"\n", b"export TOKEN=", b" ", b"//", b"\r\n\r\n", b"a\n" * 5])
    whole = st.lists(st.one_of(tokens, openings, blank, st.binary(max_size=60)), max_size=6).map(b"".join)
    wide = whole.map(lambda data: data.decode("latin-1").encode("utf-16"))
    return st.one_of(whole, wide, st.tuples(whole, st.integers(0, 5000)).map(lambda row: row[0] + b"x" * row[1]))


@settings(max_examples=2000, deadline=None)
@given(data=heads())
def test_whatever_is_a_secret_is_left_to_python(parts, data):
    if secret_content(data[:4096]):
        assert parts.test_secret(data, len(data))


def test_the_secrets_of_the_corpus_are_left_to_python(parts):
    rng = random.Random(5)
    for piece in (*key_files(rng), *token_files(rng), *plain_contents(rng)):
        for data in (piece, piece.decode("latin-1").encode("utf-16"), piece + b"\n" * 3000):
            assert parts.test_secret(data, len(data)) or not secret_content(data[:4096]), data


# -- files ------------------------------------------------------------------------------------------


def read(
    library: compiled.Library, place: Path, names: list[str], *, hash_only: bool = False, since: int | None = None
):
    """What is read of some files, as a dictionary; files of which stat fields were looked at before."""
    with Directory.open(place) as directory:
        encoded = [os.fsencode(name) for name in names]
        stats = [STAT.pack(*fields(directory.stat(name))) for name in encoded]
        reader = bulk.Reader(library, hash_only=hash_only)
        clock = since if since is not None else stamping_clock() + 10**9
        return dict(zip(names, reader.read(directory.fd, encoded, stats, clock), strict=True))


def inflated(record: bytes) -> bytes:
    """The bytes of a blob's record, whose header says how many they are."""
    at, size, shift = 1, record[0] & 15, 4
    assert record[0] >> 4 & 7 == 3
    while record[at - 1] & 0x80:
        size |= (record[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    data = zlib.decompress(record[at:])
    assert len(data) == size
    return data


def test_a_file_is_read_hashed_and_packed(library, tmp_path):
    contents = {
        f"f{size}": random.Random(size).randbytes(size // 2) + b"ab" * (size // 4)
        for size in (0, 1, 15, 16, 5000, 250_000)
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    for name, taken in read(library, tmp_path, list(contents)).items():
        if taken is None:  # few lines: Python must see whether they are a token
            assert 20 <= len(contents[name]) <= 2048
            continue
        oid, record, crc, stat = taken
        assert oid == object_id(BLOB, contents[name]) and inflated(record) == contents[name]
        assert crc == zlib.crc32(record)
        assert stat == STAT.pack(*fields((tmp_path / name).stat()))


def test_where_only_ids_are_wanted_nothing_is_packed(library, tmp_path):
    (tmp_path / "f").write_bytes(b"line\n" * 100)
    taken = read(library, tmp_path, ["f"], hash_only=True)["f"]
    assert taken is not None and taken[:2] == (object_id(BLOB, b"line\n" * 100), b"")


def test_what_is_not_plain_is_left_alone(library, tmp_path):
    (tmp_path / "large").write_bytes(b"x\n" * 200_000)
    (tmp_path / "key").write_bytes(b"-----BEGIN RSA PRIVATE KEY-----\n" + b"abc\n" * 100)
    (tmp_path / "link").symlink_to("large")
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names = ["large", "key", "link", "below", "pipe"]
    assert set(read(library, tmp_path, names).values()) == {None}


def test_a_file_that_changed_since_it_was_looked_at_is_left_alone(library, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"before\n" * 20)
    with Directory.open(tmp_path) as directory:
        stats = [STAT.pack(*fields(directory.stat(b"f")))]
        path.write_bytes(b"after!\n" * 20)
        os.utime(path, ns=(1, 1))
        reader = bulk.Reader(library, hash_only=False)
        assert reader.read(directory.fd, [b"f"], stats, stamping_clock() + 10**9) == [None]
        path.unlink()
        assert reader.read(directory.fd, [b"f"], stats, stamping_clock() + 10**9) == [None]


def test_a_file_of_the_present_tick_is_left_to_python(library, tmp_path):
    (tmp_path / "f").write_bytes(b"line\n" * 100)
    changed = (tmp_path / "f").stat().st_ctime_ns
    assert read(library, tmp_path, ["f"], since=changed)["f"] is None
    assert read(library, tmp_path, ["f"], since=changed + 1)["f"] is not None


def test_what_was_read_ahead_is_what_stands_there(library, tmp_path):
    wanted: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for at in range(60):
        place = tmp_path / "a" / f"b{at % 7}" / f"c{at}"
        place.mkdir(parents=True)
        names = [f"f{each}" for each in range(at % 5 + 1)]
        for name in names:
            (place / name).write_text(f"{at} {name}\n" * (at + 8))
        wanted[os.fsencode(place.relative_to(tmp_path))] = (
            [*map(os.fsencode, names), b"missing"],
            [b"another", b"f0", b"third"],
        )
    (tmp_path / "a/link").symlink_to("b1")
    wanted[b"a/link/c1"] = wanted[b"a/none"] = ([b"f0"], [b"another"])
    with Directory.open(tmp_path) as root:
        ahead = bulk.Ahead(library, root.fd, dict(sorted(wanted.items())), stamping_clock() + 10**9, hash_only=False)
        for path in sorted(wanted, key=lambda path: random.Random(path).random()):
            own, (found, absent) = ahead.own(path), ahead.take(path)
            if path in {b"a/link/c1", b"a/none"}:
                assert found == {} and not absent and not any(own)
                continue
            assert absent == {b"another", b"third"}
            now = os.stat(tmp_path / os.fsdecode(path))
            assert Stat(*STAT.unpack(own)) == fields(now)
            assert set(found) == set(wanted[path][0]) - {b"missing"}
            for name, taken in zip(found, ahead.finished(found.values()), strict=True):
                data = (tmp_path / os.fsdecode(path) / os.fsdecode(name)).read_bytes()
                assert taken[0] == object_id(BLOB, data) and inflated(taken[1]) == data
            assert ahead.take(path) == ({}, set())
        ahead.close()
        ahead.close()


def test_it_may_be_ended_before_anything_was_taken(library, tmp_path):
    for at in range(200):
        (tmp_path / f"f{at}").write_bytes(b"line\n" * 1000)
    with Directory.open(tmp_path) as root:
        bulk.Ahead(
            library, root.fd, {b"": ([b"f%d" % at for at in range(200)], [])}, stamping_clock(), hash_only=True
        ).close()


# -- the C itself -----------------------------------------------------------------------------------

FUZZ = rb"""
#include <stdio.h>
int main(int count, char **given) {
    unsigned char *in = malloc(300000), *out = malloc(DEFLATE_MOST(300000));
    uint32_t seed = 1;
    struct deflater *self = malloc(sizeof *self);
    for (int round = 0; round < 600; round++) {
        size_t size = round < 300 ? (size_t)round * 3 : (seed >> 3) % 120000;
        unsigned char *exact = malloc(size + 1);
        for (size_t at = 0; at < size; at++) {
            seed = seed * 1103515245 + 12345;
            exact[at] = (unsigned char)(round % 4 == 0   ? seed >> 16
                                        : round % 4 == 1 ? (seed >> 16) & 3
                                        : round % 4 == 2 ? (at > 70 ? exact[at - 1 - (seed >> 20) % 70] : 7u)
                                                         : (unsigned char)"return self.x;\n"[at % 15]);
        }
        unsigned char *room = malloc(DEFLATE_MOST(size)), digest[20];
        deflate(self, exact, size, room);
        sha1_of((const unsigned char *)"blob", 5, exact, size, digest, 0);
        may_be_secret(exact, size);
        crc32_of(exact, size);
        free(room);
        free(exact);
    }
    for (int at = 1; at + 1 < count; at += 2) { /* directory, names */
        int fd = open(given[at], O_RDONLY | O_DIRECTORY);
        const char *paths[] = {""}, *names[] = {given[at + 1]};
        uint32_t first[] = {0, 1};
        struct row row;
        struct reader *reader = mulligan_reader(0);
        struct stat st;
        memset(&row, 0, sizeof row);
        unsigned char wanted[STAT_SIZE] = {0}, own[STAT_SIZE];
        if (!fstatat(fd, given[at + 1], &st, AT_SYMLINK_NOFOLLOW))
            put_stat(wanted, &st);
        mulligan_read(reader, fd, 1, given[at + 1], wanted, &row, out, 5000, INT64_MAX, 0);
        printf("%u\n", row.state);
        mulligan_reader_end(reader);
        void *job = mulligan_ahead(fd, 1, paths, names, first, &row, own, out, 300000, INT64_MAX, 0, 2);
        mulligan_ahead_wait(job, 0);
        mulligan_ahead_end(job);
        printf("%u\n", row.state);
        close(fd);
    }
    free(self), free(in), free(out);
    return 0;
}
"""


def test_sanitizers_find_nothing(tmp_path):
    program = sanitized(FUZZ, tmp_path / "fuzz")
    (tmp_path / "text").write_bytes(b"def f(x):\n    return x\n" * 400)
    (tmp_path / "noise").write_bytes(random.Random(3).randbytes(100_000))
    names = [item for name in ("text", "noise", "missing") for item in (str(tmp_path), name)]
    done = subprocess.run([program, *names], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    # There is room for the first alone; what is not there is left alone.
    assert done.stdout.split() == ["1", "1", "2", "1", "2", "2"]
