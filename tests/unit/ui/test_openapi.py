"""The description of the server's addresses is what the server has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from served import served
from timelines import shop

pytest.importorskip("starlette")
DOCUMENT = json.loads((Path(__file__).resolve().parents[3] / "src/mulligan/ui/openapi.json").read_text())


def check(value, schema, where="answer"):
    """Fails where a value is not what a schema says; as much of JSON Schema as the document uses."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if value is not None:
            check(value, schema["anyOf"][0], where)
        return
    if "enum" in schema:
        assert value in schema["enum"], where
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    assert isinstance(value, kinds[schema["type"]] if "type" in schema else object), (where, value)
    if schema.get("type") == "array":
        for at, each in enumerate(value):
            check(each, schema["items"], f"{where}[{at}]")
    if schema.get("type") == "object":
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, (where, missing)
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if inner:
                check(each, inner, f"{where}.{name}")


def answer_of(path, method):
    return DOCUMENT["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]


def test_every_address_is_described_and_no_other(ws):
    from mulligan.ui.app import Page, build
    from mulligan.ui.logins import Logins

    page = Page(ws, Logins(1), read_only=False, version="0", unforeseen=lambda _: None)
    routes = build(page, 1).app.routes
    here = {
        route.path.replace(":anything", ""): route.methods - {"HEAD"}
        for route in routes
        if route.path.startswith("/api/")
    }
    del here["/api/openapi.json"]
    assert here == {path: {verb.upper() for verb in verbs} for path, verbs in DOCUMENT["paths"].items()}


def test_answers_are_what_the_description_says(project, store):
    with served(shop(project, store)) as client:
        assert client.get("/api/openapi.json").json == DOCUMENT
        page = client.get("/api/steps").json
        check(page, answer_of("/api/steps", "get"))
        edit = page["entries"][0]["happened"][0]
        pair = f"{edit['parent']}/{edit['checkpoint']}"
        for path, address in {
            "/api/about": "/api/about",
            "/api/counts": f"/api/counts?step={edit['checkpoint']}",
            "/api/diff/{a}/{b}": f"/api/diff/{pair}?path=README.md",
            "/api/file/{checkpoint}/{path}": f"/api/file/{edit['checkpoint']}/README.md",
            "/api/history": "/api/history?path=README.md",
            "/api/blame": "/api/blame?path=README.md",
            "/api/search": "/api/search?q=discount",
            "/api/health": "/api/health",
        }.items():
            check(client.get(address).json, answer_of(path, "get"), address)
        plan = client.post("/api/undo").json
        check(plan, answer_of("/api/undo", "post"))
        check(client.post("/api/plans", {"ref": "latest"}).json, answer_of("/api/plans", "post"))
        digest = plan["plan"]["digest"]
        check(client.get(f"/api/plans/{digest}/hunks").json, answer_of("/api/plans/{digest}/hunks", "get"))
        check(client.post(f"/api/plans/{digest}/apply").json, answer_of("/api/plans/{digest}/apply", "post"))
        check(client.post("/api/redo").json, answer_of("/api/redo", "post"))
        check(client.get("/api/diff/none/none").json, DOCUMENT["components"]["schemas"]["Error"])
