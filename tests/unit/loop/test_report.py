"""Reports: the three formats, and text from agents that cannot pretend to be ours."""

from __future__ import annotations

import json

import pytest

from mulligan.loop.report import FORMATS, as_dict, report
from mulligan.loop.steps import PipelineStepResult

RESULTS = [
    PipelineStepResult("plan", "success", cost=0.5, duration=1.0, output="fine"),
    PipelineStepResult("build", "failed", duration=2.0, error="boom\n```\n# not a heading of ours"),
    PipelineStepResult(
        "check | it",
        "success",
        checks_passed=False,
        checks=[{"name": "a `b`", "passed": False, "output": "<script>"}, {"name": "c", "passed": True, "output": "x"}],
        commit="abc123",
    ),
    PipelineStepResult("later", "skipped"),
]


def test_the_json_form():
    document = json.loads(report("json", "p", RESULTS))
    assert document == as_dict("p", RESULTS)
    assert (document["ok"], document["cost"], document["duration"]) == (False, 0.5, 3.0)
    assert [step["ok"] for step in document["steps"]] == [True, False, False, True]


@pytest.mark.parametrize("how", ["markdown", "github"])
def test_the_markdown_forms(how):
    text = report(how, "p", RESULTS)
    assert text.count("\n| `") == 4
    assert "| `check \\| it` |" in text and "1 of 2" in text and "$0.5000" in text
    assert "````text\nboom\n```\n# not a heading of ours\n````" in text
    assert "Check ``a `b` `` failed" in text or "Check `` a `b` `` failed" in text
    assert ("</details>" in text) is (how == "github")


def test_what_went_wrong_is_open_and_the_rest_folded():
    text = report("github", "p", RESULTS)
    assert text.startswith("## ❌ Pipeline `p`")
    assert "<details><summary>plan</summary>" in text
    assert "<details open><summary>build</summary>" in text
    assert report("github", "p", RESULTS[:1]).startswith("## ✅")


def test_an_empty_run_and_a_long_output():
    for how in FORMATS:
        assert report(how, "p", [])
    long = report("markdown", "p", [PipelineStepResult("a", "success", output="x" * 10_000)])
    assert len(long) < 3000
