"""Git's configuration format, compared with what git itself reads."""

from __future__ import annotations

import subprocess

import pytest

from mulligan.model.gitconfig import parse_git_config

SAMPLES = [
    "[core]\n\texcludesFile = ~/x\n",
    "[core] excludesFile = same-line\n",
    '[core]\na = "quoted # not a comment" # a comment\n',
    "[core]\na = trailing blanks   \t\n",
    "[core]\na = inner   blanks stay\n",
    "[core]\na = one\\\ntwo\n",
    '[core]\na = "tab\\tand\\nnewline \\"q\\" \\\\"\n',
    '[core]\na = half "quo ted" rest ; c\n',
    "[Core]\nMixedCase = 1\n",
    '[remote "Ori.Gin"]\nurl = u\n',
    '[remote "a\\"b\\\\c"]\nurl = u\n',
    "[remote.Dotted]\nurl = u\n",
    "# comment\n; other\n[a]\nb=1\n[c]\nd=2\n[a]\nb=3\n",
    "[a]\nb=1\r\nc = 2\r\n",
    "\ufeff[a]\nb=1\n",
    "[a]\nempty =\n",
    "[a]\nlast = without newline",
    "[a]\nflag\nb=1\n",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_the_parser_agrees_with_git(tmp_path, text):
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    listed = subprocess.run(["git", "config", "-z", "--file", file, "--list"], capture_output=True, check=True).stdout
    expected = [tuple(row.split("\n", 1)) if "\n" in row else (row, None) for row in listed.decode().split("\0") if row]
    assert list(parse_git_config(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["[", "[a", '[a "b', "]", "=", "a = 1", "[a]\n= 1\n", "[a]\nb = \\", '[a]\nb = "open\n', "[a]\nb c = 1", "\0"],
)
def test_broken_text_raises_nothing(text):
    list(parse_git_config(text))


def test_a_broken_line_does_not_hide_the_next():
    assert list(parse_git_config("[a]\n$$$\nb = 1\n[oops\nc = 2\n[d]\ne = 3\n")) == [("a.b", "1"), ("d.e", "3")]
