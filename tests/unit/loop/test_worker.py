"""One run of a Python agent: answers, exceptions, time limits, context."""

from __future__ import annotations

import contextvars
import threading

import pytest

from mulligan.loop import worker as worker_module
from mulligan.loop.worker import AgentCall, AgentTimeout

HERE: contextvars.ContextVar[str] = contextvars.ContextVar("HERE", default="nowhere")


class Agent:
    def __init__(self, work) -> None:
        self.run = work


def test_an_answer_here_and_in_a_thread():
    agent = Agent(lambda prompt: (prompt, threading.current_thread() is threading.main_thread()))
    assert AgentCall(agent, "p").run() == ("p", True)
    assert AgentCall(agent, "p").run_within(60) == ("p", False)


def test_a_coroutine_is_awaited():
    async def work(prompt: str) -> str:
        return prompt + "!"

    assert AgentCall(Agent(work), "p").run() == "p!"
    assert AgentCall(Agent(work), "p").run_within(60) == "p!"


def test_the_context_of_the_caller_reaches_the_thread():
    token = HERE.set("here")
    try:
        assert AgentCall(Agent(lambda _: HERE.get()), "p").run_within(60) == "here"
    finally:
        HERE.reset(token)


@pytest.mark.parametrize("thrown", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_exception_comes_out_as_it_is(thrown):
    error = thrown("mine")

    def work(_prompt: str) -> None:
        raise error

    with pytest.raises(thrown) as caught:
        AgentCall(Agent(work), "p").run_within(60)
    assert caught.value is error


@pytest.mark.parametrize("how", ["cancel", "stop", "broken cancel", "no way"])
def test_an_agent_beyond_its_time_is_asked_to_stop(monkeypatch, how):
    monkeypatch.setattr(worker_module, "GRACE", 0.2 if how in {"broken cancel", "no way"} else 60)
    release = threading.Event()
    agent = Agent(lambda _: release.wait(60))
    if how == "broken cancel":
        agent.cancel = lambda: 1 / 0
    elif how != "no way":
        setattr(agent, how, release.set)
    worker = AgentCall(agent, "p")
    try:
        with pytest.raises(AgentTimeout, match=r"within 0\.05 s") as caught:
            worker.run_within(0.05)
        assert worker.is_alive is (how in {"broken cancel", "no way"})
        assert ("still runs" in str(caught.value)) is worker.is_alive
    finally:
        release.set()
