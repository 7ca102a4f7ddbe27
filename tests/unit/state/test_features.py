"""The feature list: the shapes in use, and everything else that may stand there."""

from __future__ import annotations

import json

import pytest

from mulligan.state.project import Features, read_features


def listed(*entries: object) -> bytes:
    return json.dumps(entries).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, Features()),
        (b"", Features()),
        (b"null", Features()),
        (b'"text"', Features()),
        (b"\xff", Features()),
        (b'{"features": {"a": 1}}', Features()),
        (b"[" * 50_000, Features()),
        (b'{"features": []}', Features()),
        (listed({"id": "a", "passes": True}), Features(None, ("a",), 1)),
        (listed({"id": 7, "passes": False}), Features("7", (), 1)),
        (listed({"id": True, "description": "d", "passes": "yes"}), Features("d", (), 1)),
        (listed({"passes": True}, {"passes": False}), Features("feature-2", ("feature-1",), 2)),
        (listed({"id": "a", "status": "completed"}, {"id": "b", "status": ["x"]}), Features("b", ("a",), 2)),
        (listed(1, None, {"id": "a", "passes": True}, "x"), Features(None, ("a",), 1)),
        (b"\xef\xbb\xbf" + listed({"id": "a", "passes": True}), Features(None, ("a",), 1)),
        ('[{"id": "ä", "passes": true}]'.encode("utf-16"), Features(None, ("ä",), 1)),
    ],
)
def test_what_a_feature_list_says(data, expected):
    assert read_features(data) == expected


def test_a_number_too_long_to_be_read_is_no_trouble():
    assert read_features(b"[" + b"9" * 10_000 + b"]") == Features()
