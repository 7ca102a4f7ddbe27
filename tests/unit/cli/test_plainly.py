"""Plain words are read without a parser, and as the parser would read them."""

from __future__ import annotations

import random

import pytest

from mulligan.cli.parsers import build_parser
from mulligan.cli.plainly import Table
from mulligan.cli.registry import COMMANDS
from mulligan.cli.usage import UsageError, add_global_options, load
from tools import sweep

VALUES = [
    "a",
    "b c",
    "",
    "5",
    "0",
    "1.5",
    "nan",
    "-1",
    "-",
    "step",
    "manual",
    "bash",
    "k=v",
    "@",
    "--",
    "--kin",
    "-x",
    "-Cd",
]


def table(command) -> Table:
    told = Table()
    command.add_arguments(told)
    add_global_options(told)
    return told


@pytest.mark.parametrize("name", COMMANDS)
def test_whatever_is_read_plainly_is_what_the_parser_reads(name):
    """And whatever the parser refuses is not read at all."""
    command, rng = load(name), random.Random(name)
    told, parser = table(command), build_parser(name, command)
    options = [option for action in parser._actions for option in action.option_strings]
    read = 0
    for _ in range(sweep(400)):
        words = rng.choices([*options, *VALUES, *VALUES], k=rng.randrange(5))
        plain = told.read(words)
        if plain is not None:
            read += 1
            whole = parser.parse_args(words) if "--" in words else parser.parse_intermixed_args(words)
            assert vars(plain) == vars(whole), words
    assert read or name in {"praisonai", "rm"}  # whose words come in any number


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("save", []),
        ("save", ["--json", "-C", "d", "--store", "s", "x"]),
        ("save", ["--if-changed", "--kind", "step"]),
        ("save", ["x", "-m", "why", "--git", "--wait", "3"]),
        ("log", ["-n", "5"]),
        ("undo", []),
        ("redo", ["--json"]),
        ("hook", ["claude-code", "PreToolUse"]),
        ("restore", ["latest", "-y", "--all"]),
        ("status", ["--json"]),
        ("diff", ["a", "--stat", "b"]),
    ],
)
def test_what_is_typed_every_day_is_plain(name, words):
    assert table(load(name)).read(words) is not None


@pytest.mark.parametrize(
    "words", [["--kind=step"], ["--context", "a=1"], ["-mwhy"], ["a", "b"], ["--kind", "x"], ["-m"]]
)
def test_what_is_not_plain_is_left_to_the_parser(words):
    assert table(load("save")).read(words) is None


def test_a_mistake_is_told_by_the_parser():
    with pytest.raises(UsageError):
        build_parser("save", load("save")).parse_intermixed_args(["a", "b"])
