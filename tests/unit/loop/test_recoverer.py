"""The error recoverer: after a failure the project is back at a checkpoint."""

from __future__ import annotations

import asyncio

import pytest

from mulligan.loop.project import ProjectCheckpoints
from mulligan.loop.project_values import CheckpointType
from mulligan.loop.recoverer import ErrorRecoverer


@pytest.fixture
def file(project):
    path = project / "a"
    path.write_text("good")
    return path


@pytest.fixture
def recoverer(project):
    return ErrorRecoverer(project)


def test_an_error_is_handled_by_going_back_to_the_newest_checkpoint(recoverer, project, file):
    made = recoverer.checkpoints.create("x")
    file.write_text("bad")
    result = asyncio.run(recoverer.handle_error(ValueError("boom"), {}))
    assert (result.recovered, result.strategy, result.checkpoint_id) == (True, "rollback", made.id)
    assert "boom" in result.reason
    assert file.read_text() == "good"


def test_the_context_may_name_the_checkpoint(recoverer, file):
    first = recoverer.checkpoints.create("x")
    file.write_text("second")
    recoverer.checkpoints.create("y")
    result = asyncio.run(recoverer.handle_error(ValueError(), {"checkpoint_id": first.id}))
    assert result
    assert file.read_text() == "good"


def test_nothing_to_go_back_to_is_an_answer_not_an_error(recoverer, file):
    result = asyncio.run(recoverer.handle_error(ValueError("boom")))
    assert (result.recovered, result.strategy) == (False, "none")
    unknown = asyncio.run(recoverer.handle_error(ValueError("boom"), {"checkpoint_id": "nope"}))
    assert (unknown.recovered, unknown.strategy, "nope" in unknown.reason) == (False, "rollback", True)
    assert file.read_text() == "good"


def test_the_decorator_bare_and_with_options(recoverer, file):
    tries = []

    @recoverer.with_recovery
    async def twice(value: int) -> int:
        tries.append(file.read_text())
        file.write_text("bad")
        if len(tries) < 3:
            raise ValueError(value)
        return value

    assert asyncio.run(twice(7)) == 7
    assert tries == ["good"] * 3
    newest = recoverer.checkpoints.latest()
    assert (newest.name, newest.checkpoint_type) == ("twice", CheckpointType.AUTOMATIC)

    @recoverer.with_recovery(name="once", retries=0, on=KeyError)
    def once() -> None:
        file.write_text("worse")
        raise KeyError("x")

    with pytest.raises(KeyError):
        once()
    assert file.read_text() == "bad"


def test_an_exception_that_is_not_meant_is_not_rolled_back(recoverer, file):
    @recoverer.with_recovery(on=KeyError)
    def other() -> None:
        file.write_text("kept")
        raise ValueError

    with pytest.raises(ValueError):
        other()
    assert file.read_text() == "kept"


def test_a_block_is_rolled_back_and_raises(recoverer, file):
    async def story() -> None:
        async with recoverer.protecting("block"):
            file.write_text("bad")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(story())
    assert file.read_text() == "good"
    with pytest.raises(ValueError, match="boom"), recoverer.protecting("block"):
        file.write_text("bad")
        raise ValueError("boom")
    assert file.read_text() == "good"


def test_a_block_that_ends_well_is_left_alone(recoverer, file):
    with recoverer.protecting("block"):
        file.write_text("better")
    assert file.read_text() == "better"


def test_attempts_of_a_block(recoverer, file):
    seen = []

    async def story() -> None:
        async for attempt in recoverer.attempts("block", retries=3):
            async with attempt:
                seen.append((attempt.number, file.read_text()))
                file.write_text("bad")
                if attempt.number < 3:
                    raise ValueError
                file.write_text("done")

    asyncio.run(story())
    assert seen == [(1, "good"), (2, "good"), (3, "good")]
    assert file.read_text() == "done"


def test_the_last_attempt_raises(recoverer, file):
    def story() -> None:
        for attempt in recoverer.attempts(retries=1):
            with attempt:
                file.write_text("bad")
                raise ValueError(f"try {attempt.number}")

    with pytest.raises(ValueError, match="try 2"):
        story()
    assert file.read_text() == "good"


def test_a_cancelled_task_finishes_its_rollback(recoverer, file):
    begun = asyncio.Event()

    async def work() -> None:
        async with recoverer.protecting("block", on=BaseException):
            file.write_text("bad")
            begun.set()
            await asyncio.Event().wait()

    async def story() -> None:
        task = asyncio.ensure_future(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert file.read_text() == "good"


def test_a_rollback_that_is_refused_is_told_on_the_exception(recoverer, project, file):
    def story() -> None:
        with recoverer.protecting("block"):
            newest = recoverer.checkpoints.latest()
            (project / ".claude" / "checkpoints" / newest.id / "metadata.json").unlink()
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as caught:
        story()
    assert "could not roll back" in caught.value.__notes__[0]


def test_figures_go_into_the_checkpoints(project, file):
    recoverer = ErrorRecoverer(project, figures=lambda: {"session_number": 4})
    with recoverer.protecting("x"):
        pass
    assert ProjectCheckpoints(project).latest().context == {"session_number": 4}
