"""
Pipelines: steps that agents carry out one after another, each of them one `undo` away.

Before a step runs its agent, the engine saves what is there. Each step with `checkpoint: true` is committed to the user's
branch as `architect:checkpoint:NAME`, where there is a repository; trailers say if the step or its checks failed. A failed
step does not end the pipeline, except where its agent could not be stopped: it would write while the next one works.
`run` starts a new list of results each time and returns it, the same object as `results`; the variables stay, so that a
second run from a later step knows what earlier steps said.
"""

from __future__ import annotations

import enum
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mulligan.committing.commands import Git
from mulligan.committing.labels import of_name
from mulligan.engine.workspace import Workspace
from mulligan.errors import MulliganError
from mulligan.loop import conditions
from mulligan.loop.agents import AgentFactory, Agents, CommandAgent, UnknownAgent
from mulligan.loop.commands import CommandError, run_shell
from mulligan.loop.commits import CommitCheckpoints
from mulligan.loop.pipeline_file import PipelineValidationError, read_pipeline
from mulligan.loop.resuming import PipelineProgress
from mulligan.loop.steps import PipelineConfig, PipelineStep, PipelineStepResult
from mulligan.loop.worker import AgentCall
from mulligan.settings import resolve

__all__ = ["PipelineConfig", "PipelineRunner", "PipelineStep", "PipelineStepResult", "PipelineValidationError"]

CHECK_TIMEOUT = 120
CHECK_OUTPUT = 500
CHECK_NAME = 60
PREVIEW = 80

Teller = Callable[[str, Mapping[str, Any]], object]
#: Makes the checkpoint of a finished step, with remarks on it; returns the name of its commit, None where there is none.
Checkpointer = Callable[[Workspace, str, Sequence[str]], str | None]

_log = logging.getLogger("mulligan.pipeline")


def commit_step(workspace: Workspace, step_name: str, remarks: Sequence[str] = ()) -> str | None:
    """Commits a step to the user's branch and saves it with the engine; without a repository the latter alone."""
    label = of_name(step_name)._replace(remarks=tuple(remarks))
    made = CommitCheckpoints(workspace).create(label, allow_empty=True)
    if made is None:
        save_step(workspace, step_name)  # nothing changed, and the step is to be found by its name all the same
        return None
    if made.trouble is not None or made.left_out:
        _log.warning("pipeline.commit_only: %s", made.trouble or f"not committed: {', '.join(made.left_out)}")
    return made.commit if Git(workspace.root).is_repository else None


def save_step(workspace: Workspace, step_name: str, remarks: Sequence[str] = ()) -> None:
    """Saves a step with the engine alone, under the name that its commit would have."""
    about = {"pipeline_step": step_name, **({"remarks": list(remarks)} if remarks else {})}
    workspace.save(of_name(step_name).subject, description="; ".join(remarks), kind="step", metadata=about)


class PipelineRunner:
    """
    Runs the steps of a pipeline.

    `agent_factory(agent=, model=)` returns an object with `run(prompt)`, whose result may have `status`, `final_output`,
    `error` and `cost_tracker.total_cost_usd`. With `strict`, a step is not run when no checkpoint can be made before it.
    """

    def __init__(
        self,
        config: PipelineConfig,
        agent_factory: AgentFactory | None = None,
        workspace_root: str | os.PathLike[str] | None = None,
        *,
        workspace: Workspace | None = None,
        checkpointer: Checkpointer = commit_step,
        strict: bool = False,
        on_event: Teller | None = None,
    ) -> None:
        self.config = config
        self.workspace_root = os.path.abspath(".") if workspace_root is None else os.fspath(workspace_root)
        self.agent_factory = agent_factory or Agents(config.agents, cwd=self.workspace_root)
        self.variables: dict[str, Any] = dict(config.variables)
        self.results: list[PipelineStepResult] = []
        self._given = workspace
        self._opened: Workspace | None = None
        self._checkpointer = checkpointer
        self._strict = strict
        self._on_event = on_event
        self._left_running = ""

    @classmethod
    def from_yaml(
        cls,
        path: str | os.PathLike[str],
        variables: Mapping[str, Any] | None = None,
        agent_factory: AgentFactory | None = None,
        workspace_root: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> PipelineRunner:
        """Returns the runner of a YAML file; the variables given here win over the file's own."""
        config = read_pipeline(path, variables)
        for remark in config.remarks:
            _log.warning("pipeline.file %s: %s", os.fspath(path), remark)
        return cls(config, agent_factory, workspace_root, **options)

    # -- running --------------------------------------------------------------------------------

    def resume(self, variables: Mapping[str, Any] | None = None) -> str:
        """
        Takes up what the steps of an interrupted run said; returns the step for `run(from_step=…)`.

        Raises UserError where no run of this pipeline was interrupted here. `variables` win over what is remembered.
        """
        step, remembered = PipelineProgress(self.workspace, self.config).recall()
        self.variables = {**self.variables, **remembered, **(variables or {})}
        return step

    def run(self, from_step: str | None = None, dry_run: bool = False) -> list[PipelineStepResult]:  # noqa: FBT001, FBT002 - the known signature
        """Runs the steps, all or from one on; an unknown one runs nothing, a failed one does not stop the rest."""
        self.results = []
        self._left_running = ""
        names = [step.name for step in self.config.steps]
        if from_step is not None and from_step not in names:
            return self.results
        first = names.index(from_step) if from_step is not None else 0
        try:
            if not dry_run:
                self._remember(first)
            for index in range(first, len(names)):
                going_on = self._take(index, dry_run=dry_run)
                if not dry_run:
                    self._remember(index + 1)
                if not going_on:
                    break
        finally:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
        return self.results

    def _take(self, index: int, *, dry_run: bool) -> bool:
        """Takes one step; returns whether the next one may follow."""
        step = self.config.steps[index]
        if step.condition is not None and not self._eval_condition(step.condition):
            self._tell("step_skipped", step=step.name, condition=step.condition)
            self._keep(step, "skipped")
            return True
        if dry_run:
            self._keep(step, "dry_run")
            return True
        result = PipelineStepResult(step.name, "failed")
        if not self._save_before(step, result):
            return False
        self._tell("step_start", step=step.name, agent=step.agent, index=index + 1, total=len(self.config.steps))
        self.results.append(result)
        started = time.monotonic()
        try:
            self._ask_agent(step, result)
            result.duration = time.monotonic() - started
            self._check(step, result)
            if step.checkpoint:
                self._keep_checkpoint(step, result)
        except BaseException:
            # Most likely Ctrl-C: the results show which step was interrupted.
            result.status, result.duration = "interrupted", time.monotonic() - started
            raise
        fields = {"status": result.status, "duration": result.duration, "error": result.error, "ok": result.ok}
        self._tell("step_done", step=step.name, **fields)
        return not self._left_running

    def _remember(self, following: int) -> None:
        """Remembers which step is next; a failure is reported with the next checkpoint's."""
        try:
            PipelineProgress(self.workspace, self.config).keep(following, self.variables)
        except (MulliganError, OSError) as error:
            _log.warning("pipeline.progress: %s", error)

    def _keep(self, step: PipelineStep, status: str, **fields: Any) -> None:
        self.results.append(PipelineStepResult(step.name, status, **fields))

    def _tell(self, event: str, **fields: Any) -> None:
        _log.info("pipeline.%s %s", event, " ".join(f"{name}={value!r}" for name, value in fields.items()))
        if self._on_event is not None:
            self._on_event(f"pipeline.{event}", fields)

    # -- the agent ------------------------------------------------------------------------------

    def _ask_agent(self, step: PipelineStep, result: PipelineStepResult) -> None:
        try:
            agent = self.agent_factory(agent=step.agent, model=step.model)
            answer = self._answer(agent, step)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever an agent does, the others get their turn
            result.error = str(error) or type(error).__name__
            return
        status = getattr(answer, "status", "unknown")
        result.status = str(status.value if isinstance(status, enum.Enum) else status)
        result.output = str(getattr(answer, "final_output", "") or "")
        if isinstance(said := getattr(answer, "error", None), str) and said:
            result.error = said
        cost = getattr(getattr(answer, "cost_tracker", None), "total_cost_usd", 0.0)
        result.cost = float(cost) if isinstance(cost, int | float) else 0.0
        if step.output_var:
            self.variables[step.output_var] = result.output

    def _answer(self, agent: Any, step: PipelineStep) -> Any:
        prompt = self._resolve_vars(step.prompt)
        if isinstance(agent, CommandAgent):
            return agent.run(prompt, step.timeout)
        worker = AgentCall(agent, prompt)
        if step.timeout is None:
            return worker.run()
        try:
            return worker.run_within(step.timeout)
        finally:
            if worker.is_alive:
                self._left_running = step.name

    # -- checks ---------------------------------------------------------------------------------

    def _check(self, step: PipelineStep, result: PipelineStepResult) -> None:
        if not step.checks or self._left_running:
            return
        result.checks = self._run_checks(step.checks)
        result.checks_passed = all(check["passed"] for check in result.checks)
        for check in result.checks:
            self._tell("check", step=step.name, **check)

    def _run_checks(self, checks: list[str]) -> list[dict[str, Any]]:
        return [self._run_check(check) for check in checks]

    def _run_check(self, check: str) -> dict[str, Any]:
        text, values = conditions.for_shell(check, self.variables)
        try:
            done = run_shell(text, values, cwd=self.workspace_root, timeout=CHECK_TIMEOUT)
        except CommandError as error:
            return {"name": check, "passed": False, "output": str(error)[-CHECK_OUTPUT:]}
        output = "Timeout" if done.timed_out else (done.out + done.err).decode("utf-8", "replace")
        return {"name": check, "passed": done.code == 0 and not done.timed_out, "output": output[-CHECK_OUTPUT:]}

    # -- checkpoints ----------------------------------------------------------------------------

    @property
    def workspace(self) -> Workspace:
        """The workspace that is saved."""
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = Workspace(resolve(self.workspace_root))
        return self._opened

    def _save_before(self, step: PipelineStep, result: PipelineStepResult) -> bool:
        """Saves what is there before an agent touches it; returns whether the step may run."""
        about = f"before step {step.name!r} of pipeline {self.config.name!r}"
        try:
            saved = self.workspace.save(description=about, kind="step", metadata=self._marks(step), if_changed=True)
            result.before = saved.id if saved is not None else self.workspace.position()
            if saved is not None and not saved.complete:
                self._tell("trouble", step=step.name, error=f"Checkpoint {saved.short_id} before it is partial.")
        except (MulliganError, OSError) as error:
            self._tell("trouble", step=step.name, error=str(error))
            if self._strict and not self.results:
                raise
            if self._strict:
                self._keep(
                    step, "failed", error=f"It was not run, since no checkpoint could be made before it: {error}"
                )
                return False
        return True

    def _marks(self, step: PipelineStep) -> dict[str, Any]:
        return {"pipeline": self.config.name, "pipeline_step": step.name}

    def _keep_checkpoint(self, step: PipelineStep, result: PipelineStepResult) -> None:
        """Makes the checkpoint that a step asks for; trailers of its commit say what failed."""
        result.commit = self._create_checkpoint(step.name, _remarks(result))
        self._quietly(step.name, lambda: self._note_position(step, result))

    def _note_position(self, step: PipelineStep, result: PipelineStepResult) -> None:
        result.checkpoint = self.workspace.position()
        self._tell("checkpoint", step=step.name, checkpoint=result.checkpoint, commit=result.commit)

    def _create_checkpoint(self, step_name: str, remarks: Sequence[str] = ()) -> str | None:
        made = self._quietly(step_name, lambda: self._checkpointer(self.workspace, step_name, remarks))
        return made if isinstance(made, str) else None

    def _quietly(self, step_name: str, call: Callable[[], Any]) -> Any:
        """Returns the call's result; a failed checkpoint after the work is reported and ends nothing."""
        try:
            return call()
        except (MulliganError, OSError) as error:
            self._tell("trouble", step=step_name, error=str(error))
            return None

    # -- words ----------------------------------------------------------------------------------

    def _resolve_vars(self, text: str) -> str:
        return conditions.resolve(text, self.variables)

    def _eval_condition(self, condition: str) -> bool:
        return conditions.holds(conditions.as_text(condition), self.variables)

    def get_plan_summary(self) -> str:
        """Returns what would be run, in Markdown."""
        lines = [f"# Pipeline: {self.config.name}", f"Steps: {len(self.config.steps)}"]
        if self.variables:
            lines.append(f"Variables: {', '.join(self.variables)}")
        lines.append("")
        for number, step in enumerate(self.config.steps, 1):
            condition = f" (if: {step.condition})" if step.condition is not None else ""
            mark = " [checkpoint]" if step.checkpoint else ""
            prompt = " ".join(self._resolve_vars(step.prompt).split())
            lines.append(f"{number}. **{step.name}** ({step.agent}){condition}{mark}")
            lines.append(f"   {prompt[:PREVIEW]}{'...' if len(prompt) > PREVIEW else ''}")
        return "\n".join(lines)


def _remarks(result: PipelineStepResult) -> list[str]:
    failed = ", ".join(str(check["name"])[:CHECK_NAME] for check in result.checks if not check["passed"])
    said = [f"Checks: failed ({failed})"] if failed else []
    return [*([f"Status: {result.status}"] if result.status != "success" else []), *said]


def missing_agents(config: PipelineConfig, agents: Agents) -> list[str]:
    """Returns the agents without a provider; raises UnknownAgent where a step lacks a model it needs."""
    for step in config.steps:
        words = agents.commands.get(step.agent, ())
        if step.model is None and any("{model}" in word for word in words):
            raise UnknownAgent(
                f"The command of agent {step.agent!r} asks for {{model}}, and step {step.name!r} has none. Nothing was run."
            )
    return list(dict.fromkeys(step.agent for step in config.steps if not agents.knows(step.agent)))
