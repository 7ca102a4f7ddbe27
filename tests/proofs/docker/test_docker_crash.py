"""
Killed at any step, an environment is whole again at its next use: all before or all after, and nothing left over.

The short run takes a few steps of each verb; MULLIGAN_SWEEP multiplies their number, up to every one of them.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import containers
import mulligan
import tools
from mulligan.environments.docker import EngineRefused, EngineUnreachable
from mulligan.errors import Busy, UserError
from mulligan.safefs.directory import Directory
from mulligan.safefs.lock import exclusive

SCRIPT = Path(__file__).with_name("kill_at.py")


# The docker package leaves a socket open when nobody answers.
nobody_answers = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def run_killed(engine: containers.Engine, *arguments: str) -> int | None:
    """Returns how many steps there were, None if the process was killed at one of them."""
    done = subprocess.run(
        [sys.executable, SCRIPT, engine.url, *arguments],
        env=tools.plain_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in {0, -9}, done.stderr
    return int(done.stdout) if done.returncode == 0 else None


def spread(total: int, wanted: int) -> list[int]:
    """Some of the steps 1 to `total`, evenly; all of them if that many are wanted."""
    if wanted >= total:
        return list(range(1, total + 1))
    return sorted({round(total * (at + 1) / (wanted + 1)) for at in range(wanted)})


class Scene:
    """A container with a mounted directory: a word in each, which must always agree."""

    def __init__(self, make, project: Path, engine: containers.Engine) -> None:
        self.make, self.project, self.engine = make, project, engine
        self.env = make(mounts={project: "/mnt"}, name="scene")
        self.env.setup()
        self.say("one")
        self.first = self.env.checkpoint()
        self.say("two")

    def say(self, word: str) -> None:
        (self.project / "state").write_text(word)
        self.env.write_file("state", word)

    def word(self) -> str:
        """What the next process sees; both places agree, one container runs, and nothing is left half done."""
        self.env = self.make(name="scene")
        self.env.setup()
        inside, outside = self.env.read_file("state"), (self.project / "state").read_text()
        assert inside == outside
        assert self.engine.containers() == ["scene"]
        assert self.env.run_command("true").success
        held = {c.metadata.get("container_checkpoint") for c in mulligan.open(self.project).log()} - {None}
        assert held == set(self.env.checkpoint_ids())
        assert sorted(tag.rpartition("-")[2] for tag in self.engine.tags()) == sorted(self.env.checkpoint_ids())
        return inside


@pytest.fixture
def scene(make, project, engine):
    return Scene(make, project, engine)


def test_a_restore_that_is_killed_is_finished_or_taken_back(scene, engine):
    total = run_killed(engine, "scene", "restore", scene.first, "10000")
    assert total is not None and scene.word() == "one"
    scene.env.undo()
    outcomes = []
    for last in sorted({*spread(total, tools.sweep(2)), total}):
        assert run_killed(engine, "scene", "restore", scene.first, str(last)) is None
        outcomes.append(scene.word())
        if outcomes[-1] == "one":
            scene.env.undo()
        assert (scene.env.read_file("state"), (scene.project / "state").read_text()) == ("two", "two")
    assert set(outcomes) == {"one", "two"}
    # There is one point: before it everything leads back, after it everything leads forward.
    assert outcomes == sorted(outcomes, reverse=True)


def test_a_checkpoint_that_is_killed_leaves_nothing(scene, engine):
    total = run_killed(engine, "scene", "checkpoint", "-", "10000")
    assert total is not None
    before = scene.word(), scene.env.checkpoint_ids()
    for last in spread(total, tools.sweep(1)):
        assert run_killed(engine, "scene", "checkpoint", "-", str(last)) is None
        word, ids = scene.word(), scene.env.checkpoint_ids()
        assert word == "two"
        # Killed after the image was there and before it was said so, it may have become a checkpoint.
        assert set(before[1]) <= set(ids)
        before = word, ids
    scene.env.restore(scene.first)
    assert scene.word() == "one"


def test_a_clone_that_is_killed_leaves_nothing(scene, engine):
    total = run_killed(engine, "scene", "clone", "-", "10000")
    assert total is not None
    for last in spread(total, tools.sweep(1)):
        assert run_killed(engine, "scene", "clone", "-", str(last)) is None
        assert scene.word() == "two"


def test_a_restore_that_cannot_start_its_container_changes_nothing(scene):
    """The image has no shell to start: the old container runs again, and the files are as they were."""
    scene.env.run_command("mv /bin/sh /bin/shell")
    broken = scene.env.checkpoint()
    scene.env.restore(scene.first)
    scene.say("three")
    before = scene.engine.api.inspect_container("scene")["Id"]
    with pytest.raises(EngineRefused, match="safe"):
        scene.env.restore(broken)
    assert scene.word() == "three"
    assert scene.engine.api.inspect_container("scene")["Id"] == before
    assert scene.env.last_recovery == ""


def test_what_cannot_be_done_is_refused_before_anything_changes(scene, tmp_path):
    scene.project.rename(tmp_path / "moved")
    with pytest.raises(UserError, match="Nothing was changed"):
        scene.env.restore(scene.first)
    (tmp_path / "moved").rename(scene.project)
    saved = mulligan.open(scene.project)
    for each in saved.log(match={"container_checkpoint": scene.first}):
        saved.delete(each)
    with pytest.raises(UserError, match=r"was deleted\. Nothing was changed"):
        scene.env.restore(scene.first)
    assert (scene.project / "state").read_text() == "two"
    assert scene.env.read_file("state") == "two"


def test_a_checkpoint_that_fails_lets_the_container_go_on(scene):
    """Another process holds the store of the mounted directory for too long."""
    before = scene.env.checkpoint_ids()
    with Directory.open(mulligan.open(scene.project).store_path) as store, exclusive(store, purpose="test"):
        with pytest.raises(Busy):
            scene.env.checkpoint()
        assert scene.engine.api.inspect_container("scene")["State"]["Status"] == "running"
    assert scene.word() == "two"
    assert scene.env.checkpoint_ids() == before


def refusal(ask) -> EngineUnreachable:
    """Returns what somebody is told; the docker package leaves a socket open when nobody answers, which goes here."""
    with pytest.raises(EngineUnreachable) as caught:
        ask()
    told = EngineUnreachable(str(caught.value), hint=caught.value.hint)
    del caught
    gc.collect()
    return told


@nobody_answers
def test_an_engine_that_dies_is_named_and_everything_goes_on_afterwards(scene, engine):
    """The sentence says what happened, what is safe and what to type; all goes on when the engine is back."""
    engine.kill()
    try:
        for ask in (
            scene.env.checkpoint,
            lambda: scene.env.restore(scene.first),
            lambda: scene.env.run_command("true"),
        ):
            told = refusal(ask)
            assert "stopped answering" in str(told) and "Every checkpoint is safe" in str(told)
            assert told.hint.startswith("Start the engine again")
        assert (scene.project / "state").read_text() == "two"
    finally:
        engine.run()
    assert scene.word() == "two"
    scene.env.restore(scene.first)
    assert scene.word() == "one"


@nobody_answers
def test_an_engine_that_dies_in_the_middle_of_a_restore(scene, engine, monkeypatch):
    """Killed after the files went back and before the new container runs: files and container go back together."""

    def dies(*_: object) -> None:
        assert (scene.project / "state").read_text() == "one"
        engine.kill()
        scene.env._history.engine.container(scene.first)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(type(scene.env._history.engine), "wake", dies)
            told = refusal(lambda: scene.env.restore(scene.first))
        assert "the next use finishes an interrupted step" in str(told)
    finally:
        engine.run()
    assert scene.word() == "two"
    assert "rolled back" in scene.env.last_recovery
