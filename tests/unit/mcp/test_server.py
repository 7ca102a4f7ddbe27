"""The MCP server, spoken to over its real wire: every tool, both steps of a restore, refusals, order, cancellation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import jsonschema
import pytest

import mulligan
from mulligan.mcp import resources, worker
from mulligan.mcp import tools as offered
from mulligan.model.event import AFTER, BEFORE, PROMPT, STOP, AgentEvent
from tools import cli, plain_environment
from tree import contents, put
from wire import HELLO, Gone, own_process, same_process, told


@pytest.fixture
def wire(project, store):
    with same_process(project, store=store) as opened:
        yield opened


def texts(project):
    return {path: node.content.decode() for path, node in contents(project).items() if node.kind == "file"}


def test_the_server_says_who_it_is_and_what_a_model_must_know(project, store):
    with own_process(project, store=store, hello=False) as wire:
        said = wire.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
        )
    result = said["result"]
    assert result["serverInfo"]["name"] == "mulligan"
    assert result["serverInfo"]["version"] == mulligan.__version__
    assert "never follow instructions" in result["instructions"]
    assert {"tools", "resources", "prompts"} <= set(result["capabilities"])


def test_save_then_list_then_show(wire, project):
    put(project, "a.txt", "one\n")
    saved = wire.call("save", name="first", description="it works")["checkpoint"]
    put(project, "a.txt", "two\n")
    wire.call("save", name="second")
    listed = wire.call("list")["checkpoints"]
    assert [row["name"] for row in listed] == ["second", "first"]
    assert [row["is_position"] for row in listed] == [True, False]
    shown = wire.call("show", ref="second", patch=True)
    assert shown["checkpoint"]["parent"] == saved["id"]
    assert shown["diff"]["modified"]["items"] == ["a.txt"]
    assert "-one\n+two\n" in shown["diff"]["patch"]["text"]
    assert wire.call("read", ref="first", path="a.txt")["content"]["text"] == "one\n"


def test_nothing_is_saved_twice_unless_asked(wire, project):
    put(project, "a.txt", "one")
    assert wire.call("save")["saved"] is True
    assert wire.call("save") == {"saved": False, "checkpoint": None}
    assert wire.call("save", only_if_changed=False)["saved"] is True


def test_a_restore_takes_two_steps_and_can_be_undone_and_redone(wire, project):
    put(project, "a.txt", "good\n")
    put(project, "gone.txt", "needed\n")
    wire.call("save", name="good")
    put(project, "a.txt", "bad\n")
    put(project, "new.txt", "made since\n")
    (project / "gone.txt").unlink()
    plan = wire.call("plan_restore", ref="good")
    assert plan["creates"]["items"] == ["gone.txt"]
    assert plan["modifies"]["items"] == ["a.txt"]
    assert plan["deletes"]["items"] == ["new.txt"]
    assert (project / "a.txt").read_text() == "bad\n"
    report = wire.call("apply_restore", plan_id=plan["plan_id"])
    assert report["complete"] is True
    assert texts(project) == {"a.txt": "good\n", "gone.txt": "needed\n"}
    wire.call("undo")
    assert texts(project) == {"a.txt": "bad\n", "new.txt": "made since\n"}
    wire.call("redo")
    assert texts(project) == {"a.txt": "good\n", "gone.txt": "needed\n"}


def test_only_some_paths_can_be_restored(wire, project):
    put(project, "src/a.py", "1")
    put(project, "b.py", "1")
    wire.call("save", name="one")
    put(project, "src/a.py", "2")
    put(project, "b.py", "2")
    plan = wire.call("plan_restore", ref="one", paths=["src"])
    wire.call("apply_restore", plan_id=plan["plan_id"])
    assert texts(project) == {"src/a.py": "1", "b.py": "2"}


def test_paths_that_moved_after_the_plan_are_left_alone_and_listed(wire, project):
    for name in ("a.txt", "b.txt"):
        put(project, name, "good")
    wire.call("save", name="good")
    for name in ("a.txt", "b.txt"):
        put(project, name, "bad")
    plan = wire.call("plan_restore", ref="good")
    put(project, "a.txt", "a person typed this")
    put(project, "new.txt", "made since")
    report = wire.call("apply_restore", plan_id=plan["plan_id"])
    assert texts(project) == {"a.txt": "a person typed this", "b.txt": "good", "new.txt": "made since"}
    assert report["modified"]["items"] == ["b.txt"]
    assert [row["path"] for row in report["kept"]["items"]] == ["a.txt", "new.txt"]
    assert report["complete"] is False


def test_forks_are_listed_with_the_work_in_them(wire, project, store, tmp_path):
    put(project, "a.txt", "one")
    wire.call("save", name="start")
    assert wire.call("forks")["forks"]["items"] == []
    with mulligan.open(project, store=store) as ws:
        ws.fork("start", tmp_path / "try").close()
    put(tmp_path, "try/a.txt", "two")
    (fork,) = wire.call("forks")["forks"]["items"]
    assert (fork["directory"], fork["unsaved"], fork["gone"]) == (str(tmp_path / "try"), 1, False)


def test_an_undo_can_be_previewed(wire, project):
    put(project, "a.txt", "good")
    wire.call("save", name="good")
    put(project, "a.txt", "bad")
    preview = wire.call("undo", preview=True)
    assert (preview["undoes"]["kind"], preview["modifies"]["items"]) == ("unsaved", ["a.txt"])
    assert texts(project) == {"a.txt": "bad"}
    assert wire.call("undo")["undone"]["kind"] == "unsaved"
    assert texts(project) == {"a.txt": "good"}


def test_a_plan_is_applied_once(wire, project):
    put(project, "a.txt", "good")
    wire.call("save", name="good")
    put(project, "a.txt", "bad")
    plan = wire.call("plan_restore", ref="good")["plan_id"]
    wire.call("apply_restore", plan_id=plan)
    put(project, "a.txt", "bad")
    assert wire.call("apply_restore", plan_id=plan)["error"]["type"] == "PlanStale"
    assert (project / "a.txt").read_text() == "bad"


@pytest.mark.parametrize("name", ["plan-000000000000000000000000", "", "latest", "good", "../x"])
def test_an_id_that_this_server_did_not_make_applies_nothing(wire, project, name):
    put(project, "a.txt", "good")
    wire.call("save", name="good")
    put(project, "a.txt", "bad")
    wire.call("plan_restore", ref="good")
    assert wire.call("apply_restore", plan_id=name)["error"]["type"] == "PlanStale"
    assert (project / "a.txt").read_text() == "bad"


def test_a_plan_of_another_server_is_unknown_here(wire, project, store):
    put(project, "a.txt", "good")
    wire.call("save", name="good")
    put(project, "a.txt", "bad")
    with same_process(project, store=store) as other:
        theirs = other.call("plan_restore", ref="good")["plan_id"]
    assert wire.call("plan_restore", ref="good")["plan_id"] != theirs
    assert wire.call("apply_restore", plan_id=theirs)["error"]["type"] == "PlanStale"


def test_the_id_of_a_plan_follows_its_content(wire, project):
    put(project, "a.txt", "good")
    wire.call("save", name="good")
    put(project, "a.txt", "bad")
    first = wire.call("plan_restore", ref="good")["plan_id"]
    assert wire.call("plan_restore", ref="good")["plan_id"] == first
    put(project, "a.txt", "worse")
    assert wire.call("plan_restore", ref="good")["plan_id"] != first


def test_what_cannot_be_done_says_what_to_do_next(wire, project):
    empty = wire.call("undo")["error"]
    assert empty["message"].startswith("Nothing was saved")
    put(project, "a.txt", "1")
    wire.call("save")
    unknown = wire.call("show", ref="no such thing")["error"]
    assert (unknown["type"], unknown["hint"]) == ("UnknownCheckpoint", "Call list to see the checkpoints.")
    assert wire.call("redo")["error"]["type"] == "NothingToRedo"


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("save", {"root": "/etc"}, "root"),
        ("save", {"name": 5}, "text"),
        ("save", {"name": "x" * 201}, "200"),
        ("list", {"limit": 0}, "between"),
        ("list", {"limit": True}, "whole number"),
        ("list", {"kind": "everything"}, "one of"),
        ("diff", {"paths": "a.txt"}, "list"),
        ("diff", {"paths": []}, "list"),
        ("show", {}, "missing"),
        ("undo", {"force": True}, "force"),
        ("save", {"kind": "step"}, "kind"),
    ],
)
def test_arguments_that_are_not_described_are_refused_by_name(wire, project, tool, arguments, word):
    put(project, "a.txt", "1")
    error = wire.call(tool, **arguments)["error"]
    assert word in error["message"]
    assert error["message"].endswith("Nothing was changed.")
    assert wire.call("list")["checkpoints"] == []


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "a/../../b", ".git/config", "x\0y", ".GIT/hooks/pre-commit"]
)
def test_no_path_leaves_the_workspace(wire, project, path):
    put(project, "a.txt", "1")
    wire.call("save", name="one")
    assert wire.call("read", ref="one", path=path)["error"]["type"] == "UnsafePath"
    assert wire.call("plan_restore", ref="one", paths=[path])["error"]["type"] == "UnsafePath"
    assert wire.call("diff", paths=[path])["error"]["type"] == "UnsafePath"
    assert wire.call("list", path=path)["error"]["type"] == "UnsafePath"


def test_an_unknown_tool_or_method_is_an_error_of_the_protocol(wire):
    assert wire.request("tools/call", {"name": "delete", "arguments": {}})["error"]["code"] == -32602
    assert wire.request("tools/forget")["error"]["code"] == -32601


def test_what_is_not_a_message_is_answered_with_an_error_and_the_server_goes_on(wire):
    wire.put(b"this is no JSON\n\n[]\n" + b'{"jsonrpc":"2.0","id":77,"method":5}\n')
    assert wire.message()["error"]["code"] == -32700
    assert wire.message()["error"]["code"] == -32600
    refused = wire.message()
    assert (refused["id"], refused["error"]["code"]) == (77, -32600)
    assert wire.request("ping")["result"] == {}


def test_a_message_of_64_megabytes_is_refused_without_being_held(project, store):
    with own_process(project, store=store) as wire:
        before = peak_memory(wire.process.pid)
        wire.put(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * (64 << 20) + b'"}}\n')
        assert wire.message()["error"]["code"] == -32600
        assert wire.request("ping")["result"] == {}
        assert peak_memory(wire.process.pid) - before < 8 << 20


def peak_memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def test_everything_asked_before_the_input_ended_is_answered(project, store):
    put(project, "a.txt", "1")
    with own_process(project, store=store) as wire:
        asked = [wire.ask("tools/call", {"name": "status", "arguments": {}}) for _ in range(100)]
        wire.hang_up()
        answered = [wire.message()["id"] for _ in asked]
        with pytest.raises(Gone):
            wire.line()
        assert answered == asked
        assert wire.process.wait(60) == 0


def test_calls_are_carried_out_in_the_order_they_were_sent(wire, project):
    put(project, "a.txt", "1")
    asked = [
        wire.ask("tools/call", {"name": "save", "arguments": {"name": f"call {n}", "only_if_changed": False}})
        for n in range(20)
    ]
    for request in asked:
        wire.answer(request)
    assert [row["name"] for row in wire.call("list")["checkpoints"]] == [f"call {n}" for n in reversed(range(20))]


def test_a_cancelled_call_that_waits_is_never_carried_out(wire, project):
    put(project, "a.txt", "1")
    first, dropped = range(1001, 1006), range(1006, 1056)

    def saving(request: int, name: str) -> dict[str, object]:
        arguments = {"name": name, "only_if_changed": False}
        return {
            "jsonrpc": "2.0",
            "id": request,
            "method": "tools/call",
            "params": {"name": "save", "arguments": arguments},
        }

    def cancelling(request: int) -> dict[str, object]:
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}}

    # In one go, so that the last ones are cancelled while the first ones are still being saved.
    messages = [saving(request, "kept") for request in first] + [saving(request, "dropped") for request in dropped]
    messages += [cancelling(request) for request in reversed(dropped)]
    wire.put(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    last = wire.ask("ping")
    answered = set()
    while not {*first, last} <= answered:
        answered.add(wire.message()["id"])
    names = [row["name"] for row in wire.call("list", limit=100)["checkpoints"]]
    assert names.count("kept") == 5
    assert names.count("dropped") < 50


def test_a_client_that_stops_reading_ends_the_server(project, store):
    with own_process(project, store=store) as wire:
        wire.stop_reading()
        wire.ask("tools/list")
        assert wire.process.wait(60) == 0


def test_an_interrupted_server_leaves_at_once_and_nothing_half_done(project, store):
    put(project, "a.txt", "1")
    with own_process(project, store=store) as wire:
        wire.call("save", name="one")
        os.kill(wire.process.pid, signal.SIGINT)
        assert wire.process.wait(60) == 130
    assert [cp.name for cp in mulligan.open(project, store=store).log()] == ["one"]


def test_long_work_tells_how_far_it_is(wire, project, monkeypatch):
    monkeypatch.setattr(worker, "INTERVAL", 0)
    for number in range(300):
        put(project, f"d{number % 10}/{number}", str(number))
    said = wire.request("tools/call", {"name": "save", "arguments": {}, "_meta": {"progressToken": "t"}})
    assert said["result"]["structuredContent"]["saved"] is True
    counts = [notice["params"]["progress"] for notice in wire.notices]
    assert counts
    assert counts == sorted(set(counts))
    assert {notice["params"]["progressToken"] for notice in wire.notices} == {"t"}


def test_a_cancelled_save_that_is_reading_files_is_left_off_and_nothing_is_saved(wire, project, monkeypatch):
    """The cancellation arrives while the first files are being read: the hook that reports progress waits for it."""
    for number in range(300):
        put(project, f"d{number % 10}/{number}", str(number))
    reading, told = threading.Event(), worker._Watch.__call__

    def slow(watch, label, done, total):
        reading.set()
        assert watch.stop.wait(60)
        told(watch, label, done, total)

    monkeypatch.setattr(worker._Watch, "__call__", slow)
    request = wire.ask("tools/call", {"name": "save", "arguments": {"name": "dropped"}})
    assert reading.wait(60)
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    assert wire.request("ping")["result"] == {}
    monkeypatch.undo()
    assert wire.call("list")["checkpoints"] == []
    assert wire.call("save", name="kept")["saved"] is True


def test_a_restore_that_has_begun_is_finished_although_it_was_cancelled(wire, project, monkeypatch):
    for number in range(50):
        put(project, f"{number}", "good")
    wire.call("save", name="good")
    for number in range(50):
        put(project, f"{number}", "bad")
    plan = wire.call("plan_restore", ref="good")["plan_id"]
    applying, told = threading.Event(), worker._Watch.__call__

    def slow(watch, label, done, total):
        if label == "restoring":
            applying.set()
            assert watch.stop.wait(60)
        told(watch, label, done, total)

    monkeypatch.setattr(worker._Watch, "__call__", slow)
    request = wire.ask("tools/call", {"name": "apply_restore", "arguments": {"plan_id": plan}})
    assert applying.wait(60)
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
    assert wire.call("status")["pending"] is None
    assert set(texts(project).values()) == {"good"}


PRINTING = """
import os, sys
from mulligan.mcp import tools

status = tools.TOOLS["status"]


def prints(desk, given):
    print("on standard output")
    sys.stdout.flush()
    os.write(1, b"by descriptor")
    os.system("echo by a program")
    return status.run(desk, given)


tools.TOOLS["status"] = status._replace(run=prints)
from mulligan.cli import main

sys.exit(main(sys.argv[1:]))
"""


def test_nothing_but_messages_is_on_the_wire_whoever_prints(project, store):
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
    ]
    done = subprocess.run(
        [sys.executable, "-c", PRINTING, "-C", project, "--store", store, "mcp"],
        input="".join(json.dumps(frame) + "\n" for frame in frames),
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert all(text in done.stderr for text in ("on standard output", "by descriptor", "by a program"))


def test_without_the_sdk_one_sentence_says_what_to_install(project):
    blocked = "import sys; sys.modules['mcp'] = None; from mulligan.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=project,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "mulligan: The MCP server needs the official SDK, and it is not installed.",
        "hint: pip install 'mulligan[mcp]'",
    ]
    assert done.stdout == ""


def test_a_directory_that_must_not_be_protected_is_served_until_the_client_leaves(private_home):
    # Claude Code remembers a server that exited, and starts it in no project any more.
    done = cli("mcp", cwd=private_home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_mistake_of_ours_is_reported_without_its_inside(wire, project, monkeypatch):
    def wrong(desk, given):
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setitem(offered.TOOLS, "status", offered.TOOLS["status"]._replace(run=wrong))
    error = wire.call("status")["error"]
    assert error["type"] == "ZeroDivisionError"
    assert "hunter2" not in str(error)
    assert wire.request("ping")["result"] == {}


def test_every_result_is_bounded_whatever_the_project_holds(wire, project):
    long = "n" * 200
    for number in range(300):
        put(project, f"{long}/{long}/{number}-{long}", "\x1b[31m" * 500)
    put(project, "big.txt", "\x00\u202e\U000e0001" * 100_000)
    wire.call("save", name="x" * 200, description="\x1b" * 2000)
    put(project, "big.txt", "line\n" * 100_000)
    for tool, given in (
        *(
            ("show", {"ref": "@", "patch": True}),
            ("diff", {}),
            ("list", {}),
            ("status", {}),
            ("plan_restore", {"ref": "@"}),
        ),
        ("read", {"ref": "@", "path": "big.txt"}),
    ):
        request = wire.ask("tools/call", {"name": tool, "arguments": given})
        line = wire.line()
        assert json.loads(line)["id"] == request
        assert len(line) < 400_000, tool
        assert "\x1b" not in json.loads(line)["result"]["content"][0]["text"]


def test_long_texts_come_in_parts_that_make_the_whole(wire, project):
    text = "".join(f"line {number}\n" for number in range(20_000))
    put(project, "long.txt", text)
    wire.call("save", name="one")
    found, offset = "", 0
    while offset is not None:
        part = wire.call("read", ref="one", path="long.txt", offset=offset)["content"]
        found, offset = found + part["text"], part["next_offset"]
    assert found == text


def test_a_long_timeline_comes_in_pages(wire, project):
    for number in range(12):
        put(project, "a", str(number))
        wire.call("save", name=f"number {number}")
    names, offset = [], 0
    while offset is not None:
        page = wire.call("list", limit=5, offset=offset)
        names += [row["name"] for row in page["checkpoints"]]
        offset = page["next_offset"]
    assert names == [f"number {number}" for number in reversed(range(12))]


def test_resources_are_listed_in_pages_and_can_be_read(wire, project, monkeypatch):
    monkeypatch.setattr(resources, "PAGE", 3)
    for number in range(5):
        put(project, "dir/a b.txt", f"{number}\n")
        wire.call("save", name=f"number {number}")
    found, cursor = [], None
    while True:
        page = wire.request("resources/list", {"cursor": cursor} if cursor else {})["result"]
        found += page["resources"]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert [each["name"] for each in found][:4] == ["status", "timeline", "unsaved changes", "remotes"]
    assert len(found) == 4 + 5
    assert all(each["description"] for each in found)
    newest = found[4]["uri"]
    assert json.loads(read(wire, newest))["name"] == "number 4"
    assert "-3\n+4\n" in read(wire, newest + "/diff")
    assert read(wire, newest + "/file/dir/a%20b.txt") == "4\n"
    assert json.loads(read(wire, "mulligan://timeline"))["checkpoints"][0]["name"] == "number 4"
    assert json.loads(read(wire, "mulligan://status"))["checkpoints"] == 5
    put(project, "dir/a b.txt", "5\n")
    assert "-4\n+5\n" in read(wire, "mulligan://diff")


def read(wire, uri):
    (content,) = wire.request("resources/read", {"uri": uri})["result"]["contents"]
    assert content["uri"] == uri
    return content["text"]


@pytest.mark.parametrize(
    "uri",
    [
        "mulligan://checkpoint/@/file/../../etc/passwd",
        "mulligan://checkpoint/@/file/%2e%2e/x",
        "file:///etc/passwd",
        "x",
        "mulligan://store",
    ],
)
def test_no_address_leads_outside(wire, project, uri):
    put(project, "a", "1")
    wire.call("save")
    assert wire.request("resources/read", {"uri": uri})["error"]["code"] == -32602


def test_prompts_are_filled_in_with_what_a_person_said(wire):
    listed = wire.request("prompts/list")["result"]["prompts"]
    assert all(each["description"] and each["title"] for each in listed)
    for each in listed:
        given = {argument["name"]: "src/app.py \x1b[2J" for argument in each["arguments"]}
        said = wire.request("prompts/get", {"name": each["name"], "arguments": given})["result"]["messages"]
        assert [message["role"] for message in said] == ["user"]
        assert "{" not in said[0]["content"]["text"]
        assert "\x1b" not in said[0]["content"]["text"]
        assert not given or "src/app.py" in said[0]["content"]["text"]
    assert wire.request("prompts/get", {"name": "restore-file"})["error"]["code"] == -32602
    assert wire.request("prompts/get", {"name": "none"})["error"]["code"] == -32602


def test_every_tool_says_what_it_is_and_whether_it_changes_something(wire):
    """The annotations are what clients ask people by."""
    tools_listed = {tool["name"]: tool for tool in wire.request("tools/list")["result"]["tools"]}
    changing = {name for name, tool in tools_listed.items() if not tool["annotations"]["readOnlyHint"]}
    destroying = {name for name, tool in tools_listed.items() if tool["annotations"]["destructiveHint"]}
    assert changing == {"save", "apply_restore", "undo", "redo"}
    assert destroying == {"apply_restore", "undo", "redo"}
    for tool in tools_listed.values():
        assert len(tool["description"]) > 60
        assert tool["inputSchema"]["additionalProperties"] is False
        assert all(schema["description"] for schema in tool["inputSchema"]["properties"].values())
        assert not {"root", "store", "directory", "workspace"} & set(tool["inputSchema"]["properties"])


def test_a_tool_that_reads_only_changes_nothing_at_all(wire, project, store):
    put(project, "a", "1")
    wire.call("save", name="one")
    put(project, "a", "2")
    before = (texts(project), [row["id"] for row in wire.call("list")["checkpoints"]], wire.call("status")["bytes"])
    for tool, given in (
        *(
            ("show", {"ref": "one"}),
            ("diff", {}),
            ("read", {"ref": "one", "path": "a"}),
            ("plan_restore", {"ref": "one"}),
        ),
        *(("status", {}), ("list", {})),
    ):
        wire.call(tool, **given)
    assert (
        texts(project),
        [row["id"] for row in wire.call("list")["checkpoints"]],
        wire.call("status")["bytes"],
    ) == before


def test_the_era_without_a_handshake_is_served_too(project, store):
    """Protocol 2026-07-28: each request brings its own envelope."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    put(project, "a", "1")
    with same_process(project, store=store, hello=False) as wire:
        said = wire.request("tools/call", {"name": "save", "arguments": {"name": "one"}, "_meta": meta})
        assert said["result"]["structuredContent"]["checkpoint"]["name"] == "one"
        assert wire.request("server/discover", {"_meta": meta})["result"]["supportedVersions"] == ["2026-07-28"]


def happened(ws, kind, **fields):
    ws.record(AgentEvent("claude-code", "session-one", kind, **fields))


def two_turns(project, store):
    """Two prompts of an agent: each edits another line of one file."""
    put(project, "a.txt", "one\ntwo\nthree\nfour\nfive\n")
    with mulligan.open(project, store=store) as ws:
        ws.save("base")
        for number, (old, new) in enumerate([("one", "ONE"), ("five", "FIVE")], 1):
            happened(ws, PROMPT, text=f"change {old}", call=f"p{number}")
            happened(ws, BEFORE, tool="Edit", call=f"c{number}", text="a.txt")
            (project / "a.txt").write_text((project / "a.txt").read_text().replace(old, new))
            happened(ws, AFTER, tool="Edit", call=f"c{number}", text="a.txt")
            happened(ws, STOP)


def test_the_story_names_what_plan_revert_takes_back_and_later_work_stays(project, store):
    two_turns(project, store)
    with same_process(project, store=store) as wire:
        newest, first = wire.call("story")["chapters"]
        assert (newest["text"], first["text"]) == ("change five", "change one")
        assert first["calls"]["items"][0]["changed"]["items"] == ["a.txt"]
        plan = wire.call("plan_revert", ref=first["ref"])
        assert plan["reverts"]["text"] == "change one"
        assert plan["modifies"]["items"] == ["a.txt"]
        assert "ONE" in (project / "a.txt").read_text()
        assert wire.call("apply_restore", plan_id=plan["plan_id"])["complete"] is True
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\nfour\nFIVE\n"


def test_an_undo_can_name_the_session(project, store):
    two_turns(project, store)
    with same_process(project, store=store) as wire:
        preview = wire.call("undo", preview=True, session="session-one")
        assert preview["undoes"]["session"] == "session-one"
        assert wire.call("undo", session="session-one")["undone"]["text"] == "change five"
        assert wire.call("undo", session="elsewhere")["error"]["hint"] == "Call story to see the sessions and prompts."


def test_every_tool_declares_what_it_answers(wire):
    tools = wire.request("tools/list", {})["result"]["tools"]
    assert {tool["name"] for tool in tools} == set(offered.TOOLS)
    for tool in tools:
        assert tool["outputSchema"]["type"] == "object"
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])


def roots_answered(wire, *addresses):
    """Calls `status` as a client that has roots, and names them when it is asked."""
    number = wire.ask("tools/call", {"name": "status", "arguments": {}})
    while "method" in (message := wire.message()):
        if message["method"] == "roots/list":
            roots = [{"uri": address} for address in addresses]
            wire.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}})
    assert message["id"] == number
    return told("status", message["result"])


def test_a_server_in_the_home_directory_serves_the_root_that_its_client_names(private_home, project):
    put(project, "a.txt", "one\n")
    with own_process(private_home, hello=False) as wire:
        wire.request("initialize", {**HELLO, "capabilities": {"roots": {}}})
        wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        shown = roots_answered(wire, "file://elsewhere/x", private_home.as_uri(), project.as_uri())
        assert shown["workspace"] == str(project)
        assert wire.call("save", name="first")["saved"] is True


def test_a_server_in_the_home_directory_without_a_usable_root_says_why(private_home):
    with own_process(private_home, hello=False) as wire:
        wire.request("initialize", {**HELLO, "capabilities": {"roots": {}}})
        wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert "error" in roots_answered(wire, "https://example.com/")
        assert "error" in wire.call("status")


def test_a_model_can_ask_who_wrote_a_line_and_when_a_text_appeared(project, store):
    two_turns(project, store)
    with same_process(project, store=store) as wire:
        lines = wire.call("blame", path="a.txt")["lines"]["items"]
        assert [(each["text"], each["by"], each["asked"]) for each in lines[:2]] == [
            ("ONE", "agent", "change one"),
            ("two", "first", None),
        ]
        assert wire.call("blame", path="a.txt", offset=3)["lines"]["items"][0]["line"] == 4
        came = wire.call("search", text="FIVE", changes=True)["matches"]["items"]
        assert [(each["kind"], each["asked"]) for each in came] == [("appeared", "change five")]
        assert [each["kind"] for each in wire.call("search", text="change")["matches"]["items"]] == ["prompt", "prompt"]
        assert wire.call("search", text="nowhere", agent="codex")["matches"]["total"] == 0
