"""Agents that are command lines or factories: words, placeholders, what cannot be had."""

from __future__ import annotations

import sys

import pytest

from mulligan.loop.agents import Agents, CommandAgent, UnknownAgent, load_factory, split_command
from mulligan.loop.commands import CommandError


def test_a_command_line_is_split_once():
    assert split_command("claude -p {prompt} --note 'two words'") == ["claude", "-p", "{prompt}", "--note", "two words"]
    for bad in ("", "   ", "'open", "{prompt} -x"):
        with pytest.raises(ValueError, match=r"."):
            split_command(bad)


def test_placeholders_are_filled_inside_words_and_only_once(tmp_path):
    agent = CommandAgent(["x", "--p={prompt}", "{model}", '{"json": {}}', "{other}"], cwd=str(tmp_path), model="m")
    assert agent.arguments("a {model} b") == ["x", "--p=a {model} b", "m", '{"json": {}}', "{other}"]


def test_a_model_that_is_asked_for_and_not_there(tmp_path):
    with pytest.raises(CommandError, match="model"):
        CommandAgent(["x", "{model}"], cwd=str(tmp_path)).run("p")


def test_the_answer_is_the_standard_output_without_its_last_line_ends(tmp_path):
    answer = CommandAgent(["sh", "-c", "printf 'a\\nb\\n\\n'; echo noise >&2"], cwd=str(tmp_path)).run("p")
    assert (answer.status, answer.final_output, answer.error) == ("success", "a\nb", None)


def test_a_command_that_a_signal_ended(tmp_path):
    answer = CommandAgent(["sh", "-c", "kill -9 $$"], cwd=str(tmp_path)).run("p")
    assert (answer.status, answer.error) == ("failed", "ended by signal 9")


def test_only_the_end_of_a_long_complaint_is_told(tmp_path):
    answer = CommandAgent([sys.executable, "-c", "import sys; sys.exit('x' * 5000 + 'end')"], cwd=str(tmp_path)).run(
        "p"
    )
    assert answer.error is not None and answer.error.endswith("xend") and len(answer.error) < 600


def test_output_can_be_followed(tmp_path):
    seen: list[bytes] = []
    Agents({"build": "echo {prompt}"}, cwd=str(tmp_path), on_output=seen.append)(agent="build").run("hi")
    assert b"".join(seen) == b"hi\n"


def test_who_provides_what(tmp_path, monkeypatch):
    (tmp_path / "some_agents.py").write_text(
        "def make(agent, model):\n    return (agent, model)\n\n\nclass Holder:\n    make = staticmethod(make)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    agents = Agents({"a": "echo", "b": "python:some_agents:make"}, cwd=str(tmp_path))
    assert isinstance(agents(agent="a"), CommandAgent)
    assert agents(agent="b", model="m") == ("b", "m")
    assert [agents.knows(name) for name in "abc"] == [True, True, False]
    with pytest.raises(UnknownAgent, match="No command is set"):
        agents(agent="c")
    assert Agents({}, cwd=str(tmp_path), fallback="some_agents:Holder.make")(agent="c") == ("c", None)
    assert Agents({}, cwd=str(tmp_path), fallback=lambda agent, model: agent)(agent="d") == "d"


def test_a_factory_is_imported_when_it_is_needed_and_not_before(tmp_path, monkeypatch):
    (tmp_path / "loud_agents.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    agents = Agents({"b": "python:loud_agents:make"}, cwd=str(tmp_path))
    assert agents.knows("b")
    with pytest.raises(UnknownAgent, match="RuntimeError: imported"):
        agents.load()


@pytest.mark.parametrize("spec", ["x", "x:", ":y", "", "python:x", "no.such:thing", "json:nothing", "json:__name__"])
def test_what_is_no_factory(spec):
    with pytest.raises(UnknownAgent):
        load_factory(spec)
