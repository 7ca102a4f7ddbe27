"""One file in the web timeline: its versions, and who wrote its lines."""

from __future__ import annotations

import pytest

from served import served
from timelines import shop

pytest.importorskip("starlette")


def test_a_file_has_versions_and_each_line_its_prompt(project, store):
    with served(shop(project, store)) as client:
        versions = client.get("/api/history?path=README.md").json["versions"]
        lines = client.get("/api/blame?path=README.md").json["lines"]
        assert client.get("/api/blame?path=none.txt").status == 404
        assert client.get("/api/blame").status == 400
    assert len(versions) == 2 and versions[-1]["label"] == "before the agents"
    assert lines[4]["text"] == "## Discounts" and lines[4]["asked"].startswith("Write a section on discounts")
    assert lines[0]["by"] == "first"


def test_a_search_finds_prompts_commands_and_lines(project, store):
    with served(shop(project, store)) as client:
        matches = client.get("/api/search?q=argon2").json["matches"]
        assert client.get("/api/search?q=nothing-like-this").json["matches"] == []
        assert client.get("/api/search").status == 400
    assert {"prompt", "content"} <= {each["kind"] for each in matches}
