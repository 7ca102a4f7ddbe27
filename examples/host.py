"""
A host program: runs shell commands for a person, each of them one undo away, through `mulligan serve`.

    python examples/host.py PROJECT

Type a shell command, `:undo`, `:redo`, `:log`, or an empty line to end.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, cast


class Mulligan:
    """The other end of `mulligan serve`: asks, waits for the answer, and hands events to a function."""

    def __init__(self, project: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the user's own project
            ["mulligan", "-C", project, "serve", "--follow"],  # noqa: S607 - the user's own installation
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._pipe = cast("IO[str]", self._process.stdin)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._asked = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            if "id" in said:
                self._answers.put(said)
            else:
                self.on_event(said)
        self._answers.put(
            {"exit": 70, "result": {"error": {"message": "mulligan ended: commands are not saved any more"}}}
        )

    def on_event(self, event: dict[str, Any]) -> None:
        """Shows that a checkpoint was made, by this program or by any other."""
        if event["event"] == "checkpoint":
            made = event["checkpoint"]
            print(f"  [saved {made['id'][:8]} {made['name']}: {len(made['files_changed'])} files]")

    def ask(self, *words: str) -> dict[str, Any]:
        """Runs one command of mulligan and returns its answer."""
        self._asked += 1
        request = {"v": 1, "id": self._asked, "run": list(words)}
        with suppress(BrokenPipeError):  # it ended: the last answer says so
            self._pipe.write(json.dumps(request) + "\n")
            self._pipe.flush()
        answer = self._answers.get()
        if "id" not in answer:
            self._answers.put(answer)
        return answer

    def close(self) -> None:
        """Ends the conversation."""
        with suppress(BrokenPipeError):
            self._pipe.close()
        self._process.wait()


def show(answer: dict[str, Any]) -> None:
    """Prints what an undo, a redo or the log said."""
    result = answer["result"] or {}
    if "error" in result:
        print(f"  {result['error']['message']}")
    for row in result.get("checkpoints", ()):
        print(f"  {row['id'][:8]} {row['kind']:9} {row['name']}")
    report = result.get("report", {})
    for what in ("created", "modified", "deleted"):
        if report.get(what):
            print(f"  {what}: {', '.join(report[what])}")


def commands() -> Iterator[str]:
    """Reads commands until an empty line or the end of the input."""
    with suppress(EOFError):
        while command := input("$ "):
            yield command


def main(project: str) -> None:
    """Runs commands, and saves after each."""
    mulligan = Mulligan(project)
    mulligan.ask("save", "--if-changed", "--kind", "step")
    for command in commands():
        if command in {":undo", ":redo", ":log"}:
            show(mulligan.ask(command[1:]))
            continue
        subprocess.run(command, shell=True, cwd=project, check=False)  # noqa: S602 - that is what this program is for
        saved = mulligan.ask("save", command, "--if-changed", "--kind", "step")
        if saved["exit"]:
            show(saved)
    mulligan.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
