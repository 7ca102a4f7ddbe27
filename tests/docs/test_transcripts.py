"""The transcripts of how-to pages are what the commands really print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import mulligan
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from tools import cli

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
AGE = re.compile(r"just now|\d+ (?:s|min) ago")
ID = re.compile(r"\b[0-9a-f]{8}(?=  )")

FIRST = "def bill(prices):\n    total = sum(prices)\n    # no tax\n    # no fee\n    # no tip\n    return total\n"
DISCOUNT = FIRST.replace("sum(prices)", "sum(prices) * 0.9")
RENAMED = DISCOUNT.replace("return total", "return amount")
HELLO = "# shop\n# open daily\n\n" + RENAMED


def commands(page: str) -> list[tuple[str, str]]:
    """The commands of a page with what it says they print."""
    blocks = BLOCK.findall((ROOT / "docs" / "howto" / page).read_text())
    found = [part.split("\n", 1) for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [(command, printed) for command, printed in found]


def plain(text: str) -> str:
    """A text without ages and ids, which differ from run to run."""
    return "\n".join(line.rstrip() for line in ID.sub("ID", AGE.sub("AGE", text)).strip().splitlines())


def test_revert_one_step(project):
    def prompt(number: int, text: str, tool: str, about: str, **files: str) -> None:
        said = {"tool": tool, "call": str(number), "text": about}
        session = "1bd24cd5-0000"
        ws.record(AgentEvent("claude-code", session, PROMPT, text=text))
        ws.record(AgentEvent("claude-code", session, BEFORE, **said))
        for name, data in files.items():
            (project / name.replace("_", ".")).write_text(data)
        ws.record(AgentEvent("claude-code", session, AFTER, **said))
        ws.record(AgentEvent("claude-code", session, STOP))

    (project / "shop.py").write_text(FIRST)
    ws = mulligan.open(project)
    ws.save("start")
    prompt(1, "add a discount", "Edit", "shop.py", shop_py=DISCOUNT)
    prompt(2, "rename the total", "Bash", "sed -i s/total/sum/ shop.py", shop_py=RENAMED, debug_txt="x\n")
    prompt(3, "say hello", "Edit", "shop.py", shop_py=HELLO)
    for command, printed in commands("revert-one-step.md"):
        if command == "mulligan revert @prompt-1":
            (project / "shop.py").write_text(FIRST.replace("sum(prices)", "sum(prices) * 0.8"))
        done = cli(*shlex.split(command)[1:], cwd=project)
        assert plain(done.stdout) == plain(printed), command
    assert done.returncode == 3
