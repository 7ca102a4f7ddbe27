"""`mulligan run`: any command watched, or a pipeline of agents; each one undo away."""

from __future__ import annotations

import argparse
import os
from contextlib import redirect_stdout

from mulligan.cli.arguments import UsageError
from mulligan.cli.command import Result
from mulligan.cli.context import Context
from mulligan.cli.failure import interrupted_by_signals
from mulligan.cli.pipeline import (
    PipelineOutput,
    check_beginning,
    check_programs,
    choose_agents,
    pairs,
    read_config,
    step_lines,
)
from mulligan.errors import UserError
from mulligan.forks.watched import Receipt, WatchedRun
from mulligan.loop.pipeline import PipelineRunner, commit_step, save_step
from mulligan.loop.report import as_dict, report
from mulligan.present.diff import render_stat
from mulligan.present.text import count, shorten
from mulligan.present.visible import visible

USAGE = "run -- COMMAND… | run PIPELINE.yaml [--var K=V …] [OPTIONS]"
DESCRIPTION = """\
Run any command watched, or a pipeline: steps that agents carry out one after another.

After `--`, any command: an agent without hooks, a script. A checkpoint is saved after each burst of changes, a receipt says what
changed, one `mulligan undo` takes all of it back, and the exit code is the command's own.

Before each step of a pipeline a checkpoint is saved, so a bad step is one `mulligan undo` away. A step with `checkpoint: true`
is also committed to your branch as `architect:checkpoint:STEP`, where there is a repository. Agents are command lines, from
`agents:` in the file or from `--agent`, or come from a Python factory. A step that fails does not stop the others.

A pipeline runs the commands it names, with your rights: run only pipelines that you trust.
"""
EXAMPLES = (
    ("mulligan run -- aider --message 'add a login page'", "any agent, with a receipt"),
    ("mulligan run build.yaml --dry-run", "show what would be run; nothing is"),
    ("mulligan run build.yaml --var ticket=42 --from-step test", "with a variable, from a later step on"),
    ("mulligan run build.yaml --agent 'build=claude -p {prompt}'", "the command line of an agent"),
)
EXIT_CODES = (0, 1, 11, 90, 91, 130)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's own arguments."""
    parser.add_argument("pipeline", nargs="?", metavar="PIPELINE.yaml", help="the file that describes the steps")
    parser.add_argument(
        "--var", action="append", default=[], metavar="K=V", help="a variable, instead of the file's own"
    )
    parser.add_argument("--from-step", metavar="STEP", help="begin with this step")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and run nothing")
    parser.add_argument(
        "--agent", action="append", default=[], metavar="NAME=COMMAND", help="the command line of an agent"
    )
    parser.add_argument("--agent-factory", metavar="MODULE:FUNCTION", help="where all other agents come from")
    parser.add_argument("--no-commit", action="store_true", help="make no commits, only checkpoints of mulligan")
    parser.add_argument(
        "--report", choices=("json", "markdown", "github"), metavar="FORMAT", help="json, markdown or github"
    )
    parser.add_argument("--report-file", metavar="FILE", help="where the report goes (default: standard output)")
    parser.add_argument("--quiet", action="store_true", help="print nothing while it runs")


def run(context: Context, args: argparse.Namespace) -> Result:
    """Runs a command, or the pipeline, or shows its plan."""
    if args.dashes:
        return _watched(context, args)
    if args.pipeline is None:
        raise UsageError("Run what?", hint="mulligan run -- COMMAND…, or: mulligan run PIPELINE.yaml")
    if args.report and not args.report_file and context.json:
        raise UsageError(
            "With --json a report needs a file.", hint="mulligan run … --report markdown --report-file FILE"
        )
    if args.report_file and not args.report:
        raise UsageError("--report-file needs --report.", hint="mulligan run … --report markdown --report-file FILE")
    if args.resume and (args.from_step or args.dry_run):
        raise UsageError("--resume stands alone: it knows its step.", hint="mulligan run PIPELINE.yaml --resume")
    config = read_config(context, args)
    watcher = PipelineOutput(context, quiet=args.quiet)
    agents = choose_agents(context, args, config, watcher)
    runner = PipelineRunner(
        config,
        agents,
        context.base,
        # A plan opens nothing: also where there could be no store.
        workspace=None if args.dry_run else context.workspace,
        checkpointer=save_step if args.no_commit else commit_step,
        strict=True,
        on_event=watcher.event,
    )
    if args.resume:
        args.from_step = runner.resume(pairs(args.var, "--var ticket=42"))
        context.note(f"Resuming with step {visible(args.from_step)}. What it changed before is there.")
    check_beginning(runner, args)
    if not args.dry_run:
        check_programs(config, agents)
        agents.load()
    return _carry_out(context, runner, args, watcher)


def _watched(context: Context, args: argparse.Namespace) -> Result:
    """Runs the command after `--`, watched."""
    if args.pipeline is not None or not args.paths:
        raise UsageError("After `run --` comes a command, and before it nothing.", hint="mulligan run -- COMMAND…")
    workspace = context.workspace
    context.out.stream.flush()
    receipt = WatchedRun(workspace, args.paths, context.base, stdout=context.err.stream if context.json else None).run()
    return Result(receipt, lambda: {"receipt": receipt.to_dict()}, receipt.code)


def _receipt_lines(context: Context, receipt: Receipt) -> list[str]:
    """Returns what a watched command did, and how to take it back."""
    style, ended = context.err.style, f"exit code {receipt.code}, {receipt.seconds:.1f} s"
    lines = [f"mulligan: {shorten(visible(receipt.command), 60)} has ended ({ended})."]
    if receipt.diff is None:
        lines[0] += " No file that is protected changed."
    else:
        stat = render_stat(receipt.diff, colour=style.enabled, width=context.err.width or 80)
        lines += [*stat.rstrip("\n").split("\n"), f"{count(receipt.checkpoints, 'checkpoint')} saved."]
        lines[-1] += f" Undo all of it: {style('bold', 'mulligan undo')}  Look: mulligan log --story"
    if receipt.problem:
        lines.append(style("yellow", f"Not all of it could be saved: {visible(receipt.problem)}"))
    return lines


def _carry_out(context: Context, runner: PipelineRunner, args: argparse.Namespace, watcher: PipelineOutput) -> Result:
    stopped = False
    try:
        # Whatever a Python agent prints must not end up in our document.
        with interrupted_by_signals(), redirect_stdout(context.err.stream):
            runner.run(from_step=args.from_step, dry_run=args.dry_run)
    except KeyboardInterrupt:
        stopped = True
    watcher.done()
    results = runner.results
    text = report(args.report, runner.config.name, results) if args.report else ""
    if args.report_file:
        _write(os.path.join(context.base, args.report_file), text)
    shown = text if args.report and not args.report_file else runner.get_plan_summary() if args.dry_run else ""
    code = 130 if stopped else 0 if all(result.ok for result in results) else 1
    return Result(
        (shown, results, stopped), lambda: {**as_dict(runner.config.name, results), "interrupted": stopped}, code
    )


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
    except OSError as error:
        raise UserError(
            f"The pipeline ran, but its report could not be written to {path} ({error.strerror}).", hint="mulligan log"
        ) from None


def render(context: Context, result: Result) -> None:
    """Prints the report or the plan, else what became of each step."""
    if isinstance(result.value, Receipt):
        # The command's own output is on stdout.
        context.err.lines(_receipt_lines(context, result.value))
        return
    shown, results, stopped = result.value
    if shown:
        context.out.stream.write(shown if shown.endswith("\n") else shown + "\n")
        return
    context.out.lines(step_lines(results, context.out.style))
    if stopped:
        context.note("Interrupted: the agent was ended. What it changed is there; take it back with: mulligan undo")
        context.note("Go on with this step: the same command with --resume")
    elif any(not each.ok for each in results):
        context.note("What the steps changed is there. One step back: mulligan undo; all of them: mulligan log")
