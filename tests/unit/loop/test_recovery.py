"""Trying again from a checkpoint: what a failed try did is gone, and the last exception is the one that is raised."""

from __future__ import annotations

import asyncio

import pytest

from mulligan.errors import UserError
from mulligan.loop.recovery import Recovery


@pytest.fixture
def flaky(ws, project):
    """A task that leaves litter and fails; it succeeds on the given try."""
    (project / "a").write_text("0")

    class Flaky:
        tries = 0
        seen: tuple[list[str], ...] = ()

        def __call__(self, succeed_on: int) -> str:
            self.tries += 1
            self.seen = (*self.seen, sorted(path.name for path in project.iterdir()))
            (project / f"litter-{self.tries}").write_text("x")
            (project / "a").write_text(str(self.tries))
            if self.tries < succeed_on:
                raise ValueError(f"try {self.tries}")
            return "done"

    return Flaky()


def test_a_decorated_function_is_tried_again_from_the_checkpoint(ws, project, flaky):
    assert Recovery.of(ws, "task", retries=2)(flaky)(3) == "done"
    assert flaky.tries == 3
    assert flaky.seen == (["a"],) * 3
    assert sorted(path.name for path in project.iterdir()) == ["a", "litter-3"]
    assert ws.get("task").kind == "automatic"


def test_the_last_failure_is_raised_and_rolled_back(ws, project, flaky):
    with pytest.raises(ValueError, match="try 2"):
        Recovery.of(ws, retries=1)(flaky)(9)
    assert [path.name for path in project.iterdir()] == ["a"]
    assert (project / "a").read_text() == "0"


def test_attempts_as_context_managers(ws, project, flaky):
    for attempt in Recovery.of(ws, retries=5).attempts():
        with attempt:
            result = flaky(2)
    assert (result, attempt.number, flaky.tries) == ("done", 2, 2)


def test_once_rolls_back_and_raises(ws, project, flaky):
    recovery = Recovery.of(ws, retries=5)
    with pytest.raises(ValueError, match="try 1"), recovery.once():
        flaky(9)
    assert (project / "a").read_text() == "0"
    with recovery.once():
        (project / "a").write_text("kept")
    assert (project / "a").read_text() == "kept"


def test_other_exceptions_go_through_untouched(ws, project, flaky):
    (project / "a").write_text("0")
    with pytest.raises(KeyError), Recovery.of(ws, on=ValueError).once():
        (project / "a").write_text("left as it is")
        raise KeyError
    assert (project / "a").read_text() == "left as it is"


def test_an_interrupt_is_not_recovered_from(ws, project):
    with pytest.raises(KeyboardInterrupt), Recovery.of(ws).once():
        (project / "a").write_text("kept for a look")
        raise KeyboardInterrupt
    assert (project / "a").read_text() == "kept for a look"


def test_trouble_while_rolling_back_is_a_note_and_ends_the_repeating():
    tries: list[int] = []

    def restore(_point: object) -> None:
        raise OSError("no way back")

    @Recovery(lambda: "point", restore, retries=5)
    def task() -> None:
        tries.append(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        task()
    assert len(tries) == 1
    assert any("no way back" in note for note in caught.value.__notes__)


def test_coroutines_are_tried_again_too(ws, project, flaky):
    told: list[BaseException] = []

    @Recovery.of(ws, retries=2, on_failure=told.append)
    async def task() -> str:
        await asyncio.sleep(0)
        return flaky(2)

    assert asyncio.run(task()) == "done"
    assert flaky.seen == (["a"],) * 2
    assert [str(error) for error in told] == ["try 1"]


def test_a_coroutine_that_keeps_failing_raises_its_last(ws, project, flaky):
    @Recovery.of(ws, retries=1)
    async def task() -> None:
        flaky(9)

    with pytest.raises(ValueError, match="try 2"):
        asyncio.run(task())
    assert [path.name for path in project.iterdir()] == ["a"]


@pytest.mark.parametrize("options", [{"retries": -1}, {"retries": True}, {"wait": -1.0}])
def test_odd_numbers_are_refused(options):
    with pytest.raises(UserError):
        Recovery(lambda: 1, print, **options)
