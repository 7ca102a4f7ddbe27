"""A JSONL file as a conversation: cut in place, appended to, never replaced under somebody's hands without need."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import mulligan
from mulligan.safefs import syscalls
from mulligan.state.conversation import Transcript
from tools import plain_environment


def line(number) -> str:
    return json.dumps({"n": number}) + "\n"


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "chat.jsonl"
    found.write_text(line(1) + line(2))
    return found


def become(transcript, value) -> None:
    transcript.capture()  # as the engine does, for the checkpoint before every restore
    transcript.stage(value)()


def test_back_and_forward_in_place_while_somebody_holds_it_open(file):
    transcript = Transcript(file)
    two = transcript.capture()
    with file.open("a") as writer:
        writer.write(line(3))
        writer.flush()
        inode, three = file.stat().st_ino, transcript.capture()
        become(transcript, two)
        assert file.read_text() == line(1) + line(2)
        writer.write(line(9))
        writer.flush()
    assert file.read_text() == line(1) + line(2) + line(9) and file.stat().st_ino == inode
    become(transcript, two)
    become(transcript, three)
    assert file.read_text() == line(1) + line(2) + line(3) and file.stat().st_ino == inode
    assert (two["count"], three["count"], transcript.count()) == (2, 3, 3)


def test_a_file_with_another_beginning_is_replaced_whole(file):
    transcript = Transcript(file)
    value = transcript.capture()
    file.write_text(line("other"))
    become(transcript, value)
    assert file.read_text() == line(1) + line(2)
    assert sorted(os.listdir(file.parent)) == ["chat.jsonl"]


def test_a_missing_file_is_an_empty_conversation(tmp_path, file):
    missing = Transcript(tmp_path / "new.jsonl")
    nothing = missing.capture()
    assert nothing == {"count": 0, "text": ""} and missing.count() == 0
    become(missing, nothing)
    assert not (tmp_path / "new.jsonl").exists()
    become(missing, Transcript(file).capture())
    assert (tmp_path / "new.jsonl").read_text() == file.read_text()
    become(missing, nothing)
    assert (tmp_path / "new.jsonl").read_text() == ""


def test_a_line_that_is_being_written_is_not_captured_and_not_lost(file):
    with file.open("a") as writer:
        writer.write('{"half')
    transcript = Transcript(file)
    value = transcript.capture()
    assert value["text"] == line(1) + line(2)
    become(transcript, {"count": 1, "text": line(1)})
    assert file.read_text() == line(1)
    (aside,) = file.parent.glob("chat.jsonl.kept-*")
    assert aside.read_text() == '{"half'
    file.write_text(line(1) + json.dumps({"whole": True}))
    assert transcript.capture()["count"] == 2


def test_what_is_appended_after_the_checkpoint_is_put_aside(file):
    transcript = Transcript(file)
    make_current = transcript.stage({"count": 1, "text": line(1)})
    transcript.capture()
    with file.open("a") as writer:
        writer.write(line("late"))
    make_current()
    assert file.read_text() == line(1)
    (aside,) = file.parent.glob("chat.jsonl.kept-*")
    assert aside.read_text() == line("late")


def test_bytes_that_are_not_utf8_survive(file):
    file.write_bytes(b'{"x": "\xff\xfe"}\n')
    transcript = Transcript(file)
    value = json.loads(json.dumps(transcript.capture()))
    file.write_bytes(b"")
    become(transcript, value)
    assert file.read_bytes() == b'{"x": "\xff\xfe"}\n'


def test_a_transcript_that_is_too_large_is_refused(file):
    with pytest.raises(mulligan.UserError, match="larger than"):
        Transcript(file, largest=5).capture()


def test_something_that_is_no_file_is_refused(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError, match=r"."):
        Transcript(tmp_path / "d").capture()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"."):
        Transcript(tmp_path / "fifo").capture()


def test_a_full_disk_leaves_the_old_transcript(file):
    class Full(syscalls.Calls):
        def write(self, fd, data):
            raise OSError(28, "No space left on device")

    transcript = Transcript(file)
    file.write_text(line("other"))
    transcript.capture()
    make_current = transcript.stage({"count": 1, "text": line(1)})
    with syscalls.using(Full()), pytest.raises(OSError, match="No space"):
        make_current()
    assert file.read_text() == line("other") and os.listdir(file.parent) == ["chat.jsonl"]


KILLED = textwrap.dedent("""
    import os, signal, sys
    import mulligan
    from mulligan.state.conversation import Transcript

    class Dying(Transcript):
        def stage(self, value):
            super().stage(value)
            return lambda: os.kill(os.getpid(), signal.SIGKILL)

    ws = mulligan.open(sys.argv[1], store=sys.argv[2])
    ws.provide("conversation", Dying(sys.argv[3]))
    ws.restore("first", what="all")
""")


def test_killed_between_files_and_conversation_they_are_brought_together_at_the_next_use(project, store, file):
    from mulligan.dialects.praisonai.history import History
    from mulligan.dialects.praisonai.types import CheckpointConfig
    from mulligan.settings import resolve

    with mulligan.open(project, store=store) as ws:
        ws.provide("conversation", Transcript(file))
        (project / "a").write_text("1")
        ws.save("first")
        (project / "a").write_text("2")
        with file.open("a") as writer:
            writer.write(line(3))
    program = [sys.executable, "-c", KILLED, project, store, file]
    died = subprocess.run(program, env=plain_environment(), capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (project / "a").read_text() == "1" and len(file.read_text().splitlines()) == 3, "apart"
    history = History(CheckpointConfig(str(project)), resolve(project, store=store))
    history.conversation = Transcript(file)
    history.open()
    assert "match again" in history.recovered and file.read_text() == line(1) + line(2)
    history.close()


def test_when_the_files_have_moved_on_the_conversation_is_left_alone(project, store, file):
    from mulligan.dialects.praisonai.history import History
    from mulligan.dialects.praisonai.types import CheckpointConfig
    from mulligan.settings import resolve

    with mulligan.open(project, store=store) as ws:
        ws.provide("conversation", Transcript(file))
        (project / "a").write_text("1")
        ws.save("first")
        (project / "a").write_text("2")
    subprocess.run([sys.executable, "-c", KILLED, project, store, file], env=plain_environment(), check=False)
    with mulligan.open(project, store=store) as ws:
        ws.save("later")
    before = file.read_text()
    history = History(CheckpointConfig(str(project)), resolve(project, store=store))
    history.conversation = Transcript(file)
    history.open()
    assert "moved on" in history.recovered and file.read_text() == before
    assert history.workspace.state_owed() is None
    history.close()


def test_an_undo_in_a_terminal_takes_the_conversation_along_at_the_next_use(project, store, file):
    """Whoever types `mulligan undo` holds no conversation: it is owed, and paid when the program is there again."""
    from mulligan.dialects.praisonai import CheckpointService

    service = CheckpointService(project, store.parent / "storage", conversation=file)
    asyncio.run(service.initialize())
    (project / "a").write_text("1")
    first = asyncio.run(service.save("first"))
    (project / "a").write_text("2")
    with file.open("a") as writer:
        writer.write(line(3))
    asyncio.run(service.restore(first))
    assert file.read_text() == line(1) + line(2)
    with mulligan.open(project, store=service.git_dir) as terminal:
        terminal.undo()
    assert (project / "a").read_text() == "2" and file.read_text() == line(1) + line(2)
    again = CheckpointService(project, store.parent / "storage", conversation=file)
    assert asyncio.run(again.initialize()) and "match again" in again.recovered
    assert file.read_text() == line(1) + line(2) + line(3)
