"""The transcripts of the pages on forks, bisect and watched runs are what the commands really print."""

from __future__ import annotations

import mulligan
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from transcripts import play
from tree import put

SHOP = "def bill(prices):\n    return sum(prices)\n"
CHECK = "import shop\nassert shop.bill([1, 2]) == 3\n"


def test_try_two_ways(project, tmp_path):
    put(project, "shop.py", SHOP)
    put(project, "check.py", CHECK)

    def work() -> None:
        put(tmp_path, "try-1/shop.py", SHOP.replace("sum(prices)", "sum(map(int, prices))"))
        put(tmp_path, "try-2/shop.py", SHOP.replace("sum(prices)", "prices[0]"))

    play("try-two-ways.md", project, {"mulligan forks": work})
    assert "map(int" in (project / "shop.py").read_text()


def test_find_the_step_that_broke_it(project):
    def prompt(number: int, text: str, **files: str) -> None:
        said = {"tool": "Edit", "call": str(number), "text": "shop.py"}
        ws.record(AgentEvent("claude-code", "1bd24cd5-0000", PROMPT, text=text))
        ws.record(AgentEvent("claude-code", "1bd24cd5-0000", BEFORE, **said))
        for name, data in files.items():
            put(project, name.replace("_", "."), data)
        ws.record(AgentEvent("claude-code", "1bd24cd5-0000", AFTER, **said))
        ws.record(AgentEvent("claude-code", "1bd24cd5-0000", STOP))

    put(project, "shop.py", SHOP)
    put(project, "check.py", CHECK)
    with mulligan.open(project) as ws:
        ws.save("start")
        prompt(1, "add a docstring", shop_py=SHOP.replace("):\n", '):\n    """Adds up."""\n'))
        prompt(2, "round the bill", shop_py=SHOP.replace("sum(prices)", "round(sum(prices), -1)"))
        prompt(3, "add a read-me", readme_md="# Shop\n")
        prompt(4, "say how to check", readme_md="# Shop\n\nRun check.py.\n")
    play("find-the-step-that-broke-it.md", project)


def test_run_any_agent(project):
    put(project, "shop.py", SHOP)
    put(project, "agent.sh", "sed -i s/sum/max/ shop.py\necho todo > notes.txt\n")
    play("run-any-agent.md", project)
    assert (project / "shop.py").read_text() == SHOP
