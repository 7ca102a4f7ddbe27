"""`bisect` finds the step that broke a command, in scratch forks, and leaves the workspace alone."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import subprocess
import sys

import pytest

import mulligan
import mulligan.aio
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from tools import cli, cli_json, mulligan_argv, plain_environment, sweep
from tree import put, snapshot


def history(ws, project, count, broken):
    """Saves some states; from one on, the file `app` says that it is broken."""
    made = []
    for at in range(count):
        put(project, "app", "broken\n" if at >= broken else "works\n")
        put(project, f"f{at}", f"{at}\n")
        made.append(ws.save(f"s{at}"))
    return made


def works(fork):
    with open(os.path.join(fork.root, "app")) as file:
        return file.read() == "works\n"


def test_a_function_that_gets_the_fork_finds_the_step(ws, project):
    made = history(ws, project, 12, 7)
    before = snapshot(project)
    found = ws.bisect(works)
    assert (found.bad.id, found.good.id) == (made[7].id, made[6].id)
    assert found.diff.files == ["app", "f7"] and found.runs <= math.ceil(math.log2(12)) + 2
    assert snapshot(project) == before and ws.position() == made[-1].id


def test_random_histories_with_undos_and_repeats(ws, project, tmp_path):
    rng = random.Random(5)
    for number in range(sweep(3)):
        project_ = tmp_path / f"p{number}"
        project_.mkdir()
        with mulligan.open(project_, store=tmp_path / f"s{number}") as one:
            count = rng.randrange(3, 14)
            broken = rng.randrange(1, count)
            made = history(one, project_, count, broken)
            if rng.random() < 0.5:  # a detour that was undone is not on the way to the present
                put(project_, "app", "works\n")
                one.save("detour")
                one.restore(made[-1])
            found = one.bisect(works)
            assert found.bad.id == made[broken].id and found.good.id == made[broken - 1].id
            assert found.runs - 2 <= math.ceil(math.log2(found.states))


def test_unsaved_work_counts_as_now(ws, project):
    made = history(ws, project, 3, 9)
    put(project, "app", "broken\n")
    found = ws.bisect(works)
    assert found.good.id == made[-1].id and found.bad.description == "before bisect"


def test_ends_are_checked_and_said(ws, project):
    history(ws, project, 4, 9)
    with pytest.raises(mulligan.UserError, match="does not fail at 's3'"):
        ws.bisect(works)
    with pytest.raises(mulligan.UserError, match="passed at none"):
        ws.bisect(lambda fork: False)
    with pytest.raises(mulligan.UserError, match="does not pass at 's1'"):
        ws.bisect(lambda fork: False, good="s1")
    with pytest.raises(mulligan.UserError, match="GOOD is newer"):
        ws.bisect(works, good="s3", bad="s1")
    with pytest.raises(mulligan.UserError, match="not two different states"):
        ws.bisect(works, good="s1", bad="s1")


def test_where_the_oldest_fails_too_a_newer_good_state_is_found(ws, project):
    put(project, "app", "not yet\n")
    ws.save("before there was anything to test")
    made = history(ws, project, 10, 6)
    assert ws.bisect(works).bad.id == made[6].id


def test_what_a_run_leaves_behind_does_not_reach_the_next(ws, project):
    put(project, ".gitignore", "cache\n")
    made = history(ws, project, 9, 4)
    command = "test ! -e cache && test ! -e junk && touch cache junk && grep -q works app"
    assert ws.bisect(command).bad.id == made[4].id


def test_the_prompt_and_the_tool_call_are_named(project):
    with mulligan.open(project) as ws:
        put(project, "app", "works\n")
        ws.save("start")
        for number, text in enumerate(("works\nmore\n", "broken\n", "broken\nmore\n"), 1):
            ws.record(AgentEvent("codex", "abcdefgh", PROMPT, text=f"wish {number}"))
            ws.record(AgentEvent("codex", "abcdefgh", BEFORE, tool="Bash", call=str(number), text=f"sed {number}"))
            put(project, "app", text)
            ws.record(AgentEvent("codex", "abcdefgh", AFTER, tool="Bash", call=str(number), text=f"sed {number}"))
            ws.record(AgentEvent("codex", "abcdefgh", STOP))
    done = cli_json("bisect", "--run", "grep -q works app", cwd=project)
    step = done["step"]
    assert (step["prompt"], step["asked"], step["tool"], step["command"]) == (2, "wish 2", 2, "sed 2")
    assert step["files"] == ["app"] and done["runs"] == 4 and step["checkpoint"]
    shown = cli("bisect", "--run", "grep -q works app", cwd=project).stdout
    assert 'prompt 2 "wish 2"' in shown and "tool 2  Bash: sed 2" in shown and "+broken" in shown


def test_skipped_states_are_explained(ws, project):
    made = history(ws, project, 6, 3)
    words = "case $(ls f*) in *f3*) ;; *f2*) exit 125;; esac; grep -q works app"
    found = ws.bisect(words)
    assert (found.good.id, found.bad.id) == (made[1].id, made[3].id)
    assert [each.id for each in found.skipped] == [made[2].id]


def test_a_code_above_127_stops_and_the_next_call_goes_on(project, tmp_path):
    with mulligan.open(project) as ws:
        made = history(ws, project, 12, 5)
    count = tmp_path / "count"
    command = f"echo >> {count}; test $(wc -l < {count}) = 4 && exit 200; grep -q works app"
    stopped = cli("bisect", "--run", command, cwd=project)
    assert stopped.returncode == 1 and "exit code 200" in stopped.stderr and "goes on" in stopped.stderr
    done = cli("--json", "bisect", "--run", command, cwd=project)
    assert "Continuing an interrupted search: 3 results known." in done.stderr
    assert made[5].id in done.stdout
    assert len(count.read_text().splitlines()) <= 4 + math.ceil(math.log2(12))


def test_an_interrupt_leaves_nothing_and_the_next_call_goes_on(project, tmp_path, private_home):
    with mulligan.open(project) as ws:
        made = history(ws, project, 8, 3)
    flag = tmp_path / "third"
    command = f"test -e {tmp_path}/1 && test -e {tmp_path}/2 && test ! -e {flag} && touch {flag} && sleep 60; "
    command += f"test -e {tmp_path}/1 && touch {tmp_path}/2; touch {tmp_path}/1; grep -q works app"
    process = subprocess.Popen(
        mulligan_argv("bisect", "--run", command), cwd=project, env=plain_environment(), stderr=subprocess.PIPE
    )
    while not flag.exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert b"the same command goes on" in process.communicate(timeout=30)[1]
    assert process.returncode == 130
    scratch = private_home / "xdg-state" / "mulligan" / "scratch"
    assert not list(scratch.iterdir())
    assert cli_json("bisect", "--run", command, cwd=project)["bad"] == made[3].id


def test_bisect_works_as_a_coroutine(ws, project):
    made = history(ws, project, 5, 2)
    found = asyncio.run(
        mulligan.aio.Workspace(ws).bisect([sys.executable, "-c", "exit('works' not in open('app').read())"])
    )
    assert found.bad.id == made[2].id
