"""
Sizes as people write them: `50 MiB`, `2GB`, `1.5 GiB`, `4096`.

`KiB` and its kin count in 1024, `kB` and its kin in 1000; a bare letter (`50M`) counts in 1024, as `ls` and `git` do.
"""

from __future__ import annotations

_LETTERS = "kmgtp"


def parse_size(value: int | str) -> int:
    """Returns a number of bytes; raises ValueError for what is not a size."""
    if isinstance(value, int):
        return value
    text = value.strip().lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    if not number or number.strip("0123456789.") or number.count(".") > 1 or len(number) > 24:
        raise ValueError(f"{value!r} is not a size")
    factor = _factor(unit)
    if factor is None:
        raise ValueError(f"{value!r} is not a size: unknown unit {unit!r}")
    return int(float(number) * factor) if "." in number else int(number) * factor


def _factor(unit: str) -> int | None:
    if unit in {"", "b", "byte", "bytes"}:
        return 1
    letter, rest = unit[0], unit[1:]
    if letter not in _LETTERS or rest not in {"", "b", "ib"}:
        return None
    base = 1000 if rest == "b" else 1024
    power: int = base ** (_LETTERS.index(letter) + 1)
    return power


def format_size(count: int) -> str:
    """Returns a number of bytes as people read it: `0 B`, `1.5 MiB`, `12 GiB`."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    if unit == "B" or size >= 10:
        return f"{size:.0f} {unit}"
    return f"{size:.1f} {unit}"
