"""The guard and the events: a block that goes wrong did not happen, and whoever listens is told."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

import mulligan
from checker import judge
from tree import contents, put


class Boom(Exception):
    """What goes wrong inside a guard."""


def test_a_guard_restores_on_an_exception_and_raises_it_again(ws, project):
    put(project, "a", "1")
    before = contents(project)
    with pytest.raises(Boom), ws.guard("risky"):
        put(project, "a", "2")
        put(project, "new/file", "n")
        raise Boom
    assert contents(project) == before


def test_a_guard_that_goes_well_leaves_the_work_and_one_automatic_checkpoint(ws, project):
    put(project, "a", "1")
    with ws.guard("fine"):
        put(project, "a", "2")
    assert (project / "a").read_text() == "2"
    saved = ws.log(kind="automatic")
    assert [cp.name for cp in saved] == ["fine"]
    assert ws.cat(saved[0], "a") == b"1"


@pytest.mark.parametrize("next_command", [lambda ws: ws.save("next"), lambda ws: ws.prune(), lambda ws: ws.doctor()])
def test_a_guard_whose_process_was_killed_holds_nothing_any_more(ws, project, store, next_command):
    """Else its pin would be there for ever, and one day be somebody else's who was given the same process number."""
    put(project, "a", "1")
    child = os.fork()
    if not child:
        with mulligan.open(project, store=store).guard("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    next_command(ws)
    assert judge(store, project) == []


def test_what_a_guard_threw_away_is_undone_by_one_command(ws, project):
    put(project, "a", "1")
    with pytest.raises(Boom), ws.guard("risky"):
        put(project, "a", "half done")
        raise Boom
    ws.undo()
    assert (project / "a").read_text() == "half done"


def test_nested_guards_each_go_back_to_their_own_start(ws, project):
    put(project, "a", "0")
    with pytest.raises(Boom), ws.guard("outer"):
        put(project, "a", "1")
        with pytest.raises(Boom), ws.guard("inner"):
            put(project, "a", "2")
            raise Boom
        assert (project / "a").read_text() == "1"
        raise Boom
    assert (project / "a").read_text() == "0"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_restores_too(ws, project, error):
    put(project, "a", "1")
    with pytest.raises(error), ws.guard("risky"):
        put(project, "a", "2")
        raise error
    assert (project / "a").read_text() == "1"


def test_a_guard_survives_any_number_of_automatic_saves_inside_it(ws, project):
    put(project, "a", "start")
    with pytest.raises(Boom), ws.guard("outer"):
        for number in range(12):
            put(project, "a", str(number))
            ws.save(kind="automatic")
        raise Boom
    assert (project / "a").read_text() == "start"


def test_listeners_hear_of_saves_restores_deletes_and_prunes(ws, project):
    heard: list[str] = []
    handlers = {}
    for event in ("saved", "restored", "deleted", "pruned"):
        handlers[event] = lambda *_args, event=event, **_more: heard.append(event)
        ws.on(event, handlers[event])
    put(project, "a", "1")
    ws.save("one")
    assert heard == ["saved"]
    put(project, "a", "2")
    ws.restore("one")
    assert heard[-1] == "restored"
    put(project, "a", "3")
    ws.save("three")
    ws.restore("one")
    ws.delete("three")
    assert heard[-1] == "deleted"
    ws.prune()
    assert heard[-1] == "pruned"
    for event, handler in handlers.items():
        ws.off(event, handler)
    count = len(heard)
    put(project, "a", "4")
    ws.save("four")
    ws.undo()
    assert len(heard) == count


def test_a_listener_that_fails_does_not_undo_the_save(ws, project):
    put(project, "a", "1")
    ws.on("saved", lambda *_args, **_more: 1 / 0)
    try:
        ws.save("one")
    except ZeroDivisionError:
        pytest.fail("the listener's error came out of save()")
    assert [cp.name for cp in ws.log()] == ["one"]


def test_an_unknown_event_is_refused(ws):
    with pytest.raises((mulligan.MulliganError, ValueError)):
        ws.on("no such event", print)


def test_a_partial_checkpoint_is_announced(ws, project):
    heard = []
    ws.on("partial", lambda *args, **_more: heard.append(args))
    put(project, "kept", "1")
    put(project, "hidden", "1")
    ws.save("one")
    assert heard == []
    put(project, ".gitignore", "hidden\n")
    cp = ws.save("two")
    assert not cp.complete
    assert [(entry.path, entry.reason) for entry in cp.not_captured] == [("hidden", "newly ignored")]
    assert len(heard) == 1


def test_a_guard_never_hides_the_exception_of_its_body(ws, project):
    """Not even where the workspace was closed, or the store removed, in between."""
    put(project, "a", "1")
    with pytest.raises(ZeroDivisionError), ws.guard("closed"):
        put(project, "a", "2")
        ws.close()
        raise ZeroDivisionError
    assert (project / "a").read_text() == "1"
    with pytest.raises(ZeroDivisionError) as caught, ws.guard("removed"):
        shutil.rmtree(ws.store_path)
        raise ZeroDivisionError
    assert "could not restore" in caught.value.__notes__[0]
