"""`json`, `re` and `datetime` as a command has them are the standard library's own, only sooner there."""

from __future__ import annotations

import datetime as dt
import json as standard
import re as standard_re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.model.light import UTC, datetime, json, re
from tools import plain_environment

names = st.text(st.characters(blacklist_categories=[]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12,
)
styles = st.fixed_dictionaries(
    {},
    optional={
        "sort_keys": st.booleans(),
        "indent": st.none() | st.integers(0, 3),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (", ", ": ")]),
    },
)


@given(values, styles)
def test_what_is_written_is_what_json_writes(value, style):
    assert json.dumps(value, **style) == standard.dumps(value, **style)


@given(values, st.sampled_from(["", " ", "\n\t\r "]), st.sampled_from(["", " \n"]))
def test_what_is_read_is_what_json_reads(value, before, after):
    text = before + standard.dumps(value) + after
    assert repr(json.loads(text)) == repr(standard.loads(text)) == repr(json.loads(text.encode()))


def outcome(read, text):
    try:
        return repr(read(text))
    except (ValueError, RecursionError) as error:
        return type(error), str(error)


BROKEN = [
    "",
    " ",
    "nul",
    "1 2",
    "[1",
    '{"a":}',
    "\ufeff1",
    '"\x01"',
    "NaN",
    "1e999",
    b"",
    b"\xff",
    b"1\0",
    b"[1]",
    "[" * 9,
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_document_is_refused_in_the_same_words(text):
    assert outcome(json.loads, text) == outcome(standard.loads, text)


@given(st.text('[]{}",:0123456789.eE+-nultrfas \\\x00\n', max_size=12))
def test_any_text_is_read_or_refused_as_json_does(text):
    assert outcome(json.loads, text) == outcome(standard.loads, text)


def test_what_json_cannot_say_is_refused_in_the_same_words():
    circle: list[object] = []
    circle.append(circle)
    for value, style in [({1: 2}, {}), ({1: 2}, {"indent": 1}), (float("nan"), {"allow_nan": False}), (object(), {}),
                         (circle, {}), (circle, {"indent": 1}), ([object()], {"indent": 1})]:  # fmt: skip
        told = []
        for module in (json, standard):
            try:
                told.append(module.dumps(value, **style))
            except (TypeError, ValueError) as error:
                told.append((type(error), str(error)))
        assert told[0] == told[1]


def test_the_rest_is_the_original():
    assert json.JSONDecodeError is standard.JSONDecodeError
    assert re.compile is standard_re.compile
    assert re.MULTILINE is standard_re.MULTILINE
    assert (datetime, UTC) == (dt.datetime, dt.UTC)


def test_to_have_them_loads_none_of_the_slow_ones():
    program = (
        "import sys; from mulligan.model.light import json, re, datetime; json.loads(json.dumps({'a': [1.5]}, indent=1));"
        "print(*{'json', 're', 'enum', 'datetime'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=plain_environment(), capture_output=True, check=True
    )
    assert not done.stdout.strip()
