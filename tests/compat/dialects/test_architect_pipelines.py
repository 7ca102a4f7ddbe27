"""
Pipelines as architect runs them, behaviour by behaviour (14 to 27), and its defects shown fixed.

Real git, real commands, the real engine; Python agents are small objects with `run`.
"""

from __future__ import annotations

import logging
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan.dialects.architect import (
    CheckpointManager,
    CheckpointsConfig,
    PipelineConfig,
    PipelineRunner,
    PipelineStep,
    PipelineStepResult,
    PipelineValidationError,
    agent_loop,
)
from mulligan.loop import pipeline as pipeline_module
from tools import git


class Answer:
    """What an agent returns."""

    def __init__(self, final_output: str | None = "", status: str = "success", cost: float | None = None) -> None:
        self.final_output = final_output
        self.status = status
        if cost is not None:
            self.cost_tracker = type("Costs", (), {"total_cost_usd": cost})()


class Agents:
    """A factory that remembers what it was asked for, and lets a function be every agent."""

    def __init__(self, work: Any = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.prompts: list[str] = []
        self.work = work

    def __call__(self, **wanted: Any) -> Agents:
        self.calls.append(wanted)
        return self

    def run(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        return self.work(prompt) if self.work else Answer()


@pytest.fixture
def repository(project: Path) -> Path:
    git("init", "-q", "-b", "main", ".", cwd=project)
    (project / "a.txt").write_text("1\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


def runner_of(project: Path, agents: Any, *steps: PipelineStep, **variables: Any) -> PipelineRunner:
    return PipelineRunner(PipelineConfig("p", list(steps), variables), agents, str(project))


def subjects(project: Path, *options: str) -> list[str]:
    return git("log", "--format=%s", *options, cwd=project).decode().splitlines()


def statuses(results: list[PipelineStepResult]) -> list[str]:
    return [result.status for result in results]


# -- 14 to 20: steps ----------------------------------------------------------------------------


def test_14_a_step_with_checkpoint_is_a_commit_that_git_log_lists(repository):
    def work(_prompt: str) -> Answer:
        (repository / "new.txt").write_text("made by the agent\n")
        return Answer()

    (result,) = runner_of(repository, Agents(work), PipelineStep("implement", prompt="x", checkpoint=True)).run()
    assert subjects(repository, "--grep=architect:checkpoint") == ["architect:checkpoint:implement"]
    assert git("show", "HEAD:new.txt", cwd=repository) == b"made by the agent\n"
    (listed,) = CheckpointManager(str(repository)).list_checkpoints()
    assert (listed.step, listed.commit_hash) == (0, result.commit)
    assert mulligan.open(repository).get("architect:checkpoint:implement").id == result.checkpoint


def test_14_the_seeds_yaml(repository):
    (repository / "p.yaml").write_text(
        'steps:\n  - name: implement\n    prompt: "Implementa la feature"\n    checkpoint: true\n\n'
        '  - name: optimize\n    prompt: "Optimiza el rendimiento"\n    checkpoint: true\n'
    )
    PipelineRunner.from_yaml(str(repository / "p.yaml"), {}, Agents(), str(repository)).run()
    assert subjects(repository, "--grep=architect:checkpoint") == [
        "architect:checkpoint:optimize",
        "architect:checkpoint:implement",
    ]


def test_15_steps_are_run_in_order_and_the_factory_gets_agent_and_model(project):
    agents = Agents(lambda _prompt: Answer(cost=0.25))
    results = runner_of(
        project, agents, PipelineStep("a", prompt="1"), PipelineStep("b", "review", "2", model="m")
    ).run()
    assert agents.calls == [{"agent": "build", "model": None}, {"agent": "review", "model": "m"}]
    assert agents.prompts == ["1", "2"]
    assert [(r.step_name, r.status, r.cost, r.checks_passed, r.error) for r in results] == [
        ("a", "success", 0.25, True, None),
        ("b", "success", 0.25, True, None),
    ]
    assert all(result.duration >= 0 for result in results)


def test_16_from_step_skips_the_earlier_ones_and_an_unknown_one_runs_nothing(project):
    agents = Agents()
    runner = runner_of(project, agents, PipelineStep("a", prompt="1"), PipelineStep("b", prompt="2"))
    assert [result.step_name for result in runner.run(from_step="b")] == ["b"]
    assert agents.prompts == ["2"]
    assert runner.run(from_step="nope") == []
    assert agents.prompts == ["2"]


def test_17_a_condition_that_does_not_hold_skips_the_step_alone(project):
    agents = Agents()
    steps = [PipelineStep("a", prompt="1", condition="false"), PipelineStep("b", prompt="2")]
    assert statuses(runner_of(project, agents, *steps).run()) == ["skipped", "success"]
    assert agents.prompts == ["2"]


def test_18_output_var_reaches_the_next_prompt(project):
    agents = Agents(lambda prompt: Answer(f"<{prompt}>"))
    steps = [PipelineStep("a", prompt="plan", output_var="plan"), PipelineStep("b", prompt="do {{plan}}")]
    runner = runner_of(project, agents, *steps)
    runner.run()
    assert agents.prompts == ["plan", "do <plan>"]
    assert runner.variables == {"plan": "<plan>"}


def test_18_no_output_is_empty_text(project):
    runner = runner_of(project, Agents(lambda _: Answer(None)), PipelineStep("a", prompt="x", output_var="v"))
    runner.run()
    assert runner.variables == {"v": ""}


def test_19_a_dry_run_asks_no_agent_and_saves_nothing(repository):
    agents = Agents()
    steps = [PipelineStep("a", prompt="1", checkpoint=True, checks=["touch x"]), PipelineStep("b", prompt="2")]
    assert statuses(runner_of(repository, agents, *steps).run(dry_run=True)) == ["dry_run", "dry_run"]
    assert agents.calls == []
    assert subjects(repository) == ["first"]
    assert mulligan.open(repository).log() == []
    assert not (repository / "x").exists()


def test_20_a_step_that_fails_is_reported_and_the_next_still_runs(project):
    def work(prompt: str) -> Answer:
        if prompt == "1":
            raise RuntimeError("boom")
        return Answer()

    results = runner_of(project, Agents(work), PipelineStep("a", prompt="1"), PipelineStep("b", prompt="2")).run()
    assert [(r.status, r.error) for r in results] == [("failed", "boom"), ("success", None)]


def test_20_an_agent_that_calls_exit_fails_its_step_alone(project):
    def work(prompt: str) -> Answer:
        if prompt == "1":
            sys.exit(3)
        return Answer()

    results = runner_of(project, Agents(work), PipelineStep("a", prompt="1"), PipelineStep("b", prompt="2")).run()
    assert statuses(results) == ["failed", "success"]


@pytest.mark.parametrize(
    ("answer", "status"), [(None, "unknown"), (Answer(status="partial"), "partial"), (object(), "unknown")]
)
def test_20_whatever_status_the_agent_returns(project, answer, status):
    assert statuses(runner_of(project, Agents(lambda _: answer), PipelineStep("a", prompt="x")).run()) == [status]


# -- 21: checks ---------------------------------------------------------------------------------


def test_21_checks_pass_fail_and_stop_nothing(project):
    steps = [
        PipelineStep("a", prompt="1", checks=["true", "echo no; exit 3"]),
        PipelineStep("b", prompt="2", checks=["true"]),
    ]
    first, second = runner_of(project, Agents(), *steps).run()
    assert (first.status, first.checks_passed, second.checks_passed) == ("success", False, True)
    assert first.checks == [
        {"name": "true", "passed": True, "output": ""},
        {"name": "echo no; exit 3", "passed": False, "output": "no\n"},
    ]


def test_21_output_is_the_last_500_characters_of_both_streams(project):
    check = f"{shlex.quote(sys.executable)} -c \"import sys; print('a' * 600); sys.stdout.flush(); sys.stderr.write('end')\""
    (found,) = runner_of(project, Agents())._run_checks([check])
    assert found["passed"]
    assert found["output"] == "a" * 496 + "\nend"


def test_21_checks_run_in_the_workspace(project):
    (found,) = runner_of(project, Agents())._run_checks(["pwd"])
    assert found["output"].strip() == str(project)


def test_21_a_check_that_takes_too_long_is_ended(project, monkeypatch):
    monkeypatch.setattr(pipeline_module, "CHECK_TIMEOUT", 0.3)
    (found,) = runner_of(project, Agents())._run_checks(["echo x; sleep 600"])
    assert (found["passed"], found["output"]) == (False, "Timeout")


# -- 22: checkpoints ----------------------------------------------------------------------------


def test_22_a_checkpoint_is_a_commit_even_when_nothing_changed(repository):
    runner = runner_of(repository, Agents())
    runner._create_checkpoint("quiet")
    assert subjects(repository)[0] == "architect:checkpoint:quiet"
    assert git("diff", "HEAD~1", "HEAD", cwd=repository) == b""


def test_22_trouble_with_it_is_swallowed_and_told(repository):
    def broken(*_: object) -> None:
        raise OSError("disk on fire")

    told: list[tuple[str, Any]] = []
    config = PipelineConfig("p", [PipelineStep("a", prompt="x", checkpoint=True)])
    runner = PipelineRunner(
        config,
        Agents(),
        str(repository),
        checkpointer=broken,
        on_event=lambda name, fields: told.append((name, fields)),
    )
    assert statuses(runner.run()) == ["success"]
    assert [fields["error"] for name, fields in told if name == "pipeline.trouble"] == ["disk on fire"]


# -- 23 and 24: variables and conditions --------------------------------------------------------


def test_23_variables_in_prompts(project):
    runner = runner_of(project, Agents(), name="x", n=3, yes=True)
    assert runner._resolve_vars("{{ name }} {{name}} {{unknown}} {{n}} {{yes}}") == "x x {{unknown}} 3 true"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        *((word, True) for word in ("true", "True", "yes", "YES", "1", "anything", "{{unknown}}", "{{on}}")),
        *((word, False) for word in ("false", "False", "no", "0", "", "   ", "{{off}}", "{{empty}}")),
        ("on == 'true'", True),
        ("on == 'false'", False),
        ("{{on}} != 'true'", False),
    ],
)
def test_24_conditions(project, condition, expected):
    assert runner_of(project, Agents(), on=True, off="no", empty="")._eval_condition(condition) is expected


# -- 25: from_yaml ------------------------------------------------------------------------------


def test_25_from_yaml_with_defaults_and_overrides(project):
    path = project / "my-pipe.yaml"
    path.write_text("variables: {a: 1, b: 2}\nsteps:\n  - prompt: x\n  - {name: n, prompt: y, checks: 'make test'}\n")
    runner = PipelineRunner.from_yaml(path, {"b": "3"}, Agents(), project)
    assert runner.config.name == "my-pipe"
    assert runner.variables == {"a": 1, "b": "3"}
    assert [step.name for step in runner.config.steps] == ["step-1", "n"]
    assert runner.config.steps[1].checks == ["make test"]
    assert runner.config.steps[0] == PipelineStep("step-1", prompt="x")


def test_25_every_validation_error_at_once(project):
    path = project / "bad.yaml"
    path.write_text("steps:\n  - text\n  - {prompt: x, flavour: y}\n  - {task: z}\n  - {prompt: ''}\n")
    with pytest.raises(PipelineValidationError) as caught:
        PipelineRunner.from_yaml(str(path), {}, Agents())
    said = str(caught.value)
    for part in (
        "must be a YAML object, not str",
        "unknown field 'flavour'",
        "unknown field 'task' (did you mean 'prompt'?)",
        "missing 'prompt' (the 'task' field is not valid, use 'prompt')",
        "missing 'prompt' or it is empty",
    ):
        assert part in said
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "Invalid pipeline YAML: "), ("- a", "Invalid pipeline YAML: "), ("name: x", "has no steps defined.")],
)
def test_25_what_is_no_pipeline(project, text, said):
    (project / "p.yaml").write_text(text)
    with pytest.raises(PipelineValidationError, match=re.escape(said)):
        PipelineRunner.from_yaml(str(project / "p.yaml"), {}, Agents())


def test_25_a_missing_file(project):
    with pytest.raises(FileNotFoundError, match="Pipeline file not found: "):
        PipelineRunner.from_yaml(str(project / "none.yaml"), {}, Agents())


# -- 26 and 27 ----------------------------------------------------------------------------------


def test_26_the_results_are_the_runners_and_the_variables_a_copy(project, monkeypatch):
    config = PipelineConfig("p", [PipelineStep("a", prompt="x", output_var="v")], {"k": "1"})
    runner = PipelineRunner(config, Agents(), str(project))
    results = runner.run()
    assert results is runner.results
    assert config.variables == {"k": "1"} and runner.variables is not config.variables
    monkeypatch.chdir(project)
    assert PipelineRunner(config, Agents()).workspace_root == str(Path.cwd())


def test_26_a_second_run_starts_a_new_list_and_leaves_the_first_alone(project):
    runner = runner_of(project, Agents(), PipelineStep("a", prompt="x"))
    first, second = runner.run(), runner.run()
    assert (len(first), len(second)) == (1, 1)
    assert first is not second and second is runner.results


def test_27_what_people_see_in_the_log(project, caplog):
    caplog.set_level(logging.INFO, logger="mulligan")
    steps = [PipelineStep("a", prompt="1"), PipelineStep("b", prompt="2", condition="no")]
    told: list[tuple[str, Any]] = []
    config = PipelineConfig("p", steps)
    PipelineRunner(
        config, Agents(), str(project), on_event=lambda name, fields: told.append((name, dict(fields)))
    ).run()
    assert told[0] == ("pipeline.step_start", {"step": "a", "agent": "build", "index": 1, "total": 2})
    assert [name for name, _ in told] == ["pipeline.step_start", "pipeline.step_done", "pipeline.step_skipped"]
    assert "pipeline.step_start step='a' agent='build' index=1 total=2" in caplog.text
    assert "pipeline.step_skipped step='b'" in caplog.text


def test_the_plan_summary(project):
    steps = [
        PipelineStep("a", prompt="Plan {{what}} " + "x" * 100, checkpoint=True),
        PipelineStep("b", "review", "short", condition="{{ok}}"),
    ]
    assert runner_of(project, Agents(), *steps, what="it").get_plan_summary().splitlines() == [
        "# Pipeline: p",
        "Steps: 2",
        "Variables: what",
        "",
        "1. **a** (build) [checkpoint]",
        "   Plan it " + "x" * 72 + "...",
        "2. **b** (review) (if: {{ok}})",
        "   short",
    ]


# -- the original's defects, fixed --------------------------------------------------------------


def test_fixed_every_step_is_one_undo_away(repository):
    texts = iter(["one\n", "two\n"])

    def work(_prompt: str) -> Answer:
        (repository / "a.txt").write_text(next(texts))
        return Answer()

    (repository / "mine.txt").write_text("not committed, not even added\n")
    runner_of(repository, Agents(work), PipelineStep("a", prompt="x"), PipelineStep("b", prompt="y")).run()
    ws = mulligan.open(repository)
    ws.undo()
    assert (repository / "a.txt").read_text() == "one\n"
    ws.undo()
    assert (repository / "a.txt").read_text() == "1\n"
    assert (repository / "mine.txt").read_text() == "not committed, not even added\n"


def test_fixed_without_a_repository_the_checkpoint_is_the_engines(project):
    def work(_prompt: str) -> Answer:
        (project / "x").write_text("1")
        return Answer()

    (result,) = runner_of(project, Agents(work), PipelineStep("implement", prompt="x", checkpoint=True)).run()
    assert (result.status, result.commit) == ("success", None)
    ws = mulligan.open(project)
    assert ws.get("architect:checkpoint:implement").id == result.checkpoint
    assert not (project / ".git").exists()


def test_fixed_steps_are_found_by_name_also_one_called_step_2(repository):
    texts = iter(["first\n", "second\n"])

    def work(_prompt: str) -> Answer:
        (repository / "a.txt").write_text(next(texts))
        return Answer()

    steps = [
        PipelineStep("step-2", prompt="x", checkpoint=True),
        PipelineStep("implement", prompt="y", checkpoint=True),
    ]
    runner_of(repository, Agents(work), *steps).run()
    manager = CheckpointManager(str(repository))
    assert not manager.rollback(step=2)
    assert manager.rollback(name="step-2")
    assert (repository / "a.txt").read_text() == "first\n"


def test_fixed_secrets_are_not_committed(repository):
    def work(_prompt: str) -> Answer:
        (repository / ".env").write_text("TOKEN=abc\n")
        (repository / "b.txt").write_text("fine\n")
        return Answer()

    runner_of(repository, Agents(work), PipelineStep("s", prompt="x", checkpoint=True)).run()
    assert git("show", "--format=", "--name-only", "HEAD", cwd=repository).split() == [b"b.txt"]


def test_fixed_numbers_and_truth_values_of_yaml_work(project):
    path = project / "p.yaml"
    path.write_text(
        "variables: {n: 3, on: true, f: 1.5}\nsteps: [{prompt: '{{n}} {{on}} {{f}}', condition: \"on == 'true'\"}]\n"
    )
    agents = Agents()
    PipelineRunner.from_yaml(path, None, agents, project).run()
    assert agents.prompts == ["3 true 1.5"]


def test_fixed_a_python_agent_beyond_its_time_is_reported_and_nothing_runs_beside_it(project):
    """A thread cannot be ended: it is asked to stop, and if it does not, no further step is started."""
    import threading

    release = threading.Event()

    class Slow(Agents):
        stopped = False

        def run(self, prompt: str) -> Answer:
            self.prompts.append(prompt)
            release.wait(60)
            return Answer()

        def cancel(self) -> None:
            self.stopped = True
            if self.cooperative:
                release.set()

        cooperative = True

    steps = [PipelineStep("slow", prompt="1", timeout=0.05), PipelineStep("next", prompt="2")]
    agents = Slow()
    results = runner_of(project, agents, *steps).run()
    assert agents.stopped
    assert [(r.step_name, r.status) for r in results] == [("slow", "failed"), ("next", "success")]
    assert results[0].error == "timeout: it did not end within 0.05 s"

    release.clear()
    agents = Slow()
    agents.cooperative = False
    try:
        results = runner_of(project, agents, *steps).run()
    finally:
        release.set()
    assert [(r.step_name, r.status) for r in results] == [("slow", "failed")]
    assert results[0].error == "timeout: it did not end within 0.05 s, and it still runs"


def test_fixed_a_python_agent_within_its_time_and_one_that_fails(project):
    def work(prompt: str) -> Answer:
        if prompt == "bad":
            raise ValueError("mine")
        return Answer("ok")

    steps = [PipelineStep("a", prompt="good", timeout=60), PipelineStep("b", prompt="bad", timeout=60)]
    results = runner_of(project, Agents(work), *steps).run()
    assert [(r.status, r.output, r.error) for r in results] == [("success", "ok", None), ("failed", "", "mine")]


def test_agents_may_be_coroutines(project):
    class Async(Agents):
        async def run(self, prompt: str) -> Answer:
            return Answer(prompt + "!")

    for timeout in (None, 60):
        (result,) = runner_of(project, Async(), PipelineStep("a", prompt="hi", timeout=timeout)).run()
        assert (result.status, result.output) == ("success", "hi!")


# -- the agent loop, which the original documents and does not have -----------------------------


def test_fixed_the_agent_loop_commits_every_n_steps_where_enabled(repository):
    loop = agent_loop(str(repository), CheckpointsConfig(enabled=True, every_n_steps=2))
    for number in range(1, 6):
        with loop.step(f"turn {number}"):
            (repository / "a.txt").write_text(f"{number}\n")
    assert subjects(repository, "--grep=architect:checkpoint") == [
        "architect:checkpoint:step-4 -- turn 4",
        "architect:checkpoint:step-2 -- turn 2",
    ]
    manager = CheckpointManager(str(repository))
    assert manager.rollback(step=2)
    assert (repository / "a.txt").read_text() == "2\n"


def test_fixed_the_agent_loop_saves_before_what_destroys(repository):
    loop = agent_loop(str(repository), CheckpointsConfig(enabled=True, every_n_steps=50))
    (repository / "mine.txt").write_text("not committed\n")
    with loop.tool("bash", {"command": "git clean -fdx"}):
        git("clean", "-fdxq", cwd=repository)
    assert not (repository / "mine.txt").exists()
    assert subjects(repository) == ["first"]
    mulligan.open(repository).undo()
    assert (repository / "mine.txt").read_text() == "not committed\n"


def test_the_agent_loop_is_off_by_default(repository):
    loop = agent_loop(str(repository))
    for number in range(6):
        (repository / "a.txt").write_text(f"{number}\n")
        loop.after_step()
    assert subjects(repository) == ["first"]
    assert mulligan.open(repository).log() == []


# -- command lines ------------------------------------------------------------------------------


def test_an_agent_that_is_a_command_line(project):
    path = project / "p.yaml"
    path.write_text(
        'agents:\n  build: \'sh -c "cat; printf %s \\"$1\\" > said; echo $2" sh {prompt} --model={model}\'\n'
        "steps: [{prompt: \"it's $(touch owned) {{v}}\", model: m, output_var: v}]\nvariables: {v: '{model}; touch owned'}\n"
    )
    (result,) = PipelineRunner.from_yaml(path, workspace_root=project).run()
    assert (result.status, result.output) == ("success", "--model=m")
    assert (project / "said").read_text() == "it's $(touch owned) {model}; touch owned"
    assert not (project / "owned").exists()


def test_a_command_that_fails_or_is_missing_or_takes_too_long(project):
    path = project / "p.yaml"
    path.write_text(
        "agents: {bad: \"sh -c 'echo half; echo why >&2; exit 3'\", none: no-such-program, slow: 'sleep 600'}\n"
        "steps:\n  - {agent: bad, prompt: x, output_var: v}\n  - {agent: none, prompt: x}\n  - {agent: slow, prompt: x, timeout: 0.2}\n"
    )
    runner = PipelineRunner.from_yaml(path, workspace_root=project)
    bad, none, slow = runner.run()
    assert (bad.status, bad.error, runner.variables["v"]) == ("failed", "exit code 3: why", "half")
    assert (none.status, none.error) == ("failed", "The program 'no-such-program' was not found. Nothing was run.")
    assert (slow.status, slow.error) == ("failed", "timeout: it did not end within 0.2 s, and was ended")
