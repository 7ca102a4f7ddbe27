"""Each view in a real browser: modes and layouts, badges, filters, health, the keys that no other test presses."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from served import served
from timelines import Agent, shop


@pytest.fixture
def story(project, store):
    return shop(project, store)


def test_a_step_is_compared_with_before_with_now_and_with_any_state(story, project, look):
    cart = project / "src/shop/cart.py"
    cart.write_text(cart.read_text() + "# mine\n")
    with served(story) as client:
        page = look(client)
        page.click("text=Add discount codes")
        page.wait_for_selector("code >> text=raise ValueError(discount)")
        page.click("text=Since then")
        page.click(".tree .name >> text=cart.py")
        page.wait_for_selector("code >> text=# mine")
        page.click("text=A ↔ B")
        page.wait_for_selector(
            "text=Both states hold the same files."
        )  # A is the selected state until another is chosen
        page.click(".row.save >> text=passwords are safe")
        page.wait_for_selector(".picked >> text=prompt 1")
        page.click(".tree .name >> text=login.py")
        page.wait_for_selector("code >> text=PasswordHasher")


def test_files_that_changed_since_then_are_compared_again(story, project, look):
    agent = Agent(story, "codex", "later")
    with served(story) as client:
        page = look(client)
        page.click("text=Add discount codes")
        page.click("text=Since then")
        page.wait_for_selector(".filehead")
        agent.prompt("Write the notes")
        agent.tool("Write", "LATER.md", lambda: (project / "LATER.md").write_text("later\n"))
        page.wait_for_selector(".tree .name >> text=LATER.md")


def test_lines_stand_side_by_side_or_under_each_other(story, look):
    with served(story) as client:
        page = look(client, width=2560)
        page.click("text=Add discount codes")
        page.wait_for_selector(".line.split")  # a wide screen begins with two sides
        edges = "(all) => [...new Set(all.map((each) => Math.round(each.getBoundingClientRect().left)))]"
        assert len(page.eval_on_selector_all(".line.split .side:last-child", edges)) == 1
        page.click("text=Unified")
        page.wait_for_selector(".line.split", state="detached")
        page.wait_for_selector(".line.added .sign >> text=+")
        page.reload()
        page.click("text=Add discount codes")
        page.wait_for_selector(".line.added")
        assert page.locator(".line.split").count() == 0  # the choice is kept


def test_badges_say_undone_failed_pinned_and_what_was_not_saved(story, project, look):
    Agent(story, "codex", "badges").prompt("Still at work")
    (project / ".gitignore").write_text("README.md\n")  # saved until now, and hidden by a rule
    story.save("all but one")
    with served(story) as client:
        page = look(client)
        page.wait_for_selector(".row.prompt >> .badge >> text=undone")
        page.wait_for_selector(".row.step .badge >> text=failed")
        page.wait_for_selector(".row.save .badge >> text=pinned")
        page.wait_for_selector(".row.prompt .badge >> text=running")
        page.wait_for_selector(".row.save .badge >> text=partial: 1 not saved")


def test_the_story_is_filtered_by_agent_path_and_kind(story, look):
    with served(story) as client:
        page = look(client)
        page.wait_for_selector("text=you are here")
        page.select_option("select[aria-label=Agent]", "codex")
        page.wait_for_selector("text=Now clean up", state="detached")
        assert page.locator(".row.prompt").count() == 1
        page.select_option("select[aria-label=Agent]", "")
        page.select_option("select[aria-label=Show]", "failed")
        page.wait_for_selector("text=Now clean up", state="detached")
        assert page.locator(".row.step").all_inner_texts()[0].startswith("Bash pytest -q tests")
        page.select_option("select[aria-label=Show]", "yours")
        page.wait_for_selector(".row.step >> text=changed between turns")
        page.select_option("select[aria-label=Show]", "saves")
        page.wait_for_selector(".row.save >> text=passwords are safe")
        assert page.locator(".row.prompt").count() == 0
        page.select_option("select[aria-label=Show]", "")
        page.fill("input[placeholder=path]", "login.py")
        page.wait_for_selector("text=Make the logo green", state="detached")
        page.fill("input[placeholder=path]", "no such path")
        page.click("text=Show everything")
        page.wait_for_selector("text=Make the logo green")


def test_health_says_what_is_not_protected_and_why(story, project, look):
    (project / ".gitignore").write_text("build/\n")
    (project / "build").mkdir()
    (project / "build/out.bin").write_text("made\n")
    (project / "README.md").write_text("changed\n")
    with served(story) as client:
        page = look(client)
        page.keyboard.press("h")
        page.wait_for_selector(".card >> text=Claude Code")
        page.wait_for_selector(".card >> text=last event")
        page.wait_for_selector(".card:has(h3:text('Not saved')) >> text=build")
        page.wait_for_selector(".card >> text=2 changed since the last checkpoint")
        page.wait_for_selector("[role=meter]")


def test_keys_lead_to_the_next_change_and_into_the_lines(story, look):
    with served(story) as client:
        page = look(client, bypass_csp=True)  # for the functions that are waited for
        page.click("text=Add discount codes")
        page.wait_for_selector("code >> text=test_a_discount")
        page.evaluate("document.querySelector('.diff').style.maxHeight = '120px'")
        page.keyboard.press("F7")
        page.wait_for_function("document.querySelector('.diff').scrollTop > 100")
        page.keyboard.press("Shift+F7")
        page.wait_for_function("document.querySelector('.diff').scrollTop < 100")
        page.keyboard.press("Enter")
        page.wait_for_function("document.activeElement.matches('.centre .scroll')")


def test_each_key_leads_to_a_change_also_where_two_come_within_a_frame(story, look):
    with served(story) as client:
        page = look(client)
        page.click("text=Add discount codes")
        page.wait_for_selector("code >> text=test_a_discount")
        page.evaluate("document.querySelector('.diff').style.maxHeight = '120px'")
        there, back = page.evaluate(
            """[false, true].map((shiftKey) => {
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "F7", shiftKey, bubbles: true }));
                return document.querySelector(".diff").scrollTop;
            })"""
        )
        assert there > 100 > back


def test_new_steps_are_announced_politely(story, look):
    agent = Agent(story, "gemini", "aloud")
    with served(story) as client:
        page = look(client)
        page.wait_for_selector("text=you are here")
        agent.prompt("Translate everything")
        page.wait_for_selector("[aria-live=polite] >> text=New: Translate everything", state="attached")


def test_code_has_the_colours_of_its_language(story, look):
    with served(story) as client:
        page = look(client)
        page.click("text=Add discount codes")
        page.wait_for_selector("code .tk >> text=raise")
        page.wait_for_selector("code .ts >> text=Returns the price of everything")
        plain, word = (
            page.locator(each).first.evaluate("each => getComputedStyle(each).color") for each in ("code", "code .tk")
        )
        assert plain != word


def test_the_scrubber_has_a_named_lane_for_each_agent_and_for_you(story, look):
    with served(story) as client:
        page = look(client)
        page.wait_for_selector(".lanes li >> text=you")
        assert sorted(page.locator(".lanes li").all_inner_texts()) == ["Claude Code", "Codex", "you"]


def test_a_step_says_how_long_it_took(story, look):
    """The story as the server tells it, with one step that began 75 seconds earlier."""

    def longer(route):
        told = route.fetch().json()
        step = next(each for entry in told["entries"] for each in entry.get("happened", []) if each["began"])
        step["began"] = (datetime.fromisoformat(step["at"]) - timedelta(seconds=75)).isoformat()
        route.fulfill(json=told)

    with served(story) as client:
        page = look(client)
        page.route("**/api/steps**", longer)
        page.reload()
        page.wait_for_selector(".row.step .took >> text=1 min")
        page.unroute_all(behavior="wait")
