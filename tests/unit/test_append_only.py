"""Somebody who may add to history and never take from it: not by deleting, not by pushing out, not by taking a name."""

from __future__ import annotations

import random

import pytest

import mulligan
from mulligan.engine.workspace import Workspace
from mulligan.errors import NoRoom, UserError
from mulligan.settings import resolve
from tree import put

#: Much more than what a checkpoint costs beside its files.
_LARGE = 400_000


def opened_to_add(project, store):
    return Workspace(resolve(project, store=store)._replace(append_only=True))


@pytest.fixture
def adding(project, store):
    """The same workspace as `ws`, opened to add only."""
    return opened_to_add(project, store)


@pytest.mark.parametrize(
    "take", [lambda ws: ws.delete("one"), lambda ws: ws.forget("a"), lambda ws: ws.trim(0, match={"x": 1})]
)
def test_what_takes_from_history_is_refused(adding, project, take):
    put(project, "a", "1")
    adding.save("one", metadata={"x": 1})
    with pytest.raises(UserError, match="Nothing was deleted"):
        take(adding)
    assert adding.cat("one", "a") == b"1"


def test_saving_many_pushes_nothing_out(ws, adding, project):
    for number in range(5):
        put(project, "a", f"mine {number}")
        ws.save(f"mine {number}", kind="automatic")
    for number in range(30):
        put(project, "a", f"theirs {number}")
        adding.save(kind="automatic")
    put(project, "a", "mine again")
    ws.save("mine again", kind="automatic")
    assert [cp.name for cp in ws.log() if cp.name] == ["mine again", *(f"mine {n}" for n in (4, 3, 2, 1))]


def test_what_was_not_saved_before_a_restore_is_still_there_after_many_more(ws, adding, project):
    """Each restore keeps what it displaced; a hundred of them must not push out the first, nor a later save of a person."""
    put(project, "a", "one")
    ws.save("one")
    put(project, "a", "typed by a person and never saved")
    first = adding.restore("one").undo
    for number in range(40):
        put(project, "a", f"noise {number}")
        adding.restore("one")
    for number in range(25):
        put(project, "a", f"later {number}")
        ws.restore("one")
    assert ws.cat(first, "a") == b"typed by a person and never saved"


def test_the_safety_of_a_person_is_not_pushed_out_either(ws, adding, project):
    put(project, "a", "one")
    ws.save("one")
    put(project, "a", "mine")
    mine = ws.restore("one").undo
    for number in range(40):
        put(project, "a", f"noise {number}")
        adding.restore("one")
    put(project, "a", "mine, later")
    ws.restore("one")
    assert ws.cat(mine, "a") == b"mine"


@pytest.fixture
def nearly_full(project, store, private_home):
    """Returns a function: from now on the budget has room for small things only; the workspace, opened anew."""

    def now() -> mulligan.Workspace:
        with mulligan.open(project, store=store) as ws:
            budget = ws.status()["bytes"] + _LARGE // 4
        put(private_home, "xdg-config/mulligan/config.toml", f'[retention]\nbudget = "{budget}"\n')
        return mulligan.open(project, store=store)

    return now


def test_a_full_budget_refuses_instead_of_evicting(ws, project, store, nearly_full):
    noise = random.Random(1)
    for name in ("first", "second", "third"):
        put(project, "a", noise.randbytes(_LARGE))
        ws.save(name, kind="step")
    ws.close()
    put(project, "a", noise.randbytes(_LARGE))
    ws, adding = nearly_full(), opened_to_add(project, store)
    with pytest.raises(NoRoom):
        adding.save("theirs")
    assert [cp.name for cp in ws.log()] == ["third", "second", "first"]
    ws.save("mine")
    assert [cp.name for cp in ws.log()] == ["mine", "third", "second"]


def test_a_held_checkpoint_is_not_evicted_by_the_budget(ws, project, store, nearly_full):
    noise = random.Random(1)
    put(project, "a", "one")
    ws.save("one")
    put(project, "a", noise.randbytes(_LARGE))
    displaced = opened_to_add(project, store).restore("one").undo
    for name in ("first", "second", "third"):
        put(project, "a", noise.randbytes(_LARGE))
        ws.save(name, kind="step")
    ws.close()
    ws = nearly_full()
    put(project, "a", noise.randbytes(_LARGE))
    ws.save("fourth", kind="step")
    assert [cp.name for cp in ws.log(kind="step")] == ["fourth", "third", "second"]
    assert len(ws.cat(displaced, "a")) == _LARGE


def test_a_name_cannot_take_the_place_of_an_id(ws, adding, project):
    put(project, "a", "1")
    mine = ws.save("mine")
    put(project, "a", "2")
    for length in (2, 8, 16):
        with pytest.raises(UserError, match="begins with"):
            adding.save(mine.id[:length])
    assert ws.get(mine.short_id) == mine
    assert adding.save("added").name == "added"


def test_a_person_can_delete_what_is_held(ws, adding, project):
    put(project, "a", "1")
    ws.save("one")
    put(project, "a", "2")
    held = adding.restore("one").undo
    adding.close()
    ws.delete(held)
    assert held not in [cp.id for cp in ws.log()]
