"""
The documentation does what it says.

Links lead somewhere, examples run, commands and options exist, and nothing public is missing from the reference.
A block that must not run is preceded by a line `<!-- no-run -->`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import mulligan
from mulligan import errors
from mulligan.cli.commands import EXIT_CODES
from mulligan.model import checkpoint
from tools import plain_environment, run_mulligan

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^(?P<mark>```+)(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=mark)$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
NO_RUN = "<!-- no-run -->"


class Block(NamedTuple):
    """One fenced block: its language, its text, the line it starts on."""

    language: str
    body: str
    line: int
    runs: bool


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        before = text[: found.start()].rstrip()
        yield Block(
            found["language"], found["body"], text.count("\n", 0, found.start("body")), not before.endswith(NO_RUN)
        )


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


# -- links --------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as hosting services make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False
    path, _, anchor = target.partition("#")
    aim = (page.parent / path).resolve() if path else page
    return not aim.exists() or (bool(anchor) and anchor not in anchors(aim))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that exists, and a heading in it."""
    assert [link["target"] for link in LINK.finditer(prose(page)) if broken(page, link["target"])] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """`tests/…`, `src/…`, `bench/…` and `docs/…` in code spans are places in this repository."""
    named = re.findall(r"`((?:tests|src|bench|docs|\.ci)/[\w./-]*)`", prose(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


NAME_IN_FILE = re.compile(r"`(?P<names>[A-Za-z_]\w*)`[^`\n]{0,12}\(`(?P<file>[\w/]+\.py)`\)")
FILE_WITH_NAMES = re.compile(r"`(?P<file>[\w/]+\.py)` \((?P<names>`\w+`(?:, `\w+`)*)\)")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs/explanation/architecture.md"], ids=name_of)
def test_names_that_a_page_places_in_a_file_are_there(page: Path) -> None:
    """A newcomer looks for `KEYS` where (`settings/files.py`) says."""
    text = prose(page)
    found = [*NAME_IN_FILE.finditer(text), *FILE_WITH_NAMES.finditer(text)]
    assert found
    for place in found:
        files = [base / place["file"] for base in (ROOT, ROOT / "src/mulligan") if (base / place["file"]).exists()]
        words = re.findall(r"\w+", files[0].read_text()) if files else []
        assert set(re.findall(r"\w+", place["names"])) <= set(words), place[0]


def test_every_page_can_be_reached_from_the_index() -> None:
    """No page is an orphan: following links from docs/README.md finds all of docs."""
    index = ROOT / "docs" / "README.md"
    found, todo = {index}, [index]
    while todo:
        page = todo.pop()
        for link in LINK.finditer(prose(page)):
            aim = (page.parent / link["target"].partition("#")[0]).resolve()
            near = [aim] if aim.suffix == ".md" else sorted(aim.glob("*.md")) if aim.is_dir() else []
            fresh = [one for one in near if one.exists() and one not in found]
            found.update(fresh)
            todo += fresh
    assert [name_of(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in found] == []


# -- Python -------------------------------------------------------------------------------------

WITH_PYTHON = [page for page in PAGES if any(b.language == "python" and b.runs for b in blocks(page))]


@pytest.fixture
def example(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project that the examples of the documentation talk about."""
    (project / "src").mkdir()
    for file in ("app.py", "shop.py", "src/app.py"):
        (project / file).write_text("print('hello')\n", encoding="utf-8")
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_examples_run(page: Path, example: Path) -> None:
    """The Python blocks of a page run from top to bottom as one program."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and block.runs:
            # Blank lines before it give a traceback the page's own line numbers.
            code = compile("\n" * block.line + block.body, str(page), "exec")
            exec(code, namespace)


# -- the command line ---------------------------------------------------------------------------


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=plain_environment(), capture_output=True, text=True, check=False)


@cache
def help_of(*words: str) -> str:
    """Returns the help of the program, or of one command; empty where there is no such command."""
    done = run_mulligan([*words, "--help"], cwd=ROOT, env=plain_environment())
    return done.stdout if done.returncode == 0 else ""


def commands(page: Path) -> Iterator[list[str]]:
    """Yields every `mulligan …` of a page, as words: from shell blocks, and from code in its sentences."""
    for block in blocks(page):
        if block.language in {"sh", "bash", "console"}:
            for line in block.body.splitlines():
                for part in re.split(r"&&|;|\|", line.removeprefix("$ ")):
                    words = shlex.split(part, comments=True)
                    if words and words[0].rpartition("/")[2] == "mulligan":
                        yield words
    for code in re.findall(r"`(mulligan [a-z-][^`\n]*)`", prose(page)):
        yield shlex.split(code.replace("…", ""))


def wrong(words: list[str]) -> str:
    """Returns what is wrong with a command line, or nothing."""
    rest, known = words[1:], help_of()
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if not has_option(known, option):
            return f"mulligan has no option {option}"
        if option in {"-C", "--store", "--wait"} and rest:
            rest.pop(0)
    if not rest or rest[0].isupper() or rest[0].startswith("["):  # a placeholder: COMMAND, [-C DIR]
        return ""
    command, known = rest[0], help_of(rest[0])
    if not known:
        return f"mulligan has no command {command}"
    options = rest[1 : rest.index("--")] if "--" in rest else rest[1:]
    missing = [o for o in options if o.startswith("-") and o != "-" and not has_option(known, o.partition("=")[0])]
    return f"mulligan {command} has no option {missing[0]}" if missing else ""


def has_option(text: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    """Whatever a page tells people to type is known to the program."""
    assert [found for words in commands(page) if (found := wrong(words))] == []


def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    """Its shell blocks are one script, and leave what the text says they leave."""
    page = ROOT / "docs" / "tutorial" / "first-undo.md"
    script = "\n".join(block.body for block in blocks(page) if block.language == "sh")
    program = f'mulligan() {{ {shlex.quote(sys.executable)} -m mulligan "$@"; }}\nset -euo pipefail\n'
    done = run("bash", "-c", program + script, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shop = tmp_path / "shop"
    assert (shop / "shop.py").read_text() == "def total(prices):\n    return sum(prices)\n"
    assert (shop / "prices.txt").read_text() == "milk 2\nbread 3\nsalt 1\n"
    assert sorted(entry.name for entry in shop.iterdir()) == ["prices.txt", "shop.py"]


# -- the reference is complete ------------------------------------------------------------------


def in_reference(page: str) -> str:
    return (REFERENCE / page).read_text(encoding="utf-8")


def public_errors() -> list[type[errors.MulliganError]]:
    return [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.MulliganError)]


@pytest.mark.parametrize("page", ["python.md", "exit-codes.md"])
def test_every_error_is_in_the_reference(page: str) -> None:
    """Each class stands there with its exit code, on one line."""
    lines = in_reference(page).splitlines()
    missing = [
        f"{cls.__name__} (exit {cls.exit_code})"
        for cls in public_errors()
        if not any(
            re.search(rf"\b{cls.__name__}\b", line) and re.search(rf"\b{cls.exit_code}\b", line) for line in lines
        )
    ]
    assert missing == []


@pytest.mark.parametrize("code", EXIT_CODES)
def test_every_exit_code_is_in_the_reference(code: int) -> None:
    """A row of the table begins with it."""
    assert re.search(rf"^\|\s*`?{code}`?\s*\|", in_reference("exit-codes.md"), re.MULTILINE)


def test_every_public_name_is_in_the_reference() -> None:
    """What can be imported, and what a workspace can do, is described."""
    text = in_reference("python.md")
    verbs = [name for name in vars(mulligan.Workspace) if not name.startswith("_")]
    assert [name for name in [*mulligan.__all__, *verbs] if not re.search(rf"\b{name}\b", text)] == []


def test_every_kind_and_reason_is_explained() -> None:
    """The glossary knows the kinds, the guide to protection the reasons."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "howto" / "protect-a-project.md").read_text(encoding="utf-8")
    assert [kind for kind in checkpoint.KINDS if f"`{kind}`" not in glossary] == []
    reasons = [value for name, value in vars(checkpoint).items() if name.isupper() and isinstance(value, str)]
    assert reasons
    assert [reason for reason in reasons if f"`{reason}`" not in guide] == []


def test_readme_carries_the_commands_that_ci_runs() -> None:
    """`.ci/run` takes both lines from README.md; each is one line in a block of its own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("test", "use"):
        assert re.search(rf"^<!-- command:{name} -->\n```sh\n[^\n]+\n```$", text, re.MULTILINE), name
