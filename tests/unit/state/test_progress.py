"""The progress file: free text, with numbered sessions in it or not."""

from __future__ import annotations

import pytest

from mulligan.state.project import last_session


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 0),
        (b"45/200 tests passing\n", 0),
        (b"# Session Progress\n\n## Session 1 - 2025-01-15 10:30\n### Accomplishments\n", 1),
        (b"## Session 3 - x\n## Session 12 - y\n## session 4\n", 12),
        (b"text about ## Session 99\n", 0),
        (b"## Session " + b"9" * 5000, 0),
        (b"\xff\xfe\n## Session 2\r\n", 2),
    ],
)
def test_the_highest_session(text, expected):
    assert last_session(text) == expected
