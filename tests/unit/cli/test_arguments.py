"""From words to a request."""

from __future__ import annotations

import pytest

from mulligan.cli.arguments import UsageError, load, parse, split_command, wants
from mulligan.cli.commands import COMMANDS, EXIT_CODES, FIRST_FIVE, HIDDEN
from mulligan.cli.help import help_text


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        (["save", "x"], "save", ["x"]),
        (["--json", "-C", "dir", "save", "x"], "save", ["--json", "-C", "dir", "x"]),
        (["-Cdir", "--store=s", "--wait=1", "log"], "log", ["-Cdir", "--store=s", "--wait=1"]),
        (["--store", "save", "log"], "log", ["--store", "save"]),
        (["--json"], None, ["--json"]),
        ([], None, []),
    ],
)
def test_the_command_is_the_first_word_that_is_no_global_option(words, command, rest):
    assert split_command(words) == (command, rest)


def test_an_option_of_a_command_does_not_stand_before_it():
    with pytest.raises(UsageError):
        split_command(["-y", "restore", "x"])


@pytest.mark.parametrize("words", [["--json", "-C", "d", "--wait", "5", "one"], ["one", "--wait=5", "--json", "-Cd"]])
def test_global_options_work_before_and_after_the_command(words):
    args = parse("show", load("show"), words)
    assert (args.json, args.directory, args.wait, args.ref) == (True, "d", 5.0, "one")


def test_options_may_stand_between_positional_arguments():
    args = parse("diff", load("diff"), ["a", "--stat", "b", "--", "p", "--stat"])
    assert (args.refs, args.stat, args.paths) == (["a", "b"], True, ["p", "--stat"])


def test_paths_follow_two_dashes_only_where_there_are_paths():
    assert parse("save", load("save"), ["--", "-odd-name"]).name == "-odd-name"
    assert parse("log", load("log"), ["--", "a", "b"]).paths == ["a", "b"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat", []),
        ("show", ["a", "b"]),
        ("save", ["--kind", "safety"]),
        ("save", ["--kin", "step"]),
        ("log", ["-n", "-1"]),
        ("log", ["-n", "x"]),
        ("log", ["--wait", "-1"]),
        ("log", ["--wait", "nan"]),
        ("restore", ["x", "--state", "--all"]),
        ("completion", ["tcsh"]),
        ("stores", ["--older-than", "-3"]),
    ],
)
def test_a_mistake_is_a_usage_error_with_a_hint(command, words):
    with pytest.raises(UsageError) as caught:
        parse(command, load(command), words)
    assert caught.value.exit_code == 2 and caught.value.message.endswith(".") and caught.value.hint


def test_an_unknown_command_gets_a_guess():
    with pytest.raises(UsageError) as caught:
        load("stauts")
    assert caught.value.hint == "Did you mean: mulligan status"


def test_a_flag_after_two_dashes_is_no_flag():
    assert wants(["a", "--json"], "--json") and not wants(["a", "--", "--json"], "--json")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches(name):
    command = load(name)
    text = help_text(name, command)
    assert command.USAGE.split()[0] == name
    assert 2 <= len(command.EXAMPLES) <= 4 and all(
        "mulligan" in words and meaning for words, meaning in command.EXAMPLES
    )
    assert set(command.EXIT_CODES) <= set(EXIT_CODES) and command.EXIT_CODES[0] == 0
    assert "examples:" in text and text.count("\n") <= 24 and command.DESCRIPTION.split()[0] in text
    assert all(callable(getattr(command, part)) for part in ("add_arguments", "run", "render"))


def test_the_first_commands_exist():
    assert set(FIRST_FIVE) <= set(COMMANDS)


def test_every_module_is_a_command_and_short():
    """One file per command, at most 250 lines."""
    from pathlib import Path

    import mulligan.cli.commands as package

    files = [file for file in Path(package.__path__[0]).glob("*.py") if file.stem != "__init__"]
    assert {file.stem for file in files} == {*COMMANDS, *HIDDEN.values()}
    assert [file.name for file in files if len(file.read_text().splitlines()) > 250] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_can_be_parsed(name):
    import shlex

    for words, _ in load(name).EXAMPLES:
        for part in words.replace("&&", ";").split(";"):
            typed = shlex.split(part.split(" > ")[0].replace('eval "$(', "").replace(')"', ""))
            if typed and typed[0] == "mulligan":
                request = split_command(typed[1:])
                parse(request.command, load(request.command), request.words)
