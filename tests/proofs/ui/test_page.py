"""The page in a real browser: each view, by mouse and by keyboard alone, live, offline, large."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from served import served
from timelines import Agent, shop

ROOT = Path(__file__).parents[3]


@pytest.fixture
def story(project, store):
    return shop(project, store)


def titles(page):
    return page.locator(".row.prompt .title").all_inner_texts()


def test_the_story_is_shown_and_the_token_leaves_the_address(story, look):
    with served(story) as client:
        page = look(client)
        page.wait_for_selector("text=you are here")
        assert titles(page)[:2] == [
            "Write a section on discounts for the README",
            "Now clean up: remove everything we do not need",
        ]
        assert page.locator(".row.prompt.undone").count() == 1
        page.wait_for_selector("text=## Discounts")
        assert "#" not in page.url
        second = page.context.new_page()
        second.goto(f"http://127.0.0.1:{client.port}/")
        second.wait_for_selector("text=you are here")


def test_a_page_without_a_link_is_not_let_in(story, look, browser):
    with served(story) as client:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/#{'x' * 43}")
        page.wait_for_selector("text=This page is not logged in")
        context.close()


def test_steps_appear_while_an_agent_works(story, project, look):
    agent = Agent(story, "gemini", "live")
    with served(story) as client:
        page = look(client)
        agent.prompt("Translate the README")
        page.wait_for_selector("text=Translate the README")
        page.wait_for_selector(".badge.busy >> text=running")
        agent.tool("Edit", "README.md", lambda: (project / "README.md").write_text("# Laden\n"))
        page.wait_for_selector(".row.step >> text=Edit README.md >> nth=0")
        agent.stop()
        page.wait_for_selector(".badge.busy", state="detached")


def test_a_lost_server_is_shown_and_what_was_missed_arrives(story, look):
    agent = Agent(story, "codex", "away")
    with served(story) as client:
        page = look(client, expect_errors=True)
        page.context.set_offline(True)
        client.page.live.drop()
        page.wait_for_selector("text=connection lost")
        agent.prompt("asked while the page was away")
        page.context.set_offline(False)
        page.wait_for_selector("text=asked while the page was away")
        page.wait_for_selector("text=connection lost", state="detached")


def test_hunks_that_are_ticked_are_taken_back_and_no_others(ws, project, look):
    lines = [f"line {number}\n" for number in range(60)]
    (project / "a.txt").write_text("".join(lines))
    ws.save("first")
    agent = Agent(ws, "claude-code", "hunks")
    agent.prompt("change two places")
    changed = [*lines]
    changed[3], changed[50] = "three\n", "fifty\n"
    agent.tool("Edit", "a.txt", lambda: (project / "a.txt").write_text("".join(changed)))
    agent.stop()
    (project / "a.txt").write_text("mine\n" + "".join(changed))  # a later change, which stays
    with served(ws) as client:
        page = look(client)
        page.click(".row.step")
        page.locator(".hunk input").nth(1).check()
        page.keyboard.press("r")
        page.wait_for_selector("text=Apply to 1 file")
        page.click("text=Show its lines")
        page.wait_for_selector("text=1 hunk of 1 ticked")
        page.keyboard.press("a")
        page.wait_for_selector("h3:text('Done')")
    expected = [*changed]
    expected[50] = lines[50]
    assert (project / "a.txt").read_text() == "mine\n" + "".join(expected)


def test_a_stale_plan_leaves_alone_what_moved_and_says_so(story, project, look):
    with served(story) as client:
        page = look(client)
        page.click(".row.save >> nth=-1")
        page.click("text=To this state")
        page.wait_for_selector("text=Apply to")
        (project / "src/shop/login.py").write_text("mine\n")
        page.click("button.primary")
        page.wait_for_selector("text=Left alone")
        assert "src/shop/login.py" in page.inner_text(".paths.kept")
    assert (project / "src/shop/login.py").read_text() == "mine\n"
    assert "Discounts" not in (project / "README.md").read_text()


def test_everything_works_by_keyboard_alone(story, project, look):
    with served(story) as client:
        page = look(client)
        page.wait_for_selector("text=you are here")
        press = page.keyboard.press
        press("j")
        page.wait_for_selector("[aria-current=true] >> text=Now clean up")
        press("]")
        press("[")
        press("k")
        page.wait_for_selector("[aria-current=true] >> text=README.md")
        page.wait_for_selector(".filehead")
        press("x")
        page.wait_for_selector("text=Plan 1 file")
        press("u")
        page.wait_for_selector("text=Apply to 1 file")
        press("a")
        page.wait_for_selector("h3:text('Done')")
        assert "Discounts" not in (project / "README.md").read_text()
        page.wait_for_selector("[aria-current] :focus")  # focus came back
        press("U")
        page.wait_for_selector("text=Apply to 1 file")
        press("a")
        page.wait_for_selector("h3:text('Done')")
        assert "Discounts" in (project / "README.md").read_text()
        press("?")
        page.wait_for_selector("dialog[open]")
        press("Escape")
        press("h")
        page.wait_for_selector("text=protected")
        press("c")
        page.wait_for_selector("text=Compare two states")


def test_the_scrubber_moves_through_all_states(story, look):
    with served(story) as client:
        page = look(client)
        slider = page.locator("input[type=range]")
        slider.focus()
        page.keyboard.press("Home")
        page.wait_for_selector("[aria-current=true] >> text=before the agents")
        page.wait_for_selector("input[type=range][aria-valuetext*='before the agents']")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("[aria-current=true] >> text=src/shop/cart.py")
        page.click("text=History >> nth=0")
        page.wait_for_selector(".versions li")
        slider.focus()
        page.keyboard.press("Home")
        page.wait_for_selector(".filebody code >> text=def total(self) -> Decimal")


def test_a_file_shows_which_prompt_wrote_each_line(story, look):
    with served(story) as client:
        page = look(client)
        page.click(".filehead >> text=History")
        page.wait_for_selector(".origin >> text=Write a section on discounts")
        page.wait_for_selector(".versions li >> nth=1")


def test_a_search_leads_to_the_step(story, look):
    with served(story) as client:
        page = look(client)
        page.keyboard.press("/")
        page.keyboard.type("argon2")
        page.wait_for_selector(".matches mark")
        page.click(".matches button >> text=Hash passwords")
        page.wait_for_selector("[aria-current=true] >> text=Hash passwords")
        page.wait_for_selector(".filehead >> text=login.py")


def test_pictures_stand_side_by_side(story, look):
    with served(story) as client:
        page = look(client)
        page.click("text=Make the logo green")
        page.wait_for_selector(".pictures img")
        loaded = "(all) => all.map((each) => each.complete && each.naturalWidth)"
        for number in (0, 1):
            page.locator(".pictures img").nth(number).evaluate("(image) => image.decode()")
        assert page.eval_on_selector_all(".pictures img", loaded) == [96, 96]


def test_names_and_contents_that_are_scripts_stay_text(ws, project, look):
    name = "<img src=x onerror=document.title='pwned'>.txt"
    (project / name).write_text("<script>document.title='pwned'</script>\n\x1b[31mred\u202eevil\n")
    (project / "page.html").write_text("<!doctype html><script>document.title='pwned'</script>")
    (project / "lies.png").write_text("<svg onload=\"document.title='pwned'\">")
    ws.save("<b>bold</b><script>document.title='pwned'</script>")
    agent = Agent(ws, "claude-code", "<i>session</i>")
    agent.prompt("<img src=x onerror=document.title='pwned'>")
    agent.stop()
    with served(ws) as client:
        page = look(client)
        page.click(".row.save")
        page.wait_for_selector("text=\\x1b[31mred\\u202eevil")
        page.click("text=History >> nth=0")
        page.wait_for_selector(".filebody .line")
        assert page.title() == "mulligan" and page.locator("main img").count() == 0


def test_a_read_only_page_offers_nothing_to_apply(story, look):
    with served(story, read_only=True) as client:
        page = look(client)
        page.keyboard.press("u")
        page.wait_for_selector("text=This page is read-only")
        assert page.locator("button.primary").count() == 0


def test_an_empty_project_says_what_to_type(ws, look):
    with served(ws) as client:
        page = look(client)
        page.wait_for_selector("text=mulligan save")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(story, look, theme, tmp_path):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="accessibility is not checked: no axe"
    ).Axe()
    story.fork("@", tmp_path / "try").close()
    (tmp_path / "try/README.md").write_text("# shop\n")
    (tmp_path / "try/more.txt").write_text("more\n")
    with served(story) as client:
        page = look(client, theme=theme, bypass_csp=True)
        page.wait_for_selector("text=you are here")

        def check(what):
            found = axe.run(page).response["violations"]
            assert not found, (
                what,
                [(each["id"], [node["html"][:200] for node in each["nodes"]][:4]) for each in found],
            )

        check("story and changes")
        page.keyboard.press("u")
        page.wait_for_selector("text=Apply to")
        check("plan")
        page.click("text=Show its lines")
        page.wait_for_selector(".centre .line")
        check("preview")
        page.keyboard.press("Escape")
        page.click("text=Make the logo green")
        page.wait_for_selector(".pictures img")
        check("pictures")
        page.click("text=History >> nth=1")
        page.wait_for_selector(".versions li")
        check("file")
        for key, wanted in (
            ("h", "text=protected"),
            ("c", "text=Compare two states"),
            ("/", ".search input"),
            ("Escape", ".search, .head"),
        ):
            page.keyboard.press(key)
            page.wait_for_selector(wanted)
            check(key)
        page.keyboard.press("c")
        page.click("text=Compare with the project")
        page.wait_for_selector(".tree .name >> text=more.txt")
        check("a fork beside the project")
        page.keyboard.press("g")
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        check("help")


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_nothing_sticks_out_at_any_width(story, look, width):
    with served(story) as client:
        page = look(client, width=width)
        page.wait_for_selector("text=you are here")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 360:
            page.click("text=Now clean up")
            page.wait_for_selector(".filehead >> nth=0")
            page.click(".tabs >> text=Plan")
            page.click("text=To before it")
            page.wait_for_selector("text=Apply to")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_exported_session_opens_without_a_server(story, look, browser, tmp_path):
    from mulligan.ui.export import export

    data, _ = export(story, None, "0")
    target = tmp_path / "session.html"
    target.write_bytes(data)
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto(f"file://{target}")
    page.click("text=Make the logo green")
    page.wait_for_selector(".pictures img")
    page.click("text=Add discount codes")
    page.wait_for_selector(".filehead >> text=cart.py")
    page.wait_for_selector("code >> text=raise ValueError(discount)")
    assert page.locator("button", has_text="Redo").count() == 0 and page.locator("input[type=checkbox]").count() == 0
    context.close()
    assert not errors, errors


#: Seconds for the npm registry to answer; never a measurement.
PATIENCE = 120


def test_the_committed_script_is_what_the_sources_make():
    if not (Path("/usr/bin/npm").exists() or Path("/usr/local/bin/npm").exists()):
        pytest.skip("the page's script is not built again: there is no npm")
    words = [sys.executable, ROOT / "scripts/build_ui.py", "--check"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip("THE PAGE'S SCRIPT IS NOT BUILT AGAIN: the npm registry does not answer")
    if done.returncode and "npm" in done.stderr and "is not what" not in done.stdout:
        pytest.skip("the page's script is not built again: the npm registry does not answer")
    assert done.returncode == 0, done.stdout + done.stderr
