"""The loop's checkpoints: when they are made, that trouble never stops an agent, that no exception is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

import mulligan
from mulligan.errors import UserError
from mulligan.loop.agent import AgentLoop, AsyncAgentLoop, LoopRules, WorkspaceCheckpoints


class Notebook:
    """A checkpointer that only writes down what it is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.saved: list[tuple[str, str]] = []
        self.error = error

    def save(self, description: str, kind: str) -> str:
        if self.error is not None:
            raise self.error
        self.saved.append((description, kind))
        return description


class AsyncNotebook(Notebook):
    """The same for coroutines."""

    async def save(self, description: str, kind: str) -> str:
        await asyncio.sleep(0)
        return super().save(description, kind)


def kinds(book: Notebook) -> list[str]:
    return [kind for _, kind in book.saved]


# -- the interval -------------------------------------------------------------------------------


def test_a_checkpoint_is_made_after_every_nth_step():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(every_n_steps=3))
    for number in range(7):
        loop.after_tool(f"read_{number}")
    assert book.saved == [("after step 3: read_2", "step"), ("after step 6: read_5", "step")]
    assert loop.steps == 7


def test_tool_calls_within_a_step_are_one_step():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(every_n_steps=2))
    for _ in range(2):
        with loop.step("turn"):
            for _ in range(5):
                with loop.tool("write_file"):
                    pass
    assert book.saved == [("after step 2: turn", "step")]


def test_after_each_tool_where_that_is_wanted():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(each_tool=True))
    loop.after_tool("write_file")
    loop.after_tool("bash", ok=False)
    loop.after_tool("edit_file")
    assert book.saved == [("After write_file", "step"), ("After edit_file", "step")]
    assert loop.steps == 3


def test_a_failed_step_makes_none_and_the_next_success_makes_up_for_it():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(every_n_steps=2))
    loop.after_step("a")
    loop.after_step("b", ok=False)
    assert book.saved == []
    loop.after_step("c")
    assert book.saved == [("after step 3: c", "step")]


def test_switched_off_nothing_is_saved_and_steps_are_counted():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(enabled=False, every_n_steps=1))
    loop.before_tool("bash", {"command": "rm -rf ."})
    loop.after_tool("bash")
    loop.save("a session begins", "session")
    assert (book.saved, loop.steps) == ([], 1)
    loop.auto_checkpoint = True
    loop.after_tool("bash")
    assert kinds(book) == ["step"]


def test_the_switch_may_be_somebody_elses_flag():
    book, flag = Notebook(), {"auto": False}
    loop = AgentLoop(book, LoopRules(every_n_steps=1), auto_checkpoint=lambda: flag["auto"])
    loop.after_tool("x")
    flag["auto"] = True
    loop.after_tool("x")
    assert len(book.saved) == 1


# -- before -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("never", []),
        ("risky", ["before bash: rm deletes files"]),
        ("changes", ["before bash: rm deletes files", "before write_file"]),
    ],
)
def test_before_risky_tools_before_changes_or_never(before, expected):
    book = Notebook()
    loop = AgentLoop(book, LoopRules(before=before, every_n_steps=50))
    for tool, arguments in [("bash", {"command": "rm x"}), ("write_file", {"path": "a"}), ("read_file", {"path": "a"})]:
        with loop.tool(tool, arguments):
            pass
    assert [description for description, _ in book.saved] == expected
    assert set(kinds(book)) <= {"automatic"}


def test_the_outcome_says_what_was_saved_and_why():
    book = Notebook()
    outcome = AgentLoop(book).before_tool("bash", {"command": "git reset --hard"})
    assert outcome.saved and outcome.trouble is None
    assert outcome.reason == outcome.checkpoint == "before bash: git reset discards uncommitted work"
    assert not AgentLoop(book).before_tool("read_file").saved


# -- trouble ------------------------------------------------------------------------------------


def test_trouble_stops_nobody_and_is_told(caplog):
    told: list[Exception] = []
    error = OSError("disk full")
    loop = AgentLoop(Notebook(error), LoopRules(every_n_steps=1), on_trouble=told.append)
    outcome = loop.before_tool("bash", "rm x")
    assert outcome.trouble is error and not outcome.saved
    with loop.step():
        pass
    assert told == [error, error]
    assert "disk full" in caplog.text


def test_a_handler_or_a_judge_that_fails_stops_nobody():
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    loop = AgentLoop(Notebook(ValueError("x")), LoopRules(every_n_steps=1), on_trouble=broken, judge=broken)
    assert isinstance(loop.before_tool("bash", "rm x").trouble, RuntimeError)
    assert isinstance(loop.after_tool("bash").trouble, ValueError)
    gate = AgentLoop(Notebook(), auto_checkpoint=broken)
    assert isinstance(gate.save("x").trouble, RuntimeError)


@pytest.mark.parametrize("thrown", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_exception_of_the_agent_is_never_lost(thrown):
    book = Notebook()
    loop = AgentLoop(book, LoopRules(every_n_steps=1))
    original = thrown("mine")
    with pytest.raises(thrown) as caught, loop.step("s"), loop.tool("write_file"):
        raise original
    assert caught.value is original
    assert book.saved == [] and loop.steps == 1


def test_wrong_rules_are_refused_at_once():
    for rules in (
        LoopRules(every_n_steps=0),
        LoopRules(every_n_steps=51),
        LoopRules(every_n_steps=True),
        LoopRules(before="x"),
    ):
        with pytest.raises(UserError):
            AgentLoop(Notebook(), rules)


def test_threads_may_share_one():
    book = Notebook()
    loop = AgentLoop(book, LoopRules(every_n_steps=10))
    threads = [threading.Thread(target=lambda: [loop.after_step() for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (loop.steps, len(book.saved)) == (400, 40)


# -- with a real workspace ----------------------------------------------------------------------


def test_a_workspace_is_a_checkpointer_and_nothing_changed_is_nothing_saved(ws, project):
    loop = AgentLoop(WorkspaceCheckpoints(ws, {"dialect": "test"}), LoopRules(every_n_steps=1))
    for text in ("1", "1", "2"):
        with loop.tool("write_file", {"path": "a"}):
            (project / "a").write_text(text)
    assert [cp.description for cp in ws.log()] == ["after step 3: write_file", "after step 1: write_file"]
    assert len(ws.log(match={"dialect": "test"}, kind="step")) == 2


def test_a_risky_command_is_one_undo_away(ws, project):
    (project / "a").write_text("precious")
    loop = AgentLoop.of(ws, rules=LoopRules())
    with loop.tool("bash", {"command": "rm a"}) as outcome:
        (project / "a").unlink()
    assert outcome.checkpoint.kind == "automatic"
    ws.undo()
    assert (project / "a").read_text() == "precious"


def test_the_settings_of_the_workspace_are_obeyed(project, store):
    (project / "mulligan.toml").write_text("[checkpoints]\nenabled = true\nevery_n_steps = 2\n")
    ws = mulligan.open(project, store=store)
    loop = AgentLoop.of(ws)
    assert loop.rules == LoopRules(True, 2)
    for number in range(4):
        (project / "a").write_text(str(number))
        loop.after_step()
    assert len(ws.log()) == 2


def test_the_settings_are_off_by_default(ws, project):
    loop = AgentLoop.of(ws)
    for number in range(10):
        (project / "a").write_text(str(number))
        with loop.tool("bash", "rm x"):
            pass
    assert ws.log() == []


# -- coroutines ---------------------------------------------------------------------------------


def test_the_same_in_coroutines():
    book = AsyncNotebook()

    async def play() -> None:
        loop = AsyncAgentLoop(book, LoopRules(every_n_steps=2))
        await loop.save("a session begins", "session")
        async with loop.step("one"), loop.tool("bash", "rm x") as outcome:
            assert outcome.saved
        async with loop.step("two"):
            pass
        await loop.after_tool("three")
        await loop.after_step("four")
        with pytest.raises(ValueError, match="mine"):
            async with loop.step("five"), loop.tool("write_file"):
                raise ValueError("mine")

    asyncio.run(play())
    assert kinds(book) == ["session", "automatic", "step", "step"]


def test_trouble_in_coroutines_stops_nobody_either():
    async def play() -> None:
        loop = AsyncAgentLoop(AsyncNotebook(OSError("x")), LoopRules(every_n_steps=1))
        assert isinstance((await loop.before_tool("bash", "rm x")).trouble, OSError)
        async with loop.step():
            pass

    asyncio.run(play())
