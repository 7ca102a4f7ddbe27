"""
Ignore rules against the real thing: `git check-ignore` on made-up pattern files and paths.

The short run asks about 20,000 pairs of pattern file and path; MULLIGAN_SWEEP multiplies that. Seeds are fixed, so a
difference found once is found again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ignore_cases import CLASSES, Case, ask_git, git_version, make_case, make_repository, write_case
from mulligan.model.paths import ancestors
from mulligan.scan.ignore import IgnoreRules, Patterns
from tools import sweep

CASES_PER_GIT = 200
PATHS_PER_CASE = 60
NEW_GIT = git_version() >= (2, 52)


def judge(rules: IgnoreRules, case: Case, path: bytes, workspace: bytes = b"") -> bool | None:
    """Walks from the workspace down to a path as the scanner does: not below an ignored directory."""
    skip = len(workspace) + 1 if workspace else 0
    for directory in (directory for directory in ancestors(path) if len(directory) > len(workspace)):
        if rules.verdict(directory[skip:], is_dir=True):
            return True
        rules = rules.enter(directory[skip:], case.ignores.get(directory, b""))
    return rules.verdict(path[skip:], is_dir=path in case.directories)


def from_top(case: Case, path: bytes) -> bool | None:
    return judge(IgnoreRules.base().enter(b"", case.ignores.get(b"", b"")), case, path)


def from_below(case: Case, path: bytes) -> bool | None:
    """The same verdict with the path's own directory as the workspace, the rest above it."""
    workspace = path.rpartition(b"/")[0]
    if any(from_top(case, directory) for directory in ancestors(path)):
        return True
    rules = IgnoreRules.base()
    for directory in [b"", *ancestors(path)]:
        prefix = workspace[len(directory) + 1 if directory else 0 :]
        rules = rules.above(prefix, case.ignores.get(directory, b""))
    return judge(rules, case, path, workspace)


def cases_of(seed: int) -> list[Case]:
    rng = random.Random(seed)
    return [make_case(rng, PATHS_PER_CASE, glued=NEW_GIT) for _ in range(CASES_PER_GIT)]


def answers(root: Path, cases: list[Case]) -> list[tuple[Case, bytes, bool | None]]:
    make_repository(root)
    asked = []
    for number, case in enumerate(cases):
        write_case(os.path.join(os.fsencode(root), b"%d" % number), case)
        asked += [b"%d/%s" % (number, path) for path in case.paths]
    said = iter(ask_git(root, asked))
    return [(case, path, next(said)) for case in cases for path in case.paths]


def test_verdicts_are_those_of_git(tmp_path: Path) -> None:
    """Ignored, taken back or not mentioned: the same as git for every made-up file and path, nested files included."""
    pairs, wrong = 0, []
    for seed in range(sweep(2)):
        for case, path, expected in answers(tmp_path / str(seed), cases_of(seed)):
            pairs += 1
            if expected is not (actual := from_top(case, path)):
                wrong.append((seed, path, expected, actual, case.ignores))
    assert not wrong, f"{len(wrong)} of {pairs} differ: {wrong[:5]}"
    print(f"{pairs} pairs, no difference")


def test_rules_above_the_workspace_count_as_in_the_repository(tmp_path: Path) -> None:
    """A workspace inside a repository gets the verdicts that the repository's root would give."""
    cases = cases_of(1000)[:60]
    wrong = [
        (path, expected, case.ignores)
        for case, path, expected in answers(tmp_path / "repo", cases)
        if expected is not from_below(case, path)
    ]
    assert not wrong, f"{len(wrong)} differ: {wrong[:5]}"


def test_own_lists_read_as_an_ignore_file_would(tmp_path: Path) -> None:
    """A list of patterns matches what a root `.gitignore` with these lines hides, directories with all they hold."""
    cases = [Case({b"": case.ignores[b""]}, case.directories, case.paths) for case in cases_of(2000)[:60]]
    lists = {id(case): Patterns(case.ignores[b""].decode(errors="surrogateescape").split("\n")) for case in cases}
    for case, path, expected in answers(tmp_path / "repo", cases):
        assert bool(expected) is lists[id(case)].match(path, is_dir=path in case.directories), (path, case.ignores)


def test_an_include_opens_every_directory_on_its_way() -> None:
    """Whatever an anchored pattern matches can be reached through directories that it opens."""
    found = 0
    for case in cases_of(3000):
        for line in case.ignores[b""].decode(errors="surrogateescape").split("\n"):
            bare = line.rstrip("\r ").rstrip("/")
            if "/" not in bare or bare.startswith(("**", "/**")):
                continue
            wanted = Patterns([line])
            for path in case.paths:
                if wanted.match(path, is_dir=path in case.directories):
                    found += 1
                    assert all(map(wanted.may_match_below, ancestors(path))), (line, path)
    assert found > 100


@pytest.mark.parametrize("kind", [*CLASSES, b"xdigit"])
def test_character_classes_hold_the_bytes_git_puts_there(kind: bytes, tmp_path: Path) -> None:
    """Each class, by name and alone, for every byte a name can have."""
    make_repository(tmp_path)
    names = [bytes((byte, 0x78)) for byte in range(1, 256) if byte != 0x2F]
    content = b"[[:" + kind + b":]]x\n"
    (tmp_path / ".gitignore").write_bytes(content)
    rules = IgnoreRules.base(content)
    assert ask_git(tmp_path, names) == [rules.verdict(name, is_dir=False) for name in names]


def test_global_excludes_give_way_to_the_repository_and_both_to_ignore_files(tmp_path: Path) -> None:
    """The order of strength is git's: global excludes, then `info/exclude`, then `.gitignore`."""
    for seed in range(sweep(12)):
        case = make_case(random.Random(4000 + seed), 40, glued=NEW_GIT)
        weak, middle, strong = ([*case.ignores.values(), b"a\n", b"!b\n"])[:3]
        root = tmp_path / str(seed)
        make_repository(root)
        write_case(os.fsencode(root), Case({b"": strong}, case.directories, ()))
        (root / ".git" / "info").mkdir(exist_ok=True)
        (root / ".git" / "info" / "exclude").write_bytes(middle)
        (tmp_path / "global").write_bytes(weak)
        said = ask_git(root, list(case.paths), "-c", f"core.excludesFile={tmp_path / 'global'}")
        judged = Case({}, case.directories, ())
        rules = IgnoreRules.base(weak, middle).enter(b"", strong)
        assert said == [judge(rules, judged, path) for path in case.paths], (weak, middle, strong)


def test_stars_glued_to_a_name_are_plain_stars(tmp_path: Path) -> None:
    """`foo**/bar` is not `foo` and any depth: `foobar` is no match, whatever git before 2.52 said."""
    rules = IgnoreRules.base(b"foo**/bar\n")
    assert rules.verdict(b"foobar", is_dir=False) is None
    assert rules.verdict(b"foo/bar", is_dir=False) is True
    make_repository(tmp_path)
    (tmp_path / ".gitignore").write_bytes(b"foo**/bar\n")
    assert ask_git(tmp_path, [b"foobar", b"foo/bar"]) == [None if NEW_GIT else True, True]


def test_odd_line_ends_are_read_as_git_reads_them(tmp_path: Path) -> None:
    """A file without a final newline, with bare carriage returns, a NUL and a byte order mark means what git reads."""
    contents = [
        b"\xef\xbb\xbfa\r\nb\0c\nd\r\r\n\\#e\n#f\nlast\r",
        b"\r\n!\n/\n//\n \na /\nb\\ \n",
        b"\xef\xbb\xbf\xef\xbb\xbfa\n*\0",
    ]
    names = [
        b"a",
        b"b",
        b"c",
        b"d",
        b"d\r",
        b"#e",
        b"#f",
        b"last",
        b"last\r",
        b" ",
        b"a ",
        b"b ",
        b"b\\",
        b"\xef\xbb\xbfa",
    ]
    for number, content in enumerate(contents):
        root = tmp_path / str(number)
        make_repository(root)
        (root / ".gitignore").write_bytes(content)
        rules = IgnoreRules.base(content)
        assert ask_git(root, names) == [rules.verdict(name, is_dir=False) for name in names], content
