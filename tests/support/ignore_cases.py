"""
Pattern files and paths made up from a seed, and what real git says about them.

One repository holds many cases side by side, each in its own directory with its own `.gitignore` files, so that one git
process answers for all of them. Names are few and short: what matters is that patterns nearly match.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

from tools import git

NAMES = [
    *(b"a", b"b", b"ab", b"ba", b"aab", b"abc", b"A", b"a.c", b"b.c", b".a", b"foo", b"foo.txt", b"foobar", b"bar"),
    *(
        b"a b",
        b"a ",
        b" a",
        b"*",
        b"**",
        b"[a]",
        b"[",
        b"]",
        b"a]",
        b"\\",
        b"a\\",
        b"!a",
        b"#a",
        b"-",
        b"a-c",
        b"^",
        b"?",
    ),
    *(
        b"\xc3\xa9",
        b"\xe9",
        b"\xff",
        b"a\n",
        b"a\r",
        b"\t",
        b"a\tb",
        b"\x01",
        b"\x7f",
        b"0",
        b"9z",
        b"Z",
        b"_",
        b":",
        b"[:",
    ),
]
CLASSES = [b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph", b"lower", b"print", b"punct", b"space", b"upper"]
ATOMS = [
    *(b"a", b"b", b"c", b"foo", b".", b"A", b"0", b"-", b"]", b"^", b"\xc3\xa9", b"\xff", b"\t"),
    *(b"*", b"*", b"*", b"**", b"***", b"?", b"/", b"/", b"/", b"/**/", b"**/", b"/**", b"*/", b"/*"),
    *(b"\\", b"\\a", b"\\*", b"\\/", b"\\ ", b"\\[", b"\\\\", b" ", b"!", b"#", b"\\!", b"\\#"),
    *(
        b"[ab]",
        b"[!a]",
        b"[^a]",
        b"[a-c]",
        b"[]a]",
        b"[!]a]",
        b"[a-]",
        b"[-a]",
        b"[a/b]",
        b"[\\]a]",
        b"[\\a-c]",
        b"[a-\\c]",
    ),
    *(
        b"[",
        b"[a",
        b"[]",
        b"[!]",
        b"[[:alpha:]]",
        b"[[:foo:]]",
        b"[[:]",
        b"[[:alpha:]",
        b"[[:digit:]a-c]",
        b"[a-[:alpha:]]",
    ),
    *(b"[[::]]", b"[[:a]", b"[c-a]", b"[a-c-e]", b"[\x01-\xff]", b"[!-~]", b"[[]", b"[*?]", b"[\\"),
]

# Before 2.52 git cut the literal start of a pattern off and then took the `**` of `foo**/bar` for one that stands alone,
# so that it matched `foobar`. We are with the later versions; for the earlier ones no line of that shape is made up.
GLUED = re.compile(rb"(!?/?[^*?\[\\]*[^/*?\[\\])\*\*+(?=/|$|\\/|[ \r\0])")


@dataclass(frozen=True, slots=True)
class Case:
    """A little workspace: ignore files by directory (`b""` its top), directories, and the paths to ask about."""

    ignores: dict[bytes, bytes]
    directories: frozenset[bytes]
    paths: tuple[bytes, ...]


def make_case(rng: random.Random, paths: int, *, glued: bool) -> Case:
    """Returns one case from a random source, with or without lines like `foo**/bar`."""
    directories = {b""}
    names = rng.sample(NAMES, 12)
    while len(directories) < 9:
        parent = rng.choice(sorted(directories))
        if parent.count(b"/") < 3:
            directories.add(_join(parent, rng.choice(names)))
    asked = {_join(rng.choice(sorted(directories)), rng.choice(names)) for _ in range(paths)} | (directories - {b""})
    known = sorted(asked)
    places = [b"", *rng.sample(sorted(directories), 2)]
    ignores = {directory: _content(rng, known, directory, glued=glued) for directory in places}
    return Case(ignores, frozenset(directories), tuple(rng.sample(known, min(paths, len(known)))))


def _join(parent: bytes, name: bytes) -> bytes:
    return parent + b"/" + name if parent else name


def _content(rng: random.Random, known: list[bytes], directory: bytes, *, glued: bool) -> bytes:
    lines = [_line(rng, known, directory, glued=glued) for _ in range(rng.choice((1, 1, 2, 3, 6)))]
    end = rng.choice((b"\n", b"\n", b"\n", b"\r\n"))
    start = b"\xef\xbb\xbf" if rng.random() < 0.05 else b""
    return start + end.join(lines) + (end if rng.random() < 0.8 else b"")


def _line(rng: random.Random, known: list[bytes], directory: bytes, *, glued: bool) -> bytes:
    line = b"".join(rng.choices(ATOMS, k=rng.randint(1, 6))) if rng.random() < 0.3 else _near(rng, known, directory)
    if rng.random() < 0.15:
        line = b"!" + line
    if rng.random() < 0.1:
        line += rng.choice((b" ", b"  ", b"\\ ", b"\\  ", b"\r", b"\t", b"\\", b"/ ", b"\0x", b"//"))
    line = line.replace(b"\n", b"?")
    return line if glued or not GLUED.match(line) else GLUED.sub(rb"\1*", line, count=1)


def _near(rng: random.Random, known: list[bytes], directory: bytes) -> bytes:
    """Returns a pattern that matches, or almost matches, one of the paths."""
    below = [path[len(directory) + 1 :] for path in known if path.startswith(directory + b"/")] if directory else known
    parts = (rng.choice(below) if below else b"a").split(b"/")
    parts = parts[-rng.randint(1, len(parts)) :] if rng.random() < 0.4 else parts
    out = [_blur_part(rng, part) for part in parts]
    if rng.random() < 0.3:
        out.insert(rng.randint(0, len(out)), rng.choice((b"**", b"**", b"*", b"***")))
    slash = b"\\/" if rng.random() < 0.05 else b"/"
    return (b"/" if rng.random() < 0.3 else b"") + slash.join(out) + (b"/" if rng.random() < 0.25 else b"")


def _blur_part(rng: random.Random, part: bytes) -> bytes:
    if rng.random() < 0.3:
        return part
    return b"".join(_blur(rng, bytes((byte,))) for byte in part)


def _blur(rng: random.Random, char: bytes) -> bytes:
    if rng.random() < 0.55:
        return b"\\" + char if char in b"*?[\\ !#" and rng.random() < 0.7 else char
    kinds = (b"*", b"?", b"\\" + char, b"[" + char + b"]", b"[!" + char + b"]", char + b"*", b"*" + char, b"**")
    return rng.choice((*kinds, b"[[:" + rng.choice(CLASSES) + b":]]", rng.choice(ATOMS)))


def write_case(top: bytes, case: Case) -> None:
    """Makes the directories and ignore files of a case; files need not exist for git to judge their names."""
    for directory in sorted(case.directories):
        os.makedirs(os.path.join(top, directory), exist_ok=True)
    for directory, content in case.ignores.items():
        Path(os.fsdecode(os.path.join(top, directory, b".gitignore"))).write_bytes(content)


def make_repository(root: Path) -> None:
    """Makes an empty repository that no template has touched."""
    root.mkdir(parents=True, exist_ok=True)
    git("init", "-q", "--template=", ".", cwd=root)


def git_version() -> tuple[int, ...]:
    """Returns the version of the git that is asked."""
    return tuple(int(part) for part in re.findall(rb"\d+", git("version"))[:2])


def ask_git(root: Path, paths: list[bytes], *options: str) -> list[bool | None]:
    """Returns git's verdict for each path, in order: ignored, explicitly not, or no pattern."""
    asked = [b"./" + path for path in paths]  # a leading colon would be magic
    command = (*options, "check-ignore", "--no-index", "-z", "--stdin", "-v", "-n")
    fields = git(*command, cwd=root, stdin=b"\0".join([*asked, b""]), check=False).split(b"\0")[:-1]
    assert fields[3::4] == asked
    found = zip(fields[0::4], fields[2::4], strict=True)
    return [(not pattern.startswith(b"!")) if source else None for source, pattern in found]
