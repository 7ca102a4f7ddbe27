"""
What is settled before a pipeline runs: the file, its variables, who provides its agents, where it begins.

Whatever cannot work is refused here, while nothing has been run and nothing saved.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from mulligan.cli.arguments import UsageError
from mulligan.cli.context import Context
from mulligan.cli.steps import Watcher
from mulligan.errors import UserError
from mulligan.present.text import count
from mulligan.present.visible import visible

if TYPE_CHECKING:
    import argparse

    from mulligan.loop.agents import Agents
    from mulligan.loop.pipeline import PipelineRunner
    from mulligan.loop.steps import PipelineConfig


def read_config(context: Context, args: argparse.Namespace) -> PipelineConfig:
    """Returns the pipeline that the arguments name; reports every mistake in it."""
    from mulligan.loop.pipeline_file import PipelineValidationError, read_pipeline

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


def choose_agents(context: Context, args: argparse.Namespace, config: PipelineConfig, watcher: Watcher) -> Agents:
    """Returns the provider of the agents; raises UserError where there is none."""
    from mulligan.loop.agents import Agents
    from mulligan.loop.pipeline import missing_agents

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
    from mulligan.loop.conditions import names_in

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
