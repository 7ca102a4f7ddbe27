"""What the compiled part inflates, against zlib; and what it must not, from hostile bytes."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.safefs import compiled
from sanitizing import STRICT, sanitized

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

SLACK = 16
EXPORTS = b"""
size_t test_deflate(const unsigned char *from, size_t size, unsigned char *to) {
    static struct deflater self;
    return deflate(&self, from, size, to);
}
int test_inflate(const unsigned char *from, size_t given, unsigned char *to, size_t size) {
    static struct inflater self;
    return inflate(&self, from, given, to, size);
}
"""
# Inflates what it is given, each piece in memory of its very size: its length, the size that it should have, and its bytes.
PROGRAM = rb"""
#include <stdio.h>
int main(void) {
    static struct inflater self;
    uint32_t head[2];
    unsigned right = 0;
    while (fread(head, sizeof head, 1, stdin) == 1) {
        unsigned char *from = malloc(head[0] ? head[0] : 1), *to = malloc(head[1] + INFLATE_SLACK);
        if (!from || !to || fread(from, 1, head[0], stdin) != head[0])
            return 2;
        right += (unsigned)inflate(&self, from, head[0], to, head[1]);
        free(from), free(to);
    }
    printf("%u", right);
    return 0;
}
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The pieces, each by itself."""
    place = tmp_path_factory.mktemp("parts") / "parts.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", *STRICT, "-o", place], input=compiled.source() + EXPORTS, check=True
    )
    found = ctypes.CDLL(str(place))
    size, data = ctypes.c_size_t, ctypes.c_char_p
    found.test_deflate.argtypes, found.test_deflate.restype = (data, size, data), size
    found.test_inflate.argtypes = (data, size, data, size)
    return found


def inflated(parts, stream: bytes, size: int) -> bytes | None:
    """The bytes of a stream, None where it has not so many; whatever it says, nothing behind the slack is touched."""
    room = ctypes.create_string_buffer(b"\xa5" * (size + 64), size + 64)
    whole = parts.test_inflate(stream, len(stream), room, size)
    assert room.raw[size + SLACK :] == b"\xa5" * (64 - SLACK)
    return room.raw[:size] if whole else None


def by_zlib(stream: bytes) -> bytes | None:
    engine = zlib.decompressobj()
    try:
        data = engine.decompress(stream)
    except zlib.error:
        return None
    return data if engine.eof else None


def contents():
    text = st.text(st.sampled_from("abcdefgh \n(){}=_.,:"), max_size=3000).map(str.encode)
    runs = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 900)), max_size=12)
    repeated = runs.map(lambda rows: b"".join(piece * times for piece, times in rows)[:200_000])
    skewed = st.tuples(st.integers(0, 2**32), st.integers(0, 70_000)).map(lambda row: _skewed(*row))
    return st.one_of(st.binary(max_size=4000), text, repeated, skewed)


def _skewed(seed: int, size: int) -> bytes:
    """Bytes whose frequencies are Fibonacci's, which asks for the longest codes."""
    return bytes(random.Random(seed).choices(range(60), [1.6**-at for at in range(60)], k=size))


def _stream(parts, data: bytes, how: int) -> bytes:
    if how == 0:
        room = ctypes.create_string_buffer(2 * len(data) + 200)
        length = parts.test_deflate(data, len(data), room)
        return room.raw[:length]
    if how == 1:
        engine = zlib.compressobj(9, wbits=9 + len(data) % 7)
        return engine.compress(data) + engine.flush()
    strategy = (zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY)[how % 4]
    engine = zlib.compressobj(how % 10, strategy=strategy, memLevel=1 + how % 9)
    half = len(data) // 2
    return (
        engine.compress(data[:half]) + engine.flush(zlib.Z_FULL_FLUSH) + engine.compress(data[half:]) + engine.flush()
    )


def spoilt(rng: random.Random, stream: bytes) -> bytes:
    made = bytearray(stream)
    for _ in range(rng.randrange(3)):
        kind = rng.randrange(4)
        if kind == 0 and made:
            made[rng.randrange(min(len(made), rng.choice([60, 10**6])))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[rng.randrange(len(made) + 1) :]
        elif kind == 2:
            made += rng.randbytes(9)
        elif made:
            made[rng.randrange(len(made)) :] = rng.randbytes(rng.randrange(300))
    return bytes(made)


@settings(max_examples=400, deadline=None)
@given(data=contents(), how=st.integers(0, 60), tail=st.binary(max_size=20))
def test_whatever_zlib_or_we_deflate_comes_back(parts, data, how, tail):
    stream = _stream(parts, data, how)
    assert inflated(parts, stream + tail, len(data)) == data
    assert inflated(parts, stream, len(data) + 1) is None
    assert inflated(parts, stream[:-1], len(data)) is None
    if data:
        assert inflated(parts, stream, len(data) - 1) is None


def _cases(parts, seed: int, count: int) -> list[tuple[bytes, int]]:
    rng, made = random.Random(seed), []
    for _ in range(count):
        text = b" ".join(rng.choices([b"def", b"return", b"self", rng.randbytes(9), b"\n"], k=rng.randrange(600)))
        data = rng.choice([text, rng.randbytes(rng.randrange(300)), bytes(rng.randrange(5000))])
        stream = spoilt(rng, _stream(parts, data, rng.randrange(60)))
        want = by_zlib(stream)
        made.append((stream, len(data) if want is None else len(want)))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_hostile_streams_are_refused_where_zlib_refuses_them(parts, seed):
    for stream, size in _cases(parts, seed, 2000):
        assert inflated(parts, stream, size) == by_zlib(stream), stream.hex()


def test_bytes_that_are_no_stream_at_all_are_refused(parts):
    rng = random.Random(1)
    for _ in range(3000):
        stream = b"\x78\x9c" + bytes([rng.randrange(8)]) + rng.randbytes(rng.randrange(200))
        found, want = inflated(parts, stream, 100), by_zlib(stream)
        assert found is None or found == want


def test_the_sanitizers_find_nothing(parts, tmp_path):
    program = sanitized(PROGRAM, tmp_path / "program")
    cases = _cases(parts, 9, 1500)
    given_ = b"".join(len(stream).to_bytes(4, "little") + size.to_bytes(4, "little") + stream for stream, size in cases)
    done = subprocess.run([program], input=given_, capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr[-3000:].decode()
    assert int(done.stdout) == sum(by_zlib(stream) is not None for stream, _ in cases)
