"""What names must be like for rules to say something: often too much, never too little."""

from __future__ import annotations

import random

import pytest

import adopted
from mulligan.scan.ignore import Hints, Rules
from mulligan.scan.secrets import _NAMES, TELLING, is_plain_name, secret_name

PARTS = ("a", "b", "src", "file1", "x", "é")
MORE = ("*", "?", "**", "[ab]", "[!a]", ".py", ".c", "\\\\*", "/", "/", "!", "#")


def is_hinted(hints: Hints, path: bytes) -> bool:
    above, _, name = path.rpartition(b"/")
    return bool(hints.meant(above, [name]))


@pytest.mark.parametrize("seed", range(300))
def test_no_rule_says_anything_of_a_name_that_no_hint_is_for(seed):
    rng = random.Random(seed)

    def line() -> str:
        return rng.choice(("", "!")) + "".join(rng.choices(PARTS + MORE, k=rng.randrange(1, 6)))

    def text() -> bytes:
        lines = [line() if rng.random() < 0.7 else rng.choice(adopted.IGNORED) for _ in range(rng.randrange(1, 5))]
        return "\n".join(lines).encode()

    outer = Rules.base(text())
    inner = outer.enter(b"src", text())
    for _ in range(200):
        name = "".join(rng.choices((*PARTS, ".py", ".c", "log"), k=rng.randrange(1, 4)))
        path = "/".join((*rng.choices((*PARTS, "deep", "docs"), k=rng.randrange(3)), name)).encode()
        for rules in (outer, inner) if path.startswith(b"src/") else (outer,):
            for is_dir, hints in enumerate(rules.hints()):
                assert rules.verdict(path, bool(is_dir)) is None or is_hinted(hints, path)


def test_rules_that_can_be_looked_up_leave_most_names_alone():
    rules = Rules.base(b"*.log\n/build/\nnode_modules\n*.py[co]\n.env*\ndocs/_build/\n/tmp/*.bin\n!keep.me\n")
    files, dirs = rules.hints()
    assert is_hinted(files, b"a/x.pyc")
    assert is_hinted(files, b"tmp/x.bin")
    assert not is_hinted(files, b"a/x.py")
    assert not is_hinted(dirs, b"a/src")


def test_the_name_of_a_secret_holds_something_telling():
    """Else it would be taken over from git without anybody deciding over it."""
    rng = random.Random(4)
    words = sorted(
        {b"x", b"a", b".", b"_", b"-", b"PROD", b"json", b"txt", b"yaml", b"pub", *TELLING, *_NAMES, b"rsa", b"Key"}
    )
    found = 0
    for _ in range(20_000):
        name = b"".join(rng.choices(words, k=rng.randrange(1, 4)))
        if secret_name(b"dir/" + name) or secret_name(name):
            found += 1
            assert not is_plain_name(name)
    assert found > 500
