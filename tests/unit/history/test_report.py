"""`report`: what really happened, as text, Markdown, HTML and JSON; signed, and verified."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mulligan
import mulligan.aio
from mulligan.history.report import chain_problems, next_link
from mulligan.present.report import escaped
from mulligan.present.report_file import read_report
from told import Session, write
from tools import cli, cli_json

ONE, TWO = "aaaa1111-0000-4000-8000-000000000001", "bbbb2222-0000-4000-8000-000000000002"
ODD = "<script>alert('x')</script> --> & password=hunter2secret"


@pytest.fixture
def day(project):
    """Two sessions; a command that changes files it does not name; an undo; a secret; an ignored file."""
    write(project, {"a.py": "one\n", ".env": "TOKEN=abcdefgh12345678\n", ".gitignore": "*.log\n", "x.log": "l\n"})
    mulligan.open(project).save("start")
    one, two = Session(project, ONE), Session(project, TWO)
    one.prompt("add b and run the script")
    one.does("touch b.py", {"b.py": "b\n"})
    one.does("./run.sh", {"src/hidden.py": "h\n", "a.py": "two\n"})
    one.stop()
    write(project, {"a.py": "by hand\n"})
    two.prompt(ODD)
    two.does("false", {}, failed=True)
    two.does("echo c > c.py", {"c.py": "c\n"})
    two.stop()
    mulligan.open(project).undo()
    return project


def test_a_report_tells_prompts_commands_and_paths_that_no_tool_named(day):
    report = cli_json("report", cwd=day)["report"]
    assert report["prompts"][0]["text"] == "add b and run the script"
    files = {each["path"]: each for each in report["files"]}
    assert set(files) == {"a.py", "b.py", "c.py", "src/hidden.py"}
    assert files["b.py"]["named"] and not files["src/hidden.py"]["named"]
    assert files["a.py"]["by"] == ["claude-code", "changed between turns"]
    assert report["prompts"][1]["undone"] and not report["prompts"][0]["undone"]
    assert [(each["verb"], each["removed"]) for each in report["restores"]] == [("undo", ["c.py"])]
    assert report["sealed"] == [".env"] and {"path": "x.log", "reason": "ignored", "detail": ""} in report["not_saved"]
    totals = report["totals"]
    assert (totals["prompts"], totals["commands"], totals["failed"], totals["not_named"]) == (2, 4, 1, 2)
    assert "hunter2secret" not in json.dumps(report)


def test_a_report_of_one_session_leaves_the_others_out(day):
    report = mulligan.open(day).report("aaaa").to_dict()
    assert (report["session"], len(report["prompts"]), report["agents"]) == (ONE, 1, ["claude-code"])
    assert 0 < report["chain"]["count"] < mulligan.open(day).report().to_dict()["chain"]["count"]
    assert cli("report", "nosuch", cwd=day).returncode == 1


def test_the_text_names_what_matters_and_an_empty_history_is_no_mistake(day, tmp_path):
    text = cli("report", cwd=day).stdout
    for words in ("add b and run the script", "no tool named it", "Undos and restores", "saved sealed", "(failed)"):
        assert words in text
    assert cli("report", cwd=tmp_path).returncode == 10
    write(tmp_path, {"project2/a": "x"})
    mulligan.open(tmp_path / "project2").save("only a save")
    assert cli_json("report", cwd=tmp_path / "project2")["report"]["totals"]["prompts"] == 0


class _Page(HTMLParser):
    """The tags of a page, and the text that a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.seen, self.inside = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside not in {"script", "style"}:
            self.seen.append(data)


def test_html_is_one_escaped_file_without_scripts_or_requests(day):
    assert cli("report", "--html", "r.html", cwd=day).returncode == 0
    text, page = (day / "r.html").read_text(), _Page()
    page.feed(text)
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "mulligan-report"}]
    assert any("<script>alert" in seen for seen in page.seen) and "<script>alert" not in text
    assert not [attrs for _, attrs in page.tags if {"src", "href", "onclick"} & set(attrs)]
    assert "prefers-color-scheme:dark" in text and 'name="viewport"' in text
    assert "default-src &#x27;none&#x27;" in text


@given(st.text(max_size=60))
def test_markdown_text_starts_nothing(text):
    shown = escaped(text)
    assert "\n" not in shown and "<" not in shown
    assert not re.match(r"([#+=>-]|\d+[.)])", shown)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~]", shown)


needs_ssh = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")


@pytest.fixture
def signers(tmp_path):
    """A key, and a list that trusts it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    kind, key, *_ = (tmp_path / "key.pub").read_text().split()
    (tmp_path / "signers").write_text(f"me@example.org {kind} {key}\n")
    return tmp_path


@needs_ssh
def test_a_signed_report_is_verified_and_every_kind_of_edit_is_found(day, signers):
    assert cli("report", "--html", "r.html", "--md", "r.md", "--sign", str(signers / "key"), cwd=day).returncode == 0
    printed = cli("--json", "report", "--sign", str(signers / "key"), cwd=day).stdout
    (day / "r.json").write_text(printed)
    for name in ("r.html", "r.md", "r.json"):
        done = cli("report", "--verify", name, "--signers", str(signers / "signers"), cwd=day)
        assert done.returncode == 0 and "me@example.org signed it" in done.stdout, name
    assert "does not prove" in done.stdout
    page = (day / "r.html").read_text()
    edits = {
        "text": page.replace("everything kept of", "nothing kept of"),
        "data": page.replace('"verb":"undo"', '"verb":"redo"'),
        "cut": page[: page.index("</script>")],
        "twice": page + page,
    }
    for what, text in edits.items():
        assert text != page
        (day / "e.html").write_text(text)
        done = cli("report", "--verify", "e.html", "--signers", str(signers / "signers"), cwd=day)
        assert done.returncode == 1, what
    other = signers / "other"
    other.write_text(
        "you@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGwYxcuFhQ4vY0dZ0V8yq0N5qkGxq0QmZ1cM2f4lJc6T\n"
    )
    assert "is not in" in cli("report", "--verify", "r.md", "--signers", str(other), cwd=day).stdout
    assert cli("report", "--verify", "r.md", cwd=day).returncode == 3


def test_an_unsigned_report_is_not_taken_for_a_signed_one(day):
    cli("report", "--md", "r.md", cwd=day)
    done = cli("report", "--verify", "r.md", "--signers", "nowhere", cwd=day)
    assert done.returncode == 1 and "not signed" in done.stdout
    (day / "other.md").write_text("# not a report\n")
    assert cli("report", "--verify", "other.md", cwd=day).returncode == 1
    assert cli("report", "--sign", cwd=day).returncode == 1  # there is no key in this home
    assert cli("report", "--signers", "x", cwd=day).returncode == 2


def test_coroutines_report_too(day):
    async def made():
        async with await mulligan.aio.open(day) as ws:
            return await ws.report()

    assert asyncio.run(made()).to_dict()["totals"]["prompts"] == 2


def chain(size):
    links, before = [], "0" * 64
    for number in range(1, size + 1):
        about = {"number": number, "id": f"id{number}", "commit": f"c{number}", "at": "t", "kind": "step"}
        before = next_link(before, about)
        links.append({**about, "link": before})
    return {"algorithm": "sha256", "count": size, "head": before, "links": links}


@given(st.integers(2, 12), st.data())
def test_a_chain_shows_truncation_reordering_edits_and_additions(size, data):
    whole = chain(size)
    assert chain_problems(whole) == []
    broken = copy.deepcopy(whole)
    at = data.draw(st.integers(0, size - 1))
    what = data.draw(st.sampled_from(["cut", "swap", "edit", "repeat", "shorten", "head"]))
    links = broken["links"]
    if what == "cut":
        del links[at]
    elif what == "swap":
        other = (at + 1) % size
        links[at], links[other] = links[other], links[at]
    elif what == "edit":
        links[at]["commit"] += "x"
    elif what == "repeat":
        links.insert(at, dict(links[at]))
    elif what == "shorten":
        broken.update(links=links[:at], count=at)
    else:
        broken["head"] = "1" * 64
    assert chain_problems(broken)


@given(st.text())
def test_no_file_makes_the_reader_fail(text):
    found = read_report(text)
    assert found is None or found.document is not None
