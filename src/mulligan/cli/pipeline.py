"""
What `mulligan run` settles before a pipeline runs, and what a person sees while it runs.

A pipeline that cannot work is refused here, before anything is run or saved. Lines about steps go to standard error. On a
terminal the last line that the agent wrote is shown below them and wiped again, with its control characters made visible.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mulligan.cli.arguments import UsageError
from mulligan.cli.context import Context
from mulligan.errors import UserError
from mulligan.loop.agents import Agents
from mulligan.loop.conditions import names_in
from mulligan.loop.pipeline import PipelineRunner, missing_agents
from mulligan.loop.pipeline_file import PipelineValidationError, read_pipeline
from mulligan.loop.steps import PipelineConfig, PipelineStepResult
from mulligan.present.text import Style, count, shorten
from mulligan.present.visible import visible


def read_config(context: Context, args: argparse.Namespace) -> PipelineConfig:
    """Returns the pipeline that the arguments name; reports every mistake in it."""
    path = os.path.join(context.base, args.pipeline)
    try:
        config = read_pipeline(path, pairs(args.var, "--var ticket=42"))
    except FileNotFoundError:
        raise UserError(f"There is no pipeline {path}. Nothing was run.", hint="mulligan run PIPELINE.yaml") from None
    except PipelineValidationError as error:
        if context.json or not error.problems:
            raise
        for problem in error.problems:
            context.note(visible(problem))
        raise UserError(
            f"{path} is no valid pipeline: {count(len(error.problems), 'mistake')}. Nothing was run."
        ) from None
    for remark in config.remarks:
        context.note(visible(f"{args.pipeline}: {remark}"))
    return config


def pairs(words: list[str], example: str) -> dict[str, str]:
    """Returns NAME=VALUE words as a mapping; raises UsageError for any other word."""
    for word in words:
        if "=" not in word or not word.partition("=")[0].strip():
            raise UsageError(f"{word!r} is not NAME=VALUE.", hint=f"mulligan run … {example}")
    return {name.strip(): value for name, _, value in (word.partition("=") for word in words)}


def choose_agents(
    context: Context, args: argparse.Namespace, config: PipelineConfig, watcher: PipelineOutput
) -> Agents:
    """Returns the provider of the agents; raises UserError where there is none."""
    lines = {**config.agents, **pairs(args.agent, "--agent 'build=claude -p {prompt}'")}
    try:
        agents = Agents(lines, cwd=context.base, fallback=args.agent_factory, on_output=watcher.output)
    except ValueError as error:
        raise UsageError(f"A command line of --agent cannot be read: {error}.") from None
    missing = missing_agents(config, agents)
    if missing and not args.dry_run:
        name = missing[0]
        raise UserError(
            f"No command is set for the agent {name!r}. Nothing was run.",
            hint=f"Add to the file:  agents: {{{name}: 'claude -p {{prompt}}'}}  or use --agent or --agent-factory",
        )
    return agents


def check_beginning(runner: PipelineRunner, args: argparse.Namespace) -> None:
    """Refuses a first step that does not exist, or one that needs what only earlier steps say."""
    names = [step.name for step in runner.config.steps]
    if args.from_step is None:
        return
    if args.from_step not in names:
        raise UserError(
            f"There is no step {args.from_step!r}. Nothing was run.", hint=f"The steps are: {', '.join(names)}"
        )
    at = names.index(args.from_step)
    known = {*runner.variables}
    before = {step.output_var for step in runner.config.steps[:at] if step.output_var}
    for step in runner.config.steps[at:]:
        lacking = sorted((before - known) & {*names_in(step.prompt), *names_in(step.condition or "")})
        if lacking:
            raise UserError(
                f"Step {step.name!r} needs {lacking[0]!r}, which only an earlier step says. Nothing was run.",
                hint=f"mulligan run … --from-step {shlex.quote(args.from_step)} --var {lacking[0]}=…",
            )
        known.add(step.output_var or "")


def check_programs(config: PipelineConfig, agents: Agents) -> None:
    """Refuses a program that is not on this machine."""
    for step in config.steps:
        words = agents.commands.get(step.agent)
        if words and shutil.which(words[0]) is None and "/" not in words[0]:
            raise UserError(
                f"The program {words[0]!r} of agent {step.agent!r} was not found. Nothing was run.",
                hint="Install it, or name another one: --agent 'NAME=COMMAND {prompt}'",
            )


_INTERVAL = 0.1
_LINE = 4096
_COLOURS = {"success": "green", "skipped": "dim", "dry_run": "dim", "failed": "red", "interrupted": "red"}


class PipelineOutput:
    """Tells a person how far the pipeline is."""

    def __init__(self, context: Context, *, quiet: bool) -> None:
        self._context = context
        self._quiet = quiet or context.json
        self._live = context.err.is_terminal and not self._quiet
        self._line = b""
        self._drawn = 0.0
        self._visible = False

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Says what happened."""
        line = "" if self._quiet else self._words(name.removeprefix("pipeline."), fields)
        if not line:
            return
        try:
            self.done()
            self._context.note(line)
            self._context.err.stream.flush()
        except OSError:
            self._hush()

    def _words(self, event: str, fields: Mapping[str, Any]) -> str:
        style, step = self._context.err.style, visible(str(fields["step"]))
        if event == "step_start":
            return (
                style("bold", f"step {fields['index']} of {fields['total']}: {step}") + f" ({visible(fields['agent'])})"
            )
        if event == "step_skipped":
            return style("dim", f"skipped: {step}, since this does not hold: {visible(str(fields['condition']))}")
        if event == "check":
            how = "passed" if fields["passed"] else "failed"
            return f"  {style('green' if fields['passed'] else 'red', how)}: {visible(fields['name'])}"
        if event == "trouble":
            return style("yellow", f"  no checkpoint: {visible(fields['error'])}")
        if event == "step_done":
            error = f": {visible(shorten(str(fields['error']), 300))}" if fields["error"] else ""
            return f"  {_status(fields['status'], style)} after {fields['duration']:.1f} s{error}"
        return ""

    def output(self, data: bytes) -> None:
        """Shows the last line that an agent wrote, on a terminal."""
        if not self._live:
            return
        self._line = (self._line + data)[-_LINE:]
        now = time.monotonic()
        lines = [line for line in self._line.splitlines() if line.strip()]
        if now - self._drawn < _INTERVAL or not lines:
            return
        self._drawn, self._visible = now, True
        text = shorten("  " + visible(lines[-1].decode("utf-8", "replace")), (self._context.err.width or 80) - 1)
        try:
            self._context.err.stream.write("\r\x1b[2K" + self._context.err.style("dim", text))
            self._context.err.stream.flush()
        except OSError:
            self._hush()

    def _hush(self) -> None:
        # The reader is gone (`2>&1 | head`); the pipeline goes on.
        self._quiet, self._live, self._visible = True, False, False

    def done(self) -> None:
        """Wipes the line of the agent."""
        if self._visible:
            self._visible, self._line = False, b""
            self._context.err.stream.write("\r\x1b[2K")
            self._context.err.stream.flush()


def _status(status: str, style: Style) -> str:
    return style(_COLOURS.get(status, "yellow"), visible(status))


def step_lines(results: Sequence[PipelineStepResult], style: Style) -> list[str]:
    """Returns one line for each step."""
    width = max((len(visible(result.step_name)) for result in results), default=0)
    return [_step_line(result, width, style) for result in results]


def _step_line(result: PipelineStepResult, width: int, style: Style) -> str:
    checks = [check["name"] for check in result.checks if not check["passed"]]
    failed = style("red", f"  checks failed: {visible(', '.join(checks))}") if checks else ""
    commit = f"  commit {result.commit[:7]}" if result.commit else ""
    return f"{visible(result.step_name).ljust(width)}  {_status(result.status, style)}{failed}{commit}"
