"""
Draws docs/pictures/story.svg: a recording of `mulligan log --story` and `mulligan undo`, made from a real run.

    python scripts/record_story.py          play the scene and write the picture

The scene is a throw-away project in which an agent's hooks are called as the real client calls them. What the terminal
shows is what the commands printed; only the machine's own paths never appear in it.
"""

# ruff: noqa: INP001, S603 - a script, not a package; it starts this very program and its own commands
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "story.svg"
SESSION = "1bd24cd5-aaaa-4bbb-8ccc-000000000001"
LINE, LETTER, MARGIN, COLUMNS = 20, 8.4, 18, 96
COLOURS = {"1": "#ffffff", "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
PLAIN = "#c9d1d9"


class Scene:
    """A throw-away project, a person who types, and an agent that sends events."""

    def __init__(self, home: Path) -> None:
        self.project = home / "shop"
        (self.project / "src").mkdir(parents=True)
        (self.project / "src/login.py").write_text("def login(): ...\n")
        (self.project / "src/shop.py").write_text("def shop(): ...\n")
        self.env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "MULLIGAN_WATCH": "0"}
        self.env |= {"PYTHONPATH": str(ROOT / "src"), "CLAUDE_PROJECT_DIR": str(self.project)}
        self.calls = 0

    def mulligan(self, *words: str, stdin: str = "") -> str:
        """Runs a command and returns what it printed, in colour."""
        argv = [sys.executable, "-m", "mulligan", "--color", "always", *words] if words[0] != "hook" else [
            sys.executable, "-m", "mulligan", *words
        ]  # fmt: skip
        done = subprocess.run(
            argv, cwd=self.project, env=self.env, input=stdin, capture_output=True, text=True, check=True
        )
        return done.stdout

    def event(self, name: str, **payload: object) -> None:
        """Sends one event as Claude Code does."""
        said = {"session_id": SESSION, "cwd": str(self.project), "hook_event_name": name, **payload}
        self.mulligan("hook", "claude-code", stdin=json.dumps(said))

    def turn(self, prompt: str, *commands: str) -> None:
        """One prompt, the shell commands that the agent ran for it, and its end."""
        self.calls += 1
        self.event("UserPromptSubmit", prompt=prompt, prompt_id=f"p{self.calls}")
        for command in commands:
            self.calls += 1
            call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"c{self.calls}"}
            self.event("PreToolUse", **call)
            subprocess.run(["/bin/sh", "-c", command], cwd=self.project, check=True)
            self.event("PostToolUse", **call, tool_response={"stdout": ""})
        self.event("Stop", stop_hook_active=False)


def record() -> list[str]:
    """Returns the lines of the terminal, with their colour codes."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        scene.turn("add a cart", "printf 'def cart(): ...\\n' > src/cart.py")
        scene.turn("now clean up", "rm src/login.py src/shop.py", "echo done > junk.txt")
        lines: list[str] = []
        for words in (["log", "--story"], ["undo"], ["log", "--story", "-n", "1"]):
            lines += [f"\x1b[32m$\x1b[0m \x1b[1mmulligan {' '.join(words)}\x1b[0m"]
            lines += [*scene.mulligan(*words).rstrip("\n").split("\n"), ""]
    return lines[:-1]


def picture(lines: list[str]) -> str:
    """Returns the terminal as SVG."""
    shown = [part for line in lines for part in _wrapped(line)]
    width, height = int(COLUMNS * LETTER + 2 * MARGIN), len(shown) * LINE + 2 * MARGIN + 18
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + 30 + at * LINE}" xml:space="preserve">{_spans(line)}</text>'
        for at, line in enumerate(shown)
    ]
    dots = "".join(
        f'<circle cx="{MARGIN + 4 + at * 16}" cy="14" r="5" fill="{fill}"/>'
        for at, fill in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">\n'
        f"<title>mulligan log --story, then mulligan undo</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n{dots}\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _wrapped(line: str) -> list[str]:
    """Returns a line in pieces that fit the terminal, cut at spaces; only the plain sentence of an undo is so long."""
    if len(re.sub(r"\x1b\[\d+m", "", line)) <= COLUMNS:
        return [line]
    import textwrap

    return textwrap.wrap(re.sub(r"\x1b\[\d+m", "", line), COLUMNS, subsequent_indent="  ")


def _spans(line: str) -> str:
    parts, colour = [], PLAIN
    for piece in re.split(r"(\x1b\[\d+m)", line):
        code = re.fullmatch(r"\x1b\[(\d+)m", piece)
        if code:
            colour = COLOURS.get(code[1], PLAIN)
        elif piece:
            parts.append(f'<tspan fill="{colour}">{escape(piece)}</tspan>')
    return "".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(picture(record()), encoding="utf-8")
