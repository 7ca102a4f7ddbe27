"""
Which tool calls are risky: those that delete, overwrite or rewrite what cannot be had again by repeating them.

A heuristic on names and words alone: it runs nothing and reads no file. It errs on the side of caution,
since a checkpoint too many costs little and one too few costs the work. `risk_of_command` reads a shell command line,
`judge` a tool call of an agent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from mulligan.loop.dangerous import (
    ANY_USE,
    CHANGING_WORDS,
    DANGEROUS_WORDS,
    IN_TEXT,
    READING_PROGRAMS,
    READING_WORDS,
    SHELL_WORDS,
    SHELLS,
    SUBCOMMANDS,
    WITH_FLAG,
    WRAPPERS,
    risk_of_git,
)

LONGEST = 64 * 1024
DEEPEST = 3
FARTHEST = 16
SEPARATOR = re.compile(r"[;&|(){}]+")
OPERATOR = re.compile(r"[<>&|]+")
ASSIGNMENT = re.compile(r"\w+\+?=")
INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NOT_A_FILE = re.compile(r"/dev/(null|tty|std(out|err)|fd/\d+)|\d+|-")


class RiskVerdict(NamedTuple):
    """The verdict on a tool call: why it is risky (empty if not), and whether it may change files."""

    reason: str
    changes: bool

    @property
    def risky(self) -> bool:
        """Whether a checkpoint belongs before it."""
        return bool(self.reason)


def judge(tool: str, arguments: object = None) -> RiskVerdict:
    """Returns the verdict on one call of an agent's tool; `arguments` is a mapping, a command line or a list of words."""
    words = {word.lower() for word in _WORD.findall(tool)}
    texts = list(_texts(arguments))
    if words & SHELL_WORDS:
        reasons = [reason for text in texts if (reason := risk_of_command(text))]
        if reasons:
            return RiskVerdict(reasons[0], True)
    if dangerous := words & DANGEROUS_WORDS:
        return RiskVerdict(f"{tool} may {min(dangerous)} something", True)
    if words & SHELL_WORDS:
        return RiskVerdict("", not (texts and all(_only_reads(text) for text in texts)))
    return RiskVerdict("", bool(words & CHANGING_WORDS) or not words & READING_WORDS)


def risk_of_command(command: str, *, depth: int = 0) -> str:
    """
    Returns why a shell command line is risky, empty where nothing says so.

    LIMIT: a risk is seen by the names of programs; what a script or a program of the project deletes is not seen.
    """
    return next(risks_of_command(command, depth=depth), "")


def risks_of_command(command: str, *, depth: int = 0) -> Iterator[str]:
    """Yields every reason for which a shell command line is risky."""
    if len(command) > LONGEST or depth > DEEPEST:
        yield "the command is too long to be understood"
        return
    for pattern, reason in IN_TEXT:
        if pattern.search(command):
            yield reason
    for inner in INNER.finditer(command):
        yield from risks_of_command(inner[1] or inner[2] or "", depth=depth + 1)
    for words, piped in _simple_commands(command):
        found = (_risk_of_redirection(words), _risk_of_words(words, depth, piped=piped))
        yield from filter(None, found)


# -- words --------------------------------------------------------------------------------------


def _texts(arguments: object) -> Iterator[str]:
    """Yields every piece of text in the arguments of a tool."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from _texts(value)
    elif isinstance(arguments, Sequence) and not isinstance(arguments, bytes | bytearray):
        plain = [item for item in arguments if isinstance(item, str)]
        if plain and len(plain) == len(arguments):
            yield shlex.join(plain)
        else:
            for item in arguments:
                yield from _texts(item)


def tokens(command: str) -> list[str]:
    """Returns the words and operators of a command line, quotes taken off."""
    text = command.replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:
        # A quote that is never closed: the words are good enough for a guess.
        return re.sub(r"([;&|()<>]+)", r" \1 ", text.replace('"', " ").replace("'", " ")).split()


def _simple_commands(command: str) -> Iterator[tuple[list[str], bool]]:
    """Yields the words of each simple command, redirections included, and whether a pipe leads into it."""
    words: list[str] = []
    after_pipe = False
    for token in tokens(command):
        if SEPARATOR.fullmatch(token) and token != "{}":
            yield words, after_pipe
            words, after_pipe = [], token == "|"
        else:
            words.append(token)
    yield words, after_pipe


def _risk_of_redirection(words: list[str]) -> str:
    for operator, target in pairwise(words):
        if (
            OPERATOR.fullmatch(operator)
            and ">" in operator
            and ">>" not in operator
            and not _NOT_A_FILE.fullmatch(target)
        ):
            return f"the redirection empties {target}"
    return ""


def _risk_of_words(words: list[str], depth: int, *, piped: bool = False, wrapped: bool = False) -> str:
    words = [word for word in words if not OPERATOR.fullmatch(word)]
    while words and ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words:
        return ""
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in SHELLS:
        return _risk_of_shell(program, arguments, depth, piped=piped)
    if not wrapped and (program in WRAPPERS or {"-exec", "-execdir", "-ok"} & set(arguments)):
        # Where the options of the wrapper end is not known, so the command may begin at any word.
        for at in range(1, min(len(words), FARTHEST)):
            if reason := _risk_of_words(words[at:], depth, wrapped=True):
                return reason
    if program == "git":
        return risk_of_git(arguments)
    if program in ANY_USE or program.startswith("mkfs"):
        keeps = {"-n", "--no-clobber", "--dry-run"} & set(arguments)
        return "" if keeps and program in {"mv", "cp"} else f"{program} {ANY_USE.get(program, 'erases a disk')}"
    for flags, reason in WITH_FLAG.get(program, ()):
        if any(_is_flag(argument, flags) for argument in arguments):
            return f"{program} {reason}"
    chosen = [argument for argument in arguments if argument in SUBCOMMANDS.get(program, ())]
    return f"{program} {chosen[0]} removes or rewrites something" if chosen else ""


def _is_flag(argument: str, flags: tuple[str, ...]) -> bool:
    """Returns whether an argument is one of the flags; single letters may stand together (`-rf`) or carry a value (`-i.bak`)."""
    for flag in flags:
        if argument == flag or (flag.startswith("--") and argument.startswith(flag + "=")):
            return True
        short = len(flag) == 2 and flag[0] == "-" and not argument.startswith("--")
        if short and argument.startswith("-") and flag[1] in argument[1:]:
            return True
    return False


def _risk_of_shell(program: str, arguments: list[str], depth: int, *, piped: bool) -> str:
    if program in {"eval", "ssh"}:
        # The name of the host stands before the command, as options stand before that of a wrapper.
        return risk_of_command(" ".join(["command", *arguments]), depth=depth + 1)
    for option, text in pairwise(arguments):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            return risk_of_command(text, depth=depth + 1)
    return f"{program} runs what comes out of a pipe" if piped and not arguments else ""


def _only_reads(command: str) -> bool:
    """Returns whether every program of a command line is known to change nothing."""
    if len(command) > LONGEST or "<(" in command or ">" in command or INNER.search(command):
        return False
    programs = [words[:2] for words, _ in _simple_commands(command) if words]
    return all(_reads(words) for words in programs)


def _reads(words: list[str]) -> bool:
    known: Any = READING_PROGRAMS.get(words[0].rpartition("/")[2], False)
    return known if isinstance(known, bool) else len(words) > 1 and words[1] in known
