"""The page with much in it: ten thousand steps, thousands of files, long files, long lines, pictures and other bytes."""

from __future__ import annotations

import os

import pytest

from served import served
from timelines import Agent, crowded, png

FOLDERS, FILES = 50, 5000
#: Elements that may exist of a list, whatever its length: those on the screen, and some beside.
MOST = 120


def elements(page, where):
    return page.evaluate("(where) => document.querySelectorAll(where + ' .at').length", where)


@pytest.fixture
def many_files(ws, project):
    (project / "a.txt").write_text("one\n")
    ws.save("first")
    for number in range(FILES):
        folder = project / f"folder_{number % FOLDERS}"
        folder.mkdir(exist_ok=True)
        (folder / f"file_{number}.py").write_text(f"value = {number}\n")
    ws.save("many files")
    return ws


def test_ten_thousand_steps_are_all_there_and_new_ones_arrive(project, store, look):
    workspace = crowded(project, 10_000, store)
    agent = Agent(workspace, "codex", "live")
    with served(workspace) as client:
        page = look(client)
        page.wait_for_selector("[aria-current=true] >> text=first")  # where the project is
        page.evaluate("document.querySelector('.story .list').scrollTop = 0")
        page.wait_for_selector(".row.prompt >> text=Prompt 400")
        assert elements(page, ".story") < MOST
        agent.prompt("asked beside ten thousand steps")
        page.wait_for_selector("text=asked beside ten thousand steps")
        agent.tool("Edit", "a.txt", lambda: (project / "a.txt").write_text("new\n"))
        page.wait_for_selector(".row.step >> text=Edit a.txt")
        page.evaluate("document.querySelector('.story .list').scrollTop = 1e9")
        page.wait_for_selector(".row.prompt >> text=/^Prompt 1$/")
        assert elements(page, ".story") < MOST
        page.click(".row.step >> text=step_0.py")
        page.keyboard.press("]")
        page.wait_for_selector("[aria-current=true] >> text=first")
        page.keyboard.press("k")
        page.wait_for_selector("[aria-current=true] >> text=step_23.py")
        page.fill("input[placeholder=path]", "a.txt")
        page.wait_for_selector(".row.step >> text=Edit a.txt")
        assert page.locator(".row.step").count() == 1


def test_five_thousand_files_in_one_step_are_a_tree_that_opens(many_files, look):
    with served(many_files) as client:
        page = look(client)
        page.wait_for_selector("text=5,000 files")
        page.wait_for_selector(".tree .folder >> nth=5")
        assert page.locator(".tree [aria-expanded=false]").count() == page.locator(".tree .at").count()  # all closed
        page.click(".tree .folder >> text=folder_0")
        page.click(".tree .name >> text=file_1000.py")
        page.wait_for_selector("code >> text=value = 1000")
        page.wait_for_selector(".tree [aria-selected=true] >> text=file_1000.py")
        assert elements(page, ".tree") < MOST and elements(page, ".diff") < MOST
        page.fill("input[placeholder='filter files']", "file_4321")
        page.wait_for_selector(".tree .name >> text=file_4321.py")
        assert page.locator(".tree .at").count() == 2  # its folder and itself
        page.fill("input[placeholder='filter files']", "")
        page.click("text=Open all")
        page.evaluate("document.querySelector('.diff').scrollTop = 1e9")
        page.wait_for_selector(".filehead >> text=file_959.py")
        assert elements(page, ".diff") < MOST


def test_a_folder_is_ticked_with_all_its_files(many_files, project, look):
    with served(many_files) as client:
        page = look(client)
        page.fill("input[placeholder='filter files']", "folder_7/")
        page.locator(".tree .leaf", has=page.locator(".folder")).locator("input").check()
        page.click("text=Plan 100 files")
        page.wait_for_selector("text=Apply to 100 files")
        page.keyboard.press("a")
        page.wait_for_selector("h3:text('Done')")
    assert not (project / "folder_7/file_7.py").exists() and (project / "folder_8/file_8.py").exists()


def test_the_tree_is_used_by_keyboard_alone(many_files, look):
    with served(many_files) as client:
        page = look(client)
        page.wait_for_selector(".tree .folder")
        page.focus(".tree .scroll")
        press = page.keyboard.press
        press("ArrowRight")  # opens the first folder
        page.wait_for_selector(".tree [aria-expanded=true]")
        press("ArrowDown")
        press("Enter")
        page.wait_for_selector("code >> text=/^value = 0$/")
        press("Space")
        page.wait_for_selector("text=Plan 1 file")
        press("ArrowLeft")  # back to its folder
        press("ArrowLeft")
        page.wait_for_selector(".tree [aria-expanded=true]", state="detached")
        press("End")
        page.wait_for_selector(".tree .folder >> text=/^folder_9$/")


def test_a_file_of_fifty_thousand_lines_and_a_line_of_a_million_characters_are_shown(ws, project, look):
    (project / "a.txt").write_text("one\n")
    ws.save("first")
    (project / "long.py").write_text("".join(f"value_{number} = {number}  # a line\n" for number in range(50_000)))
    (project / "wide.json").write_text('{"a": "' + "x" * 1_000_000 + '"}\n')
    ws.save("long lines")
    with served(ws) as client:
        page = look(client)
        page.wait_for_selector("text=value_0 = 0")
        page.evaluate("document.querySelector('.diff').scrollTop = 20 * 49990")
        page.wait_for_selector("text=value_49999 = 49999")
        page.wait_for_selector(".stuck >> text=long.py")  # its name stays while its lines pass
        page.evaluate("document.querySelector('.diff').scrollTop = 1e9")
        page.wait_for_selector("text=more characters")
        assert elements(page, ".diff") < MOST
        page.click("text=Split")
        page.wait_for_selector(".line.split")
        assert elements(page, ".diff") < MOST
        page.click(".filehead >> text=History >> nth=0")
        page.wait_for_selector(".filebody .line")
        assert elements(page, ".filebody") < MOST


def test_pictures_are_shown_and_other_bytes_are_not(ws, project, look):
    (project / "logo.png").write_bytes(png((1, 2, 3)))
    (project / "data.bin").write_bytes(os.urandom(100_000))
    ws.save("first")
    (project / "logo.png").write_bytes(png((200, 2, 3)))
    (project / "data.bin").write_bytes(os.urandom(100_000))
    (project / "lies.png").write_bytes(b"\0not a picture" * 100)
    ws.save("second")
    with served(ws) as client:
        page = look(client, expect_errors=True)  # the browser reports that the file which lies is no picture
        page.wait_for_selector("text=A binary file: its bytes differ.")
        page.wait_for_selector(".pictures img >> nth=2")
        for number, width in ((-1, 96), (-2, 96)):
            image = page.locator(".pictures img").nth(number)
            image.evaluate("(image) => image.decode()")
            assert image.evaluate("(image) => image.naturalWidth") == width
        for state in ("@", "latest~1"):
            answer = client.get(f"/api/file/{state}/logo.png?raw")
            assert answer.headers["content-type"] == "image/png"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get("/api/file/@/lies.png?raw").status == 400
