"""Forks in the web timeline: listed, compared without writing, and kept through a plan that was shown."""

from __future__ import annotations

import pytest

from served import served
from timelines import png

pytest.importorskip("starlette")


@pytest.fixture
def fork(ws, project, tmp_path):
    (project / "a.txt").write_text("one\ntwo\n")
    (project / "logo.png").write_bytes(png((1, 2, 3)))
    ws.save("first")
    place = tmp_path / "try"
    ws.fork("@", place).close()
    (place / "a.txt").write_text("one\n2\n")
    (place / "new.txt").write_text("new\n")
    (place / "logo.png").write_bytes(png((9, 8, 7)))
    return place


def test_forks_are_listed_with_what_is_new_in_each(ws, fork):
    with served(ws) as client:
        (found,) = client.get("/api/forks").json["forks"]
    assert (found["name"], found["unsaved"], found["gone"]) == ("try", 3, False)
    assert found["directory"] == str(fork) and "store" not in found


def test_a_fork_is_compared_as_it_is_and_nothing_is_written(ws, project, fork):
    (project / "mine.txt").write_text("mine\n")
    with served(ws) as client:
        key = client.get("/api/forks").json["forks"][0]["key"]
        before = [each.id for each in ws.log()], client.get("/api/forks").json
        files = client.get(f"/api/diff/@/{key}").json["files"]
        assert [(each["path"], each["status"]) for each in files] == [
            ("a.txt", "modified"),
            ("logo.png", "modified"),
            ("new.txt", "added"),
        ]
        (lines,) = client.get(f"/api/diff/@/{key}?path=a.txt").json["files"]
        assert lines["hunks"][0]["lines"] == [" one", "-two", "+2"]
        back = client.get(f"/api/diff/{key}:saved/now").json["files"]
        assert [(each["path"], each["status"]) for each in back] == [("mine.txt", "added")]
        assert client.get(f"/api/file/{key}/logo.png?raw").body == png((9, 8, 7))
        assert client.get(f"/api/file/{key}:saved/logo.png?raw").body == png((1, 2, 3))
        assert ([each.id for each in ws.log()], client.get("/api/forks").json) == before


def test_a_fork_is_kept_by_the_digest_of_its_plan(ws, project, fork):
    with served(ws) as client:
        key = client.get("/api/forks").json["forks"][0]["key"]
        plan = client.post("/api/plans", {"verb": "keep", "ref": key}).json["plan"]
        assert plan["command"] == "mulligan keep ../try"
        assert (plan["creates"], sorted(plan["modifies"])) == (["new.txt"], ["a.txt", "logo.png"])
        assert (project / "a.txt").read_text() == "one\ntwo\n" and not (project / "new.txt").exists()
        report = client.post(f"/api/plans/{plan['digest']}/apply").json["report"]
        assert report["complete"] and (project / "a.txt").read_text() == "one\n2\n"
        assert client.post(f"/api/plans/{plan['digest']}/apply").status == 409
        undo = client.post("/api/undo").json["plan"]
        client.post(f"/api/plans/{undo['digest']}/apply")
    assert (project / "a.txt").read_text() == "one\ntwo\n" and not (project / "new.txt").exists()


def test_some_files_of_a_fork_are_kept(ws, project, fork):
    with served(ws) as client:
        key = client.get("/api/forks").json["forks"][0]["key"]
        plan = client.post("/api/plans", {"verb": "keep", "ref": key, "paths": ["new.txt"]}).json["plan"]
        assert plan["command"] == f"mulligan restore {plan['target'][:8]} -- new.txt"
        client.post(f"/api/plans/{plan['digest']}/apply")
    assert (project / "new.txt").exists() and (project / "a.txt").read_text() == "one\ntwo\n"


def test_a_fork_that_is_gone_or_unknown_is_not_kept(ws, fork):
    with served(ws) as client:
        key = client.get("/api/forks").json["forks"][0]["key"]
        fork.rename(fork.with_name("away"))
        assert client.get("/api/forks").json["forks"][0]["gone"]
        assert client.post("/api/plans", {"verb": "keep", "ref": key}).status == 400
        assert client.get(f"/api/diff/@/{key}").status == 400
        for ref in ("fork:000000000000", "latest", "", "../try"):
            assert client.post("/api/plans", {"verb": "keep", "ref": ref}).status == 404
        assert client.get("/api/diff/nothing/fork:000000000000").status in {400, 404}


def test_a_read_only_server_saves_no_fork(ws, fork):
    with served(ws, read_only=True) as client:
        key = client.get("/api/forks").json["forks"][0]["key"]
        answer = client.post("/api/plans", {"verb": "keep", "ref": key})
        assert answer.status == 400 and "--read-only" in answer.json["error"]["message"]
        assert client.get("/api/forks").json["forks"][0]["unsaved"] == 3 and len(ws.log()) == 1
