"""Sizes as people write and read them."""

from __future__ import annotations

import pytest

from mulligan.model.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        (7, 7),
        ("4096", 4096),
        ("50 MiB", 50 << 20),
        ("2GB", 2_000_000_000),
        ("2 gib", 2 << 30),
        ("1.5 GiB", 3 << 29),
        ("10k", 10 << 10),
        (" 3 bytes ", 3),
        ("1 TiB", 1 << 40),
    ],
)
def test_a_size_is_read(text, bytes_):
    assert parse_size(text) == bytes_


@pytest.mark.parametrize("text", ["", "MiB", "1 parsec", "1.2.3 MB", "-1", "1e9", "0x10", "١", "9" * 30, "1 MiBs", "."])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 19, "1.5 MiB"),
        (12 << 30, "12 GiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_a_size_is_written_for_people(count, text):
    assert format_size(count) == text
