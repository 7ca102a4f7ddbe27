"""The addresses of the web timeline: what they answer, and that a page that was away misses nothing."""

from __future__ import annotations

import pytest

from mulligan import engine
from mulligan.model.event import AFTER, BEFORE, PROMPT, AgentEvent
from served import served
from timelines import Agent, png, shop

pytest.importorskip("starlette")


@pytest.fixture
def story(project, store):
    return shop(project, store)


def test_the_story_is_told_newest_first_with_its_checkpoints(story):
    with served(story) as client:
        page = client.get("/api/steps").json
    kinds = [(each["type"], each.get("name") or each.get("text")) for each in page["entries"]]
    assert kinds[0] == ("prompt", "Write a section on discounts for the README")
    assert ("checkpoint", "passwords are safe") in kinds and kinds[-1] == ("checkpoint", "before the agents")
    assert page["position"] == story.position() and page["next"] is None
    undone = next(each for each in page["entries"] if each.get("text", "").startswith("Now clean up"))
    assert undone["undone"] is True


def test_pages_of_the_timeline_hold_every_entry_once(story):
    with served(story) as client:
        whole = [each["key"] for each in client.get("/api/steps").json["entries"]]
        found, before = [], None
        while True:
            page = client.get("/api/steps?limit=2" + (f"&before={before}" if before else "")).json
            found += [each["key"] for each in page["entries"]]
            before = page["next"]
            if before is None:
                break
    assert found == whole


def test_a_difference_lists_files_then_lines(story):
    with served(story) as client:
        entries = client.get("/api/steps").json["entries"]
        edit = entries[0]["happened"][0]
        span = f"/api/diff/{edit['parent']}/{edit['checkpoint']}"
        assert client.get(span).json["files"][0]["additions"] == 4
        lines = client.get(f"{span}?path=README.md").json["files"][0]
        counts = client.get(f"/api/counts?step={edit['checkpoint']}").json["counts"]
    assert lines["hunks"][0]["lines"][3:] == [
        "+",
        "+## Discounts",
        "+",
        "+A code takes a share off the total: `SPRING` takes ten percent.",
    ]
    assert counts == {edit["checkpoint"]: {"additions": 4, "deletions": 0}}


def test_a_file_shows_as_it_was(ws, project):
    (project / "a.txt").write_text("one\ntwo\n")
    (project / "b.bin").write_bytes(b"\0\1\2")
    (project / "c.png").write_bytes(png((1, 2, 3), 4))
    ws.save("first")
    with served(ws) as client:
        assert client.get("/api/file/first/a.txt").json["lines"] == ["one", "two"]
        assert client.get("/api/file/first/b.bin").json["binary"] is True
        assert client.get("/api/file/first/c.png").json["picture"] is True
        assert client.get("/api/file/first/none.txt").status == 404
        assert client.get("/api/file/none/a.txt").status == 404


def test_a_name_that_is_not_utf8_can_be_asked_for(ws, project):
    (project / "caf\udce9.txt").write_text("one\n")
    ws.save("first")
    with served(ws) as client:
        listed = client.get("/api/diff/nothing/first").json["files"]
        assert listed[0]["path"] == "caf\udce9.txt"
        assert client.get("/api/file/first/caf%E9.txt").json["lines"] == ["one"]
        assert client.get("/api/diff/nothing/first?path=caf%E9.txt").json["files"][0]["additions"] == 1


def test_a_name_with_a_line_end_can_be_asked_for(ws, project):
    (project / "two\nlines").write_text("one\n")
    ws.save("first")
    with served(ws) as client:
        assert client.get("/api/file/first/two%0Alines").json["lines"] == ["one"]


def test_an_address_that_is_not_there_is_answered_as_json(ws):
    with served(ws) as client:
        for answer in (client.get("/api/nothing"), client.post("/api/steps"), client.get("/nothing")):
            assert answer.status in {404, 405} and answer.json["error"]["message"]


def test_a_plan_is_shown_then_applied_and_undone(story, project):
    with served(story) as client:
        shown = client.post("/api/plans", {"ref": "before the agents", "paths": ["src"]}).json["plan"]
        assert shown["modifies"] == ["src/shop/cart.py", "src/shop/login.py", "src/shop/style.css"]
        assert shown["command"] == "mulligan restore 'before the agents' -- src"
        assert "argon2" in (project / "src/shop/login.py").read_text()
        report = client.post(f"/api/plans/{shown['digest']}/apply").json["report"]
        assert report["modified"] == shown["modifies"] and report["complete"] is True
        assert "md5" in (project / "src/shop/login.py").read_text()
        back = client.post("/api/undo").json["plan"]
        assert back["undone"]["kind"] == "restore"


def test_a_plan_that_moved_changes_only_what_did_not_move(story, project):
    with served(story) as client:
        shown = client.post("/api/plans", {"ref": "before the agents", "paths": ["src"]}).json["plan"]
        (project / "src/shop/login.py").write_text("mine\n")
        report = client.post(f"/api/plans/{shown['digest']}/apply").json["report"]
    assert [each["path"] for each in report["kept"]] == ["src/shop/login.py"]
    assert (project / "src/shop/login.py").read_text() == "mine\n"
    assert report["modified"] == ["src/shop/cart.py", "src/shop/style.css"]


def test_a_step_of_an_agent_arrives_on_every_open_page(story, project):
    agent = Agent(story, "claude-code", "live")
    with served(story) as client:
        version = client.get("/api/steps").json["version"]
        with client.stream(version) as one, client.stream(version) as two:
            agent.prompt("a new prompt")
            for events in (one, two):
                name, number, data = next(events)
                assert name == "steps" and number == data["version"] != version
                assert [each["text"] for each in data["entries"]] == ["a new prompt"]


def test_a_lost_connection_resumes_without_a_gap(story, project):
    agent = Agent(story, "claude-code", "live")
    with served(story) as client:
        seen = client.get("/api/steps").json["version"]
        agent.prompt("while it was away")
        agent.tool("Edit", "README.md", lambda: (project / "README.md").write_text("away\n"))
        agent.prompt("and once more")
        with client.stream(**{"Last-Event-ID": seen}) as events:
            name, _, data = next(events)
        with client.stream("another.7") as events:
            reset, _, _ = next(events)
    assert name == "steps" and {each["text"] for each in data["entries"]} >= {"while it was away", "and once more"}
    assert reset == "reset"


def test_an_empty_workspace_has_an_empty_timeline(ws):
    with served(ws) as client:
        assert client.get("/api/steps").json["entries"] == []
        assert client.get("/api/health").json["checkpoints"] == 0
        assert client.post("/api/undo").status == 404


def test_the_server_ends_when_no_page_is_open(ws):
    with served(ws, idle=0.4) as client:
        while True:
            try:
                client.page.live.last -= 1
                client.get("/")
            except OSError:
                break


def test_a_step_that_runs_says_so(ws, project):
    (project / "a").write_text("one\n")
    ws.save("first")
    ws.record(AgentEvent("codex", "s", PROMPT, text="go"))
    ws.record(AgentEvent("codex", "s", BEFORE, tool="Bash", call="1", text="make"))
    with served(ws) as client:
        assert client.get("/api/steps").json["entries"][0]["happened"][0]["outcome"] == "running"
        ws.record(AgentEvent("codex", "s", AFTER, tool="Bash", call="1", text="make"))
        assert client.get("/api/steps").json["entries"][0]["happened"][0]["outcome"] == "done"


def test_the_hunks_that_are_ticked_are_the_hunks_that_are_planned(ws, project):
    lines = [f"line {number}\n" for number in range(40)]
    (project / "a.txt").write_text("".join(lines))
    ws.save("first")
    changed = [*lines]
    changed[3], changed[30] = "three\n", "thirty\n"
    (project / "a.txt").write_text("".join(changed))
    with served(ws) as client:
        whole = client.post("/api/plans", {"ref": "first"}).json["plan"]
        one, two = client.get(f"/api/plans/{whole['digest']}/hunks").json["files"][0]["hunks"]
        assert "-three" in one["lines"] and "+line 3" in one["lines"]
        part = client.post("/api/plans", {"ref": "first", "hunks": [two["id"]]}).json["plan"]
        assert [hunk["id"] for hunk in client.get(f"/api/plans/{part['digest']}/hunks").json["files"][0]["hunks"]]
        client.post(f"/api/plans/{part['digest']}/apply")
    assert (project / "a.txt").read_text() == "".join([*changed[:30], *lines[30:]])


def test_a_step_is_reverted_and_later_changes_stay(story, project):
    with served(story) as client:
        entries = client.get("/api/steps").json["entries"]
        codex = next(each for each in entries if each.get("agent") == "codex")
        ref = f"@{codex['session']}/prompt-{codex['prompt']}"
        shown = client.post("/api/plans", {"verb": "revert", "ref": ref}).json["plan"]
        assert shown["modifies"] == ["src/shop/login.py"] and shown["undone"]["kind"] == "turn"
        client.post(f"/api/plans/{shown['digest']}/apply")
    assert "md5" in (project / "src/shop/login.py").read_text()
    assert "Discounts" in (project / "README.md").read_text()


def test_undo_and_redo_are_plans_first(story, project):
    with served(story) as client:
        back = client.post("/api/undo").json["plan"]
        assert back["modifies"] == ["README.md"] and "Discounts" in (project / "README.md").read_text()
        client.post(f"/api/plans/{back['digest']}/apply")
        assert "Discounts" not in (project / "README.md").read_text()
        forth = client.post("/api/redo").json["plan"]
        client.post(f"/api/plans/{forth['digest']}/apply")
        assert "Discounts" in (project / "README.md").read_text()
        assert client.post("/api/redo").status == 400


def test_what_is_read_step_by_step_is_what_is_read_at_once(story, project):
    from mulligan.ui.timeline import Entries, entries_of

    agent, reading = Agent(story, "gemini", "steps"), Entries()

    def read():
        reading.take(engine.agents.news(story.bench, reading.rows, reading.parents))
        return reading.all()

    assert read() == entries_of(story)
    for number in range(4):
        agent.prompt(f"prompt {number}")
        assert read() == entries_of(story)
        agent.tool("Edit", "README.md", lambda number=number: (project / "README.md").write_text(f"{number}\n"))
        assert read() == entries_of(story)
        if number % 2:
            agent.stop()
            story.undo()
            assert read() == entries_of(story)
        story.save(f"mine {number}")
        assert read() == entries_of(story)


def test_a_checkpoint_that_is_removed_leaves_every_page(ws, project):
    from mulligan.ui.timeline import Entries, entries_of

    for number in range(4):
        (project / "a.txt").write_text(f"{number}\n")
        ws.save(f"save {number}")
    agent = Agent(ws, "codex", "removed")
    agent.prompt("edit")
    for name in "abc":
        agent.tool("Edit", f"{name}.txt", lambda name=name: (project / f"{name}.txt").write_text("edited\n"))
    (project / "a.txt").write_text("between turns\n")
    agent.prompt("and now?")
    reading = Entries()
    reading.take(engine.agents.news(ws.bench))
    seen, steps = reading.version, [each["checkpoint"] for each in reading.all()[1]["happened"]]
    between = reading.all()[0]["happened"][0]["checkpoint"]
    for ref in ("save 1", steps[1], between):
        ws.delete(ref)
        reading.take(engine.agents.news(ws.bench, reading.rows, reading.parents))
        assert reading.all() == entries_of(ws)
    fresh, removed = reading.since(seen)
    assert len(removed) == 1 and [each.get("name") or each["text"] for each in fresh] == ["and now?", "edit", "save 2"]
    assert fresh[0]["happened"] == []
    rows = fresh[1]["happened"]
    assert [(each["expired"], each["changed"]) for each in rows] == [
        (False, ["a.txt"]),
        (True, []),
        (False, ["b.txt", "c.txt"]),
    ]
    assert rows[2]["parent"] == steps[0]


def test_an_undo_says_which_prompt_the_project_is_at(story, project):
    (project / "mine.txt").write_text("mine\n")
    story.save("mine")
    with served(story) as client:
        assert client.get("/api/steps").json["here"] is None
        shown = client.post("/api/undo").json["plan"]
        client.post(f"/api/plans/{shown['digest']}/apply")
        page = client.get("/api/steps").json
    entry = next(each for each in page["entries"] if each["key"] == page["here"])
    assert entry["text"] == "Hash passwords with argon2 instead of md5"
