"""What comes out of a store is read within bounds, and what is written passes the same ones."""

from __future__ import annotations

import json
import random
import tracemalloc
import zlib

import pytest

import mulligan
from mulligan.model import bounded
from mulligan.model.bounded import beginning, inflate, read_json, unpack
from mulligan.model.checkpoint import Checkpoint, as_json_object, moment, pack_list, unpack_list


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


ODD = [
    "a",
    "b c",
    'quote"d',
    "back\\slash",
    "end\\",
    ",",
    '","',
    "[",
    "]",
    "\u00fc\udcff",
    "line\nbreak",
    "",
    "x" * 300,
]


@pytest.mark.parametrize("piece", [310, 311, 317, 1000, 64 << 10])
def test_the_beginning_of_a_list_is_what_reading_all_of_it_says(monkeypatch, piece):
    monkeypatch.setattr(bounded, "_PIECE", piece)
    chance = random.Random(piece)
    for count in (1, 2, 3, 4, 50, 400):
        rows = chance.choices(ODD, k=count)
        packed = pack_list(rows)
        for most in (0, 3):
            assert beginning(packed, most) == (rows[:most], count)
    assert beginning(pack_list(ODD[:-1] * 30), 3) == (ODD[:3], 30 * (len(ODD) - 1))


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"nothing", pack_list([]), pack_list([1]), pack_list([["a"]]), pack_list(["a", 1]), pack_list(["a"])[:-3],
        pack_list(["a"]) + b"more", zlib.compress(b'{"a":"b"}'), zlib.compress(b'["a"'), zlib.compress(b'["a",]'),
        zlib.compress(b'["a" ,"b"]'), zlib.compress(b'["' + bytes(64 << 20) + b'"]'), pack_list(["x" * 600_000]),
    ],
)  # fmt: skip
def test_what_is_no_list_of_short_texts_is_left_to_the_one_who_reads_all_of_it(packed):
    assert beginning(packed, 3) is None


def checkpoint(packed: bytes) -> Checkpoint:
    return Checkpoint(
        id="1" * 16, name="", description="", kind="manual", created_at=moment(0), parent=None, complete=True, commit="",
        packed_changes=packed,
    )  # fmt: skip


def test_what_a_first_checkpoint_changed_is_counted_without_being_held():
    packed = pack_list(f"some/directory/of/a/project/file{number}.py" for number in range(100_000))
    first = checkpoint(packed)
    tracemalloc.start()
    try:
        assert first.first_changed(1) == (("some/directory/of/a/project/file0.py",), 100_000)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert first.first_changed(2) == (first.files_changed[:2], len(first.files_changed))


def test_nothing_changed_and_damage_are_told_as_ever():
    assert checkpoint(pack_list([])).first_changed(3) == ((), 0)
    with pytest.raises(mulligan.StoreDamaged):
        checkpoint(b"damage").first_changed(3)
