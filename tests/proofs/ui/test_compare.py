"""Compare in a real browser: sessions, states and forks side by side, and one of them kept through a plan."""

from __future__ import annotations

import re

import pytest

from served import served
from timelines import shop


@pytest.fixture
def story(project, store):
    return shop(project, store)


@pytest.fixture
def fork(story, tmp_path):
    place = tmp_path / "try-cache"
    story.fork("@", place).close()
    (place / "README.md").write_text("# shop\n\nA small shop with a cache.\n")
    (place / "src/shop/cache.py").write_text("import redis\n")
    return place


def choose(page, side, text):
    choice = page.locator(f".side-choice:has(span:text-is('{side}'))")
    choice.locator("select").select_option(choice.locator("option", has_text=text).first.get_attribute("value"))


def test_two_states_are_compared_and_one_is_planned(story, project, look):
    with served(story) as client:
        page = look(client)
        page.click("nav >> text=Compare")
        choose(page, "A", "before the agents")
        choose(page, "B", "passwords are safe")
        page.click(".tree .name >> text=login.py")
        page.wait_for_selector("code >> text=PasswordHasher")
        page.click("text=Keep A …")
        page.wait_for_selector("text=Apply to")
        assert "mulligan restore" in page.inner_text(".command")
        page.keyboard.press("a")
        page.wait_for_selector("h3:text('Done')")
    assert "hashlib" in (project / "src/shop/login.py").read_text()


def test_two_sessions_are_compared(story, look):
    with served(story) as client:
        page = look(client)
        page.keyboard.press("c")
        choose(page, "A", "Codex c0de9f31")
        choose(page, "B", "Claude Code 1bd24cd5")
        page.wait_for_selector(".filehead >> text=README.md")
        page.click("text=Swap")
        chosen = "select >> option:checked >> text=Claude Code"
        page.wait_for_selector(f".side-choice:has(span:text-is('A')) >> {chosen}", state="attached")
        page.wait_for_selector(".filehead >> text=README.md")


def test_a_fork_is_compared_with_the_project_and_kept(story, project, look, fork):
    with served(story) as client:
        page = look(client)
        page.keyboard.press("c")
        page.wait_for_selector(".fork >> text=2 files not saved")
        page.click(".fork >> text=Compare with the project")
        page.wait_for_selector(".filehead >> text=cache.py")
        page.wait_for_selector("code >> text=A small shop with a cache.")
        assert "cache" not in (project / "README.md").read_text()
        page.click("text=Keep B …")
        page.wait_for_selector("h3:text('Keep the fork')")
        assert page.inner_text(".command code") == f"mulligan keep ../{fork.name}"
        assert "cache" not in (project / "README.md").read_text()  # a plan changes nothing
        page.click("text=Show its lines")
        page.wait_for_selector("text=What the plan would do")
        page.keyboard.press("a")
        page.wait_for_selector("h3:text('Done')")
        page.wait_for_selector(".sides")  # back where it was planned
        assert (project / "src/shop/cache.py").read_text() == "import redis\n"
        page.click("text=Undo this")
        page.wait_for_selector("text=Apply to")
        page.keyboard.press("a")
        page.wait_for_selector(".plan >> text=Deleted")
    assert not (project / "src/shop/cache.py").exists()
    assert (fork / "src/shop/cache.py").exists()  # the fork stays


def test_ticked_files_of_a_fork_are_kept_alone(story, project, look, fork):
    with served(story) as client:
        page = look(client)
        page.keyboard.press("c")
        page.click(".fork >> text=Its changes")
        page.locator(".filehead", has_text="cache.py").locator("input").check()
        page.click("text=Plan 1 file as in B")
        page.wait_for_selector("text=Apply to 1 file")
        page.keyboard.press("a")
        page.wait_for_selector("h3:text('Done')")
    assert (project / "src/shop/cache.py").exists()
    assert "cache" not in (project / "README.md").read_text()


def test_a_read_only_page_keeps_no_fork(story, look, fork):
    with served(story, read_only=True) as client:
        page = look(client)
        page.keyboard.press("c")
        page.click(".fork >> text=Compare with the project")
        page.wait_for_selector(".filehead >> text=cache.py")
        assert page.locator("button", has_text=re.compile("^Keep")).count() == 0


def test_a_project_without_forks_says_how_to_make_one(story, look):
    with served(story) as client:
        page = look(client)
        page.keyboard.press("c")
        page.wait_for_selector("text=mulligan fork @ ../try-2")
