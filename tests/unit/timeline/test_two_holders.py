"""Two open workspaces over one store: each knows at once what the other did, whatever a process remembers of the timeline."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

import mulligan
from mulligan.errors import MulliganError, UnknownCheckpoint


def seen(ws: mulligan.Workspace) -> object:
    """What a workspace says of the timeline."""
    return [(cp.id, cp.name, cp.kind, cp.parent) for cp in ws.log()], ws.status()["position"], ws.status()["by_kind"]


def act(ws: mulligan.Workspace, project: Path, rng: random.Random, number: int) -> None:
    """One thing that changes the timeline; what is refused changes nothing."""
    (project / f"file{rng.randrange(3)}").write_text(f"{number}\n" * rng.randrange(1, 9))
    ids = [cp.id for cp in ws.log()]
    choice = rng.randrange(6)
    if choice <= 1 or not ids:
        ws.save(f"n{number}", kind=rng.choice(["manual", "step", "automatic"]))
    elif choice == 2:
        ws.restore(rng.choice(ids))
    elif choice == 3:
        ws.delete(rng.choice(ids))
    else:
        (ws.undo if choice == 4 else ws.redo)()


@pytest.mark.parametrize("seed", range(6))
def test_what_one_does_the_other_knows(project: Path, store: Path, seed: int) -> None:
    rng = random.Random(seed)
    with mulligan.open(project, store=store) as one, mulligan.open(project, store=store) as other:
        one.save("first")
        for number in range(25):
            actor, reader = rng.sample([one, other], 2)
            with suppress(MulliganError):  # nothing to undo, nothing to redo, a checkpoint that must stay
                act(actor, project, rng, number)
            assert seen(actor) == seen(reader)
        with mulligan.open(project, store=store) as fresh:
            assert seen(fresh) == seen(one) and not fresh.check().problems


def test_what_the_caller_does_to_a_checkpoint_changes_nothing_that_is_stored(project: Path, store: Path) -> None:
    with mulligan.open(project, store=store) as ws:
        first = ws.save("first", metadata={"list": [1]})
        first.metadata["list"].append(2)
        first.metadata["captured_by_name"] = ["another"]
        first.context["x"] = first.state["y"] = 1
        here = ws.get("@")
        assert (here.metadata, here.context, here.state) == ({"list": [1]}, {}, {})
        assert ws.restore(first).target == first.id
        with pytest.raises(UnknownCheckpoint):
            ws.restore("nothing")
