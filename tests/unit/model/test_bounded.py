"""What comes out of a store is read within bounds, and what is written passes the same ones."""

from __future__ import annotations

import json
import zlib

import pytest

import mulligan
from mulligan.model.bounded import inflate, read_json, unpack
from mulligan.model.checkpoint import as_json_object, pack_list, unpack_list


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000,
        "[" + "[]," * 3_000_000 + "0]",
        "[" + "0," * 5_000_000 + "0]",
        b"\xff",
        "",
        "nothing",
    ],
    ids=["deep lists", "deep objects", "many lists", "many numbers", "no text", "nothing", "no JSON"],
)
def test_a_document_that_would_fill_the_memory_or_is_none_is_a_value_error(text):
    with pytest.raises(ValueError):
        read_json(text)


def test_a_long_text_is_no_bomb():
    text = "x[{,".join(["word"] * 100_000)
    assert read_json(f'["{text}"]') == [text]


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(bytes(64 << 20)),
        zlib.compress(b"[]")[:-2],
        zlib.compress(b"[]") + b"more",
        b"garbage",
        zlib.compress(b"{}"),
        zlib.compress(b"[" * 9999),
    ],
    ids=["a bomb", "cut short", "followed by more", "garbage", "another value", "deep"],
)
def test_a_list_that_is_none_is_damage(packed):
    with pytest.raises(mulligan.StoreDamaged, match="cannot be read"):
        unpack_list(packed)


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 16384, 16385])
def test_a_list_is_one_json_document_however_it_was_packed(count):
    assert zlib.decompress(pack_list(range(count))).decode() == json.dumps([*range(count)], separators=(",", ":"))


def test_long_lists_come_back():
    names = [f"directory/with a name/{number}" for number in range(300_000)]
    assert unpack_list(pack_list(names)) == names
    assert unpack(zlib.compress(b"5")) == 5
    assert inflate(zlib.compress(bytes(1 << 20))) == bytes(1 << 20)


def test_state_that_could_not_be_read_back_is_refused_when_it_is_saved():
    with pytest.raises(ValueError, match="state must be JSON: it is too large"):
        as_json_object({"all": [[]] * 3_000_000}, "state")
