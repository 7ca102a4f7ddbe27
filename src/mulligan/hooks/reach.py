"""
What a destructive command reaches: files that it names, all files, or things that are no files of a project.

Narrower than what the agent loop calls risky: not every command that may replace a file, but those that are known for
destroying work. The list of programs and the splitting of command lines belong to the loop. Nothing is run, and no
file is looked at here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mulligan.loop.dangerous import ANY_USE, IN_TEXT, SHELLS, WRAPPERS, risk_of_git
from mulligan.loop.risk import (
    ASSIGNMENT,
    DEEPEST,
    FARTHEST,
    INNER,
    LONGEST,
    OPERATOR,
    SEPARATOR,
    risk_of_command,
    tokens,
)

#: Which files git itself touches: those that it tracks; others, but none that are ignored; all but its own.
TRACKED, UNTRACKED, IGNORED = "tracked", "untracked", "ignored too"
GIT_RECORDS = "git's branches, index and commits"
OWN_HISTORY = "mulligan's own checkpoints"
_REMOTE, _STASHES, _DATABASE = "a remote repository", "git's stashes", "a database"
_DELETING = frozenset({"rm", "unlink", "shred", "srm", "rimraf", "rmdir"})
_ELSEWHERE = {"docker": "a container", "podman": "a container", "kubectl": "a cluster", "ssh": "another machine"}
_ENDING = {
    **dict.fromkeys(("docker", "podman"), "removes containers, images or volumes"),
    "kubectl": "removes parts of a cluster",
}
_ENGINES = {"prune", "rm", "rmi", "down"}
_BY_INPUT = frozenset({"xargs", "parallel"})
_QUOTED = r"""\\?["']([^"'\\]+)\\?["']"""
_IN_PROGRAM = re.compile(
    rf"\b(?:rmtree|remove|unlink|rmdir|removedirs|truncate|rm|rmSync|unlinkSync|rmdirSync)\(\s*(?:\w*\.?Path\(\s*)?{_QUOTED}"
    rf"|Path\(\s*{_QUOTED}\s*\)\.(?:unlink|rmdir)\("
)
_PROGRAM = re.compile(r"the program")
_VALUE = frozenset({"-s", "--size", "-r", "--reference", "-n", "--iterations"})
#: Commands of git that change nothing but files that git tracks: those are saved, the rest is left alone by them.
_TRACKED = frozenset({"checkout", "restore", "switch", "stash"})
#: These change files and git's own records.
_BOTH = frozenset({"reset", "rebase", "filter-branch", "filter-repo"})
_RECORDS = frozenset({"branch", "tag", "reflog", "gc", "prune", "update-ref"})
_GIT_VALUE = frozenset({"-c", "--git-dir", "--work-tree", "--namespace"})


class CommandReach(NamedTuple):
    """
    What one command destroys, and why it counts as destructive.

    `paths` are as typed, from `cwd` on (empty: not known). `widely` says that any file may be meant. `beyond` names what is no
    file of a project. `only` limits the files to those that git tracks, or to those that it does not.
    """

    why: str
    paths: tuple[str, ...] = ()
    cwd: str = ""
    widely: bool = False
    beyond: str = ""
    only: str = ""


def reached(arguments: Any, cwd: str, home: str = "") -> list[CommandReach]:
    """Returns what a tool's input destroys; nothing where it is not destructive."""
    if not isinstance(arguments, Mapping):
        return []
    inside = next((arguments[key] for key in ("workdir", "dir_path", "directory") if arguments.get(key)), "")
    at = os.path.join(cwd, inside) if isinstance(inside, str) else cwd
    return [each for text in _commands(arguments) for each in _of_text(text, _Shell(at, home), 0)]


def _commands(arguments: Mapping[str, Any]) -> Iterator[str]:
    command = arguments.get("command")
    if isinstance(command, str) and "*** Begin Patch" not in command:
        yield command
    elif isinstance(command, list):
        import shlex

        words = [word for word in command if isinstance(word, str)]
        shell = len(words) > 2 and words[0].rpartition("/")[2] in SHELLS and words[1].startswith("-")
        yield words[2] if shell else shlex.join(words)


class _Shell:
    """Where a command line stands: its directory changes with `cd`, and ends with the brackets around it."""

    def __init__(self, cwd: str, home: str) -> None:
        self.cwd = cwd
        self.home = home
        self._outer: list[str] = []

    def enter(self) -> None:
        self._outer.append(self.cwd)

    def leave(self) -> None:
        self.cwd = self._outer.pop() if self._outer else self.cwd

    def go(self, words: list[str]) -> None:
        names = [word for word in words if not word.startswith("-")]
        there = self.plain(names[0] if names else "~")
        self.cwd = os.path.join(self.cwd, there) if there and self.cwd else there if os.path.isabs(there) else ""

    def plain(self, word: str) -> str:
        """Returns a word with the home and the current directory put in; empty where the shell alone knows it."""
        if self.home and (word == "~" or word.startswith("~/")):
            word = self.home + word[1:]
        for name, value in (("HOME", self.home), ("PWD", self.cwd)):
            if value:
                word = word.replace(f"${{{name}}}", value)
                word = re.sub(rf"\${name}\b", lambda _: value, word)  # noqa: B023 - used before the next round
        return "" if re.search(r"[$`]", word) or word.startswith("~") else word

    def reach(self, why: str, words: list[str], **more: Any) -> CommandReach:
        """Returns the reach of a command over the paths that it names, or over anything where one of them is not known."""
        known = [self.plain(word) for word in words]
        unknown = not known or not all(known) or (not self.cwd and not all(map(os.path.isabs, known)))
        if unknown:
            return CommandReach(why, tuple(filter(os.path.isabs, known)), self.cwd, widely=True, **more)
        return CommandReach(why, tuple(known), self.cwd, **more)


def _of_text(command: str, shell: _Shell, depth: int) -> Iterator[CommandReach]:
    if len(command) > LONGEST or depth > DEEPEST:
        yield CommandReach("the command is too long to be understood", widely=True)
        return
    simple = list(_simple(command, shell))
    yield from _of_patterns(command, shell, [words for words, _, _ in simple])
    for inner in INNER.finditer(command):
        yield from _of_text(inner[1] or inner[2] or "", _Shell(shell.cwd, shell.home), depth + 1)
    for words, cwd, _ in simple:
        yield from _of_words(words, _Shell(cwd, shell.home), depth)


def _of_patterns(command: str, shell: _Shell, simple: list[list[str]]) -> Iterator[CommandReach]:
    """Yields what queries and one-line programs in a command destroy."""
    found = dict.fromkeys(reason for pattern, reason in IN_TEXT if pattern.search(command))
    for reason in found:
        if _PROGRAM.match(reason):
            named = [one or two for one, two in _IN_PROGRAM.findall(command)]
            yield shell.reach(reason, named)
            continue
        files = [_operands(words[1:])[:1] for words in simple if words and words[0].rpartition("/")[2] == "sqlite3"]
        if files and files[0]:
            yield shell.reach(reason, files[0])
        else:
            yield CommandReach(reason, beyond=_DATABASE)


def _simple(command: str, shell: _Shell) -> Iterator[tuple[list[str], str, str]]:
    """Yields each simple command without its redirections, where it runs, and what stood before it."""
    words: list[str] = []
    before, skip = "", False
    for token in [*tokens(command), ";"]:
        if SEPARATOR.fullmatch(token) and token != "{}":
            if words:
                yield words, shell.cwd, before
                if words[0] == "cd":
                    shell.go(words[1:])
            for bracket in token:
                if bracket == "(":
                    shell.enter()
                elif bracket == ")":
                    shell.leave()
            words, before = [], token
        elif OPERATOR.fullmatch(token):
            skip = True
            if words and words[-1].isdigit():
                words.pop()  # the number of a descriptor, as in `2>`
        elif skip:
            skip = False
        else:
            words.append(token)


def _of_words(words: list[str], shell: _Shell, depth: int, *, wrapped: bool = False) -> list[CommandReach]:
    while words and ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words:
        return []
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program == "ssh":
        return (
            [CommandReach(why, beyond=_ELSEWHERE["ssh"])]
            if (why := risk_of_command(" ".join(["command", *arguments])))
            else []
        )
    if program in SHELLS:
        texts = [" ".join(arguments)] if program == "eval" else _scripts(arguments)
        return [each for text in texts for each in _of_text(text, shell, depth + 1)]
    if program == "find":
        return _of_find(words, shell, depth)
    if program in _ELSEWHERE and (
        own := _ENGINES & set(arguments) if program != "kubectl" else {"delete"} & set(arguments)
    ):
        return [CommandReach(f"{program} {min(own)} {_ENDING[program]}", beyond=_ELSEWHERE[program])]
    if not wrapped and program in WRAPPERS:
        return _of_wrapped(program, words, shell, depth)
    if program == "git":
        return _of_git(arguments, shell)
    if program == "mulligan" or ("mulligan" in arguments[:4] and "-m" in arguments[:3]):
        own_words = arguments if program == "mulligan" else arguments[arguments.index("mulligan") + 1 :]
        return _of_own(own_words)
    return _of_program(program, arguments, shell)


def _scripts(arguments: list[str]) -> list[str]:
    for at, option in enumerate(arguments[:-1]):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            return [arguments[at + 1]]
    return []


def _of_wrapped(program: str, words: list[str], shell: _Shell, depth: int) -> list[CommandReach]:
    """Returns what the command behind `sudo`, `env`, `xargs` and the like destroys: it may begin at any word."""
    if program in _BY_INPUT:
        words = [*words, "$"]  # the names come from a pipe
    for at in range(1, min(len(words), FARTHEST)):
        found = _of_words(words[at:], shell, depth, wrapped=True)
        if not found:
            continue
        if program in _ELSEWHERE:
            return [CommandReach(each.why, beyond=_ELSEWHERE[program]) for each in found]
        return found
    return []


def _of_find(words: list[str], shell: _Shell, depth: int) -> list[CommandReach]:
    start = next((at for at, word in enumerate(words[1:], 1) if word.startswith(("-", "!", "\\"))), len(words))
    places = words[1:start] or ["."]
    if "-delete" in words:
        return [shell.reach("find -delete deletes what it finds", places)]
    for at, word in enumerate(words):
        if word in {"-exec", "-execdir", "-ok"} and (found := _of_words(words[at + 1 :], shell, depth, wrapped=True)):
            return [shell.reach(found[0].why, places)]
    return []


def _of_program(program: str, arguments: list[str], shell: _Shell) -> list[CommandReach]:
    if program in _DELETING:
        why = f"{program} {ANY_USE.get(program, 'deletes directories')}"
        return [shell.reach(why, named)] if (named := _operands(arguments)) else []
    if program == "truncate":
        return [shell.reach(f"truncate {ANY_USE[program]}", _operands(arguments, _VALUE))]
    if program == "dd":
        written = [word.removeprefix("of=") for word in arguments if word.startswith("of=")]
        return [shell.reach(f"dd {ANY_USE[program]}", written)] if written else []
    if program.startswith("mkfs") or program == "wipefs":
        return [CommandReach(f"{program} erases a disk", beyond="a disk")]
    if program in {"terraform", "tofu"} and "destroy" in arguments:
        return [CommandReach(f"{program} destroy removes infrastructure", beyond="infrastructure")]
    return []


def _operands(arguments: list[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """Returns the arguments that are no options, and no values of these options."""
    found, at, plain = [], 0, False
    while at < len(arguments):
        word = arguments[at]
        if plain or not word.startswith("-") or word == "-":
            found.append(word)
        elif word == "--":
            plain = True
        elif word in valued:
            at += 1
        at += 1
    return found


def _of_git(arguments: list[str], shell: _Shell) -> list[CommandReach]:
    while arguments and arguments[0].startswith("-"):
        if arguments[0] == "-C" and len(arguments) > 1:
            shell.go(arguments[1:2])
        arguments = arguments[2 if arguments[0] in {"-C", *_GIT_VALUE} else 1 :]
    why = risk_of_git(arguments)
    if not why:
        return []
    verb, rest = arguments[0], arguments[1:]
    if verb == "push":
        return [CommandReach(why, beyond=_REMOTE)]
    if verb == "stash" and {"drop", "clear"} & set(rest):
        return [CommandReach("git stash deletes stashes", beyond=_STASHES)]
    if verb in _RECORDS:
        return [CommandReach(why, beyond=GIT_RECORDS)]
    if verb == "worktree":
        return [shell.reach(why, _operands(rest)[1:])] if "remove" in rest else []
    if verb == "clean":
        return [shell.reach(why, _operands(rest) or ["."], only=UNTRACKED if not _has_letter(rest, "xX") else IGNORED)]
    if verb in _BOTH or (verb == "switch" and {"-C", "--force-create"} & set(rest)):
        return [CommandReach(why, widely=True, beyond=GIT_RECORDS, only=TRACKED)]
    if verb in {"checkout", "restore"} and "--" in rest:
        return [shell.reach(why, rest[rest.index("--") + 1 :], only=TRACKED)]
    if verb in _TRACKED:
        whole = verb == "stash" and bool({"-a", "--all"} & set(rest))
        return [CommandReach(why, widely=True, only=IGNORED if whole else TRACKED)]
    return []


def _has_letter(words: list[str], letters: str) -> bool:
    return any(re.fullmatch(rf"-\w*[{letters}]\w*", word) for word in words)


def _of_own(arguments: list[str]) -> list[CommandReach]:
    """Returns what a command of ours deletes from history."""
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[2 if arguments[0] in {"-C", "--store", "--wait"} else 1 :]
    verb, rest = (arguments[0], set(arguments[1:])) if arguments else ("", set())
    words = {
        "rm": "mulligan rm deletes checkpoints",
        "forget": "mulligan forget removes a path from every checkpoint",
        "stores": "mulligan stores deletes histories" if {"--purge", "rm"} & rest else "",
        "uninstall": "mulligan uninstall deletes histories" if "--stores" in rest else "",
    }
    return [CommandReach(words[verb], beyond=OWN_HISTORY)] if words.get(verb) else []
