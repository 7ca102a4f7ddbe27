"""The runner beside what the dialect promises: no checkpoint no step, interrupts, variables in checks, who is closed."""

from __future__ import annotations

import pytest

import mulligan
from mulligan.errors import MulliganError, NoRoom
from mulligan.loop.agents import Agents, UnknownAgent
from mulligan.loop.pipeline import PipelineConfig, PipelineRunner, PipelineStep, missing_agents, save_step


class Agent:
    def __init__(self, work=None) -> None:
        self.work = work
        self.prompts: list[str] = []

    def __call__(self, **_: object) -> Agent:
        return self

    def run(self, prompt: str) -> object:
        self.prompts.append(prompt)
        return self.work(prompt) if self.work else None


class Refusing:
    """A workspace whose saves fail from the n-th on."""

    def __init__(self, ws, allowed: int) -> None:
        self._ws, self._allowed = ws, allowed

    def __getattr__(self, name: str) -> object:
        return getattr(self._ws, name)

    def save(self, *args: object, **kwargs: object) -> object:
        self._allowed -= 1
        if self._allowed < 0:
            raise NoRoom("no room")
        return self._ws.save(*args, **kwargs)


def config(*steps: PipelineStep, **variables: object) -> PipelineConfig:
    return PipelineConfig("p", list(steps), dict(variables))


TWO = (PipelineStep("a", prompt="1"), PipelineStep("b", prompt="2"))


def test_strict_no_checkpoint_no_step(ws, project):
    agent = Agent()
    runner = PipelineRunner(config(*TWO), agent, project, workspace=Refusing(ws, 0), strict=True)
    with pytest.raises(NoRoom):
        runner.run()
    assert agent.prompts == []
    runner = PipelineRunner(config(*TWO), agent, project, workspace=Refusing(ws, 1), strict=True)
    results = runner.run()
    assert [(result.step_name, result.status) for result in results] == [("a", "unknown"), ("b", "failed")]
    assert "no room" in str(results[1].error)
    assert agent.prompts == ["1"]


def test_otherwise_the_agents_work_goes_on_and_the_trouble_is_told(ws, project):
    agent, told = Agent(), []
    PipelineRunner(
        config(*TWO),
        agent,
        project,
        workspace=Refusing(ws, 0),
        on_event=lambda name, fields: told.append((name, fields)),
    ).run()
    assert agent.prompts == ["1", "2"]
    assert [fields["error"] for name, fields in told if name == "pipeline.trouble"] == ["no room", "no room"]


def test_a_directory_that_cannot_be_protected_is_trouble_and_no_crash(private_home):
    agent = Agent()
    assert [result.status for result in PipelineRunner(config(TWO[0]), agent, private_home).run()] == ["unknown"]
    with pytest.raises(MulliganError):
        PipelineRunner(config(TWO[0]), agent, private_home, strict=True).run()
    assert agent.prompts == ["1"]


def test_an_interrupt_goes_through_and_the_results_say_where(ws, project):
    def work(prompt: str) -> None:
        (project / "a").write_text(prompt)
        if prompt == "2":
            raise KeyboardInterrupt

    runner = PipelineRunner(config(*TWO), Agent(work), project, workspace=ws)
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    assert [(result.step_name, result.status) for result in runner.results] == [("a", "unknown"), ("b", "interrupted")]
    ws.undo()
    assert (project / "a").read_text() == "1"


def test_a_checkpoint_before_a_step_only_where_something_changed(ws, project):
    (project / "a").write_text("0")
    results = PipelineRunner(config(*TWO), Agent(), project, workspace=ws).run()
    (before,) = ws.log()
    assert [result.before for result in results] == [before.id, before.id]
    assert (before.kind, before.metadata) == ("step", {"pipeline": "p", "pipeline_step": "a"})


def test_variables_in_checks_are_values_and_never_code(ws, project):
    check = "test {{answer}} = \"$(printf '%s' '{{answer}}')\" && test -n \"{{answer}}\""
    step = PipelineStep("a", prompt="x", output_var="answer", checks=[check])

    class Answer:
        status, final_output = "success", "$(touch owned); touch owned # ' \""

    (result,) = PipelineRunner(config(step), Agent(lambda _: Answer()), project, workspace=ws).run()
    assert result.checks_passed, result.checks
    assert not (project / "owned").exists()


def test_a_huge_variable_in_a_check_fails_the_check_with_a_sentence(ws, project):
    step = PipelineStep("a", prompt="x", checks=["test -n {{big}}"])
    (result,) = PipelineRunner(config(step, big="x" * 300_000), Agent(), project, workspace=ws).run()
    assert not result.checks_passed
    assert "too long for the system" in result.checks[0]["output"]


def test_a_step_is_saved_without_a_commit_where_that_is_wanted(ws, project):
    step = PipelineStep("implement", prompt="x", checkpoint=True)
    (result,) = PipelineRunner(config(step), Agent(), project, workspace=ws, checkpointer=save_step).run()
    assert ws.get("architect:checkpoint:implement").id == result.checkpoint
    assert result.commit is None


def test_odd_answers_of_agents(ws, project):
    import enum

    class Status(enum.Enum):
        DONE = "success"

    class Answer:
        status, final_output, error = Status.DONE, 5, object()
        cost_tracker = type("Costs", (), {"total_cost_usd": "dear"})()

    (result,) = PipelineRunner(
        config(PipelineStep("a", prompt="x")), Agent(lambda _: Answer()), project, workspace=ws
    ).run()
    assert (result.status, result.output, result.error, result.cost) == ("success", "5", None, 0.0)


def test_variables_stay_for_a_later_run(ws, project):
    class Answer:
        status, final_output = "success", "known"

    agent = Agent(lambda _: Answer())
    steps = (PipelineStep("a", prompt="1", output_var="v"), PipelineStep("b", prompt="{{v}}"))
    runner = PipelineRunner(config(*steps), agent, project, workspace=ws)
    runner.run()
    runner.run(from_step="b")
    assert agent.prompts == ["1", "known", "known"]


def test_agents_that_are_missing_are_known_before_anything_runs(tmp_path):
    agents = Agents({"a": "x {model}", "b": "y"}, cwd=str(tmp_path))
    assert missing_agents(config(PipelineStep("1", "b"), PipelineStep("2", "c"), PipelineStep("3", "c")), agents) == [
        "c"
    ]
    with pytest.raises(UnknownAgent, match="has none"):
        missing_agents(config(PipelineStep("1", "a")), agents)


def test_a_workspace_that_the_runner_opened_is_closed_again(project):
    runner = PipelineRunner(config(TWO[0]), Agent(), project)
    runner.run()
    assert runner._opened is None
    assert len(mulligan.open(project).log()) == 1
