"""Each rule that protects a local server from the web sites, programs and files around it, attacked."""

from __future__ import annotations

from itertools import product

import pytest

from served import served
from timelines import png

pytest.importorskip("starlette")

HTML = "<!doctype html><script>alert(1)</script>"
SCRIPT_NAME = "<img src=x onerror=alert(1)>.txt"


@pytest.fixture
def client(ws, project):
    (project / "a.txt").write_text("one\n")
    (project / "page.html").write_text(HTML)
    (project / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (project / SCRIPT_NAME).write_text("text\n")
    (project / "logo.png").write_bytes(png((1, 2, 3), 8))
    (project / "lies.png").write_text(HTML)
    ws.save("first")
    (project / "a.txt").write_text("two\n")
    with served(ws) as found:
        yield found


def plan(client):
    return client.post("/api/plans", {"ref": "first"}).json["plan"]


NAMES = ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", None, ""]


def test_a_rebound_name_is_refused_on_every_address(client):
    """DNS rebinding: the site's own name leads to 127.0.0.1, and the browser sends that name as the host."""
    for host, address in product(NAMES, ["/", "/app.js", "/api/steps", "/api/events"]):
        answer = client.get(address, host=host.format(port=client.port) if host else host)
        assert answer.status in {400, 403}, (host, address)
        assert b"mulligan" not in answer.body or answer.status == 400, (host, address)


def test_the_loopback_names_are_answered(client):
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert client.get("/", host=f"{name}:{client.port}").status == 200


def test_nothing_is_read_without_the_cookie(client):
    for name in ("steps", "about", "health", "diff/first/now", "file/first/a.txt", "events"):
        assert client.get(f"/api/{name}", cookie=None).status == 401, name
        assert client.get(f"/api/{name}", cookie=f"{client.page.logins.cookie}=guess").status == 401, name


def test_the_cookie_of_another_port_is_not_ours(client):
    """Cookies do not know ports: the browser sends those of every server on this machine."""
    value = client.cookie.partition("=")[2]
    assert client.get("/api/steps", cookie=f"mulligan-{client.port + 1}={value}").status == 401


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(client):
    answer = client.post("/api/login", {"token": client.page.logins.new_link()}, cookie=None)
    said = answer.headers["set-cookie"].lower()
    assert answer.status == 200
    assert "httponly" in said and "samesite=strict" in said and f"mulligan-{client.port}=" in said


def test_a_token_of_another_start_an_expired_or_a_guessed_one_is_refused(client, ws):
    with served(ws) as other:
        foreign = other.page.logins.new_link()
    for token in (foreign, "", "x" * 43, None, ["list"], {"$ne": ""}):
        answer = client.post("/api/login", {"token": token}, cookie=None)
        assert answer.status == 403 and "set-cookie" not in answer.headers


def test_a_link_that_is_replayed_later_opens_nothing():
    from mulligan.ui.logins import LINK_LASTS, Logins

    now = [0.0]
    logins = Logins(1, clock=lambda: now[0])
    token = logins.new_link()
    assert logins.enter(token)
    now[0] = LINK_LASTS + 1
    assert logins.enter(token) is None


FOREIGN = [
    {"origin": "http://evil.example", "sec_fetch_site": "cross-site"},
    {"origin": "http://evil.example", "sec_fetch_site": None},
    {"origin": "http://evil.example"},  # a header of a browser that lies
    {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-site"},  # another server on this machine
    {"origin": "null", "sec_fetch_site": "cross-site"},
    {"origin": "null", "sec_fetch_site": None},
    {"origin": None, "sec_fetch_site": None},  # a missing origin is not a pass
    {"origin": None, "sec_fetch_site": "cross-site"},
    {"origin": "https://{host}", "sec_fetch_site": None},
]


def test_a_request_from_another_origin_changes_nothing(client, project):
    for headers, name in product(FOREIGN, ["plans", "undo", "login", "links", "plans/x/apply"]):
        sent = {name: value.format(host=client.host) if value else value for name, value in headers.items()}
        assert client.post(f"/api/{name}", {"ref": "first"}, **sent).status == 403, (headers, name)
        assert (project / "a.txt").read_text() == "two\n", (headers, name)


def test_a_form_cannot_be_posted(client):
    """These are what a page of another site can send without asking first."""
    shown = plan(client)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", None):
        assert client.post(f"/api/plans/{shown['digest']}/apply", b"{}", content_type=kind).status == 415, kind


def test_no_other_origin_may_read_or_preflight(client):
    answer = client.ask("OPTIONS", "/api/plans", origin="http://evil.example", access_control_request_method="POST")
    assert answer.status in {403, 405}
    reading = client.get("/api/steps", origin="http://evil.example", sec_fetch_site="cross-site")
    assert reading.status == 403
    assert not [name for name in (*answer.headers, *reading.headers) if name.lower().startswith("access-control")]


def test_every_answer_carries_the_headers(client):
    for address in ("/", "/app.js", "/app.css", "/api/steps", "/nothing", "/api/file/first/logo.png?raw"):
        said = client.get(address).headers
        policy = said["content-security-policy"]
        for rule in ("default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"):
            assert rule in policy, (address, rule)
        assert said["x-content-type-options"] == "nosniff" and said["cache-control"] == "no-store", address
        assert said["cross-origin-resource-policy"] == "same-origin", address


def test_a_file_that_is_a_web_page_is_text(client):
    for name in ("page.html", "picture.svg", "lies.png"):
        answer = client.get(f"/api/file/first/{name}")
        assert answer.headers["content-type"] == "application/json"
        assert client.get(f"/api/file/first/{name}?raw").status == 400
    picture = client.get("/api/file/first/logo.png?raw")
    assert picture.headers["content-type"] == "image/png" and picture.status == 200


def test_a_file_name_that_is_a_script_is_data(client):
    """It arrives inside JSON; the page puts it into a text node (tests/proofs/ui runs it in a browser)."""
    listed = client.get("/api/diff/nothing/first").json["files"]
    assert SCRIPT_NAME in [each["path"] for each in listed]


def test_no_address_leads_out_of_the_workspace(client):
    paths = ("../store/HEAD", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", ".git/config", "a.txt%00.png", "")
    for state, path, form in product(("first", "now"), paths, ("", "?raw")):
        assert client.get(f"/api/file/{state}/{path}{form}").status in {400, 404, 500}, (state, path, form)


def test_only_a_plan_that_this_page_was_shown_is_applied_and_only_once(client, project):
    shown = plan(client)
    other = f"{client.page.logins.cookie}={client.page.logins.enter(client.page.logins.new_link())}"
    address = f"/api/plans/{shown['digest']}/apply"
    assert client.post(address, cookie=other).status == 409
    assert client.post(f"/api/plans/{'0' * 64}/apply").status == 409
    assert (project / "a.txt").read_text() == "two\n"
    assert client.post(address).status == 200
    assert (project / "a.txt").read_text() == "one\n"
    assert client.post(address).status == 409


def test_read_only_means_that_nothing_is_applied(ws, project, client):
    with served(ws, read_only=True) as reader:
        shown = plan(reader)
        answer = reader.post(f"/api/plans/{shown['digest']}/apply")
    assert answer.status == 400 and "--read-only" in answer.json["error"]["message"]
    assert (project / "a.txt").read_text() == "two\n"


def test_a_further_link_needs_the_key(client):
    assert client.post("/api/links", authorization="Bearer guess").status == 403
    assert client.post("/api/links", authorization=None).status == 403
    given = client.post("/api/links", cookie=None, authorization=f"Bearer {client.page.logins.key}")
    assert client.page.logins.enter(given.json["token"])


def test_a_body_without_end_is_not_read(client):
    assert client.post("/api/plans", b"{}", content_length=str(1 << 40)).status == 413
    assert client.post("/api/plans", b"[1]").status == 400
    assert client.post("/api/plans", b"{nonsense").status == 400
