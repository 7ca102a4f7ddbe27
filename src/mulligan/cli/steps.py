"""
What a person sees while a pipeline runs, and after it.

Lines go to standard error: which step, what its checks said, how it ended. On a terminal the last line that the agent wrote is
shown below them and wiped again. What agents write is made harmless before it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mulligan.present.text import Style, shorten
from mulligan.present.visible import visible

if TYPE_CHECKING:
    from mulligan.cli.context import Context
    from mulligan.loop.steps import PipelineStepResult

_INTERVAL = 0.1
_LINE = 4096
_COLOURS = {"success": "green", "skipped": "dim", "dry_run": "dim", "failed": "red", "interrupted": "red"}


class Watcher:
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
