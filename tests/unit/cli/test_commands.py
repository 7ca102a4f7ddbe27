"""
Every command through the front door: its words, its exit code, its streams. Wiring only; the verbs have tests of their own.

The door is entered in this process, which is thirty times faster than a new one; terminals and pipes get a real process.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mulligan.cli import main
from tools import at_a_terminal, git, mulligan_argv, plain_environment


def cli(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in this process as if it were its own: three streams, none of them a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as world, redirect_stdout(out), redirect_stderr(err):
        world.chdir(cwd)
        for name, value in env.items():
            world.setenv(name, value)
        code = main([str(word) for word in words])
        out.flush()
        err.flush()
    shown = [stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err)]
    return subprocess.CompletedProcess(words, code, *shown)


def cli_json(*words: object, cwd: Path, **env: str):
    """Runs a command that succeeds, and returns its one document."""
    done = cli("--json", *words, cwd=cwd, **env)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


@pytest.fixture
def proj(tmp_path) -> Path:
    """A small project, nothing saved yet."""
    root = tmp_path / "proj"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("1\n")
    (root / "src/app.py").write_text("print('hi')\n")
    return root


@pytest.fixture
def saved(proj) -> Path:
    """The project with one checkpoint, `first`."""
    assert cli("save", "first", cwd=proj).returncode == 0
    return proj


# -- save and log -------------------------------------------------------------------------------


def test_save_prints_one_line_on_stdout(proj):
    done = cli("save", "it works", "-m", "why", cwd=proj)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("saved ") and done.stdout.endswith("  it works  2 files saved\n")
    (proj / "a.txt").write_text("2\n")
    assert cli("save", cwd=proj).stdout.endswith("  1 file changed\n")


def test_save_keeps_everything_it_is_told(proj):
    saved = cli_json("save", "n", "-m", "d", "--kind", "feature", "--context", "a=1", "b=x=y", cwd=proj)["checkpoint"]
    assert (saved["name"], saved["description"], saved["kind"], saved["context"]) == (
        "n",
        "d",
        "feature",
        {"a": "1", "b": "x=y"},
    )
    assert cli_json("save", "--context", "a=1", "name last", cwd=proj)["checkpoint"]["name"] == "name last"


def test_save_if_changed_says_when_there_was_nothing_to_do(saved):
    assert cli_json("save", "--if-changed", cwd=saved) == {"checkpoint": None}
    done = cli("save", "--if-changed", cwd=saved)
    assert done.returncode == 0 and "No changes; nothing saved." in done.stdout


def test_a_partial_save_ends_with_three_and_names_the_missing(saved):
    (saved / ".gitignore").write_text("*.txt\n")
    done = cli("save", cwd=saved)
    assert done.returncode == 3 and "partial" in done.stdout and "newly ignored: a.txt" in done.stdout
    (saved / "src/app.py").write_text("x")
    restored = cli("restore", "latest", "-y", cwd=saved)
    assert restored.returncode == 3 and "newly ignored: a.txt" in restored.stdout


def test_log_shows_the_newest_first_and_marks_the_position(saved):
    (saved / "src/app.py").write_text("2")
    cli("save", "second", cwd=saved)
    lines = cli("log", cwd=saved).stdout.splitlines()
    assert [("second" in lines[0]), ("first" in lines[1])] == [True, True]
    assert lines[0].startswith("@ ") and lines[1].startswith("  ") and lines[0].endswith("1 file")
    assert [c["name"] for c in cli_json("log", "-n", "1", cwd=saved)["checkpoints"]] == ["second"]
    assert [c["name"] for c in cli_json("log", "--", "a.txt", cwd=saved)["checkpoints"]] == ["first"]
    assert [c["name"] for c in cli_json("log", "--kind", "step", cwd=saved)["checkpoints"]] == []


def test_hostile_names_are_harmless_in_the_log(proj):
    (proj / "x\x1b[2J\n").write_text("")
    cli("save", "name\x1b]0;t\x07", cwd=proj)
    for command in (["log"], ["show", "@"], ["status"]):
        out = cli(*command, cwd=proj).stdout
        assert "\x1b" not in out and "\x07" not in out


# -- looking ------------------------------------------------------------------------------------


def test_show_tells_what_changed(saved):
    (saved / "src/app.py").write_text("2\n")
    cli("save", "second", "-m", "because", cwd=saved)
    done = cli("show", "second", cwd=saved)
    assert done.returncode == 0 and all(
        part in done.stdout for part in ("second", "because", "src/app.py", "1 file changed")
    )
    assert "+2" in cli("show", "second", "-p", cwd=saved).stdout
    document = cli_json("show", "second", cwd=saved)
    assert document["checkpoint"]["name"] == "second" and document["diff"]["modified"] == ["src/app.py"]
    first = cli_json("show", "first", cwd=saved)["diff"]
    assert first["added"] == ["a.txt", "src/app.py"]
    assert "2 files saved: a.txt, src/app.py" in cli("show", "first", cwd=saved).stdout


def test_diff_is_a_patch_that_git_applies(saved, tmp_path):
    before = tmp_path / "before"
    subprocess.run(["cp", "-a", saved, before], check=True)
    (saved / "a.txt").write_bytes(b"caf\xe9\n")
    (saved / "new file").write_text("n\n")
    (saved / "src/app.py").unlink()
    patch_text = cli("diff", cwd=saved).stdout.encode("utf-8", "surrogateescape")
    git("init", "-q", cwd=before)
    git("apply", "-", cwd=before, stdin=patch_text)
    assert (
        (before / "a.txt").read_bytes() == b"caf\xe9\n"
        and (before / "new file").exists()
        and not (before / "src/app.py").exists()
    )


def test_diff_between_checkpoints_and_within_paths(saved):
    (saved / "a.txt").write_text("2\n")
    (saved / "src/app.py").write_text("2\n")
    cli("save", "second", cwd=saved)
    whole = cli_json("diff", "first", "second", cwd=saved)
    part = cli_json("diff", "first", "second", "--", "app.py", cwd=saved / "src")
    assert whole["modified"] == ["a.txt", "src/app.py"] and part["modified"] == ["src/app.py"]
    assert "a.txt" not in part["patch"] and part["patch"] in whole["patch"]
    assert {"from", "to", "added", "deleted", "renamed"} <= part.keys()
    stat = cli("diff", "first", "--stat", "--", "src", cwd=saved).stdout
    assert "src/app.py" in stat and "a.txt" not in stat and "1 file changed" in stat
    assert cli("diff", cwd=saved).stdout == ""


def test_cat_prints_the_bytes(saved):
    (saved / "bin").write_bytes(b"\x00\xff\r\n")
    cli("save", "v1:odd", cwd=saved)
    assert cli("cat", "v1:odd:bin", cwd=saved).stdout == "\x00\udcff\r\n"
    assert cli("cat", "first:src/app.py", cwd=saved / "src").stdout == "print('hi')\n"
    assert cli("cat", "first:./app.py", cwd=saved / "src").stdout == "print('hi')\n"
    assert (cli("cat", "first:nope", cwd=saved).returncode, cli("cat", "nope:a.txt", cwd=saved).returncode) == (1, 1)
    assert (
        cli("cat", "first:../../x", cwd=saved).returncode,
        cli("cat", "first:.git/config", cwd=saved).returncode,
    ) == (83, 83)


# -- restoring ----------------------------------------------------------------------------------


def test_restore_without_a_terminal_asks_nothing(saved):
    (saved / "a.txt").write_text("2\n")
    (saved / "new").write_text("")
    plan = cli("restore", "first", "--dry-run", cwd=saved)
    assert (plan.returncode, plan.stdout) == (0, "  ~ a.txt\n  - new\n1 to change, 1 to delete\n") and (
        saved / "new"
    ).exists()
    done = cli("restore", "first", cwd=saved)
    assert (
        done.returncode == 0
        and "restored a.txt; removed new. Undo: mulligan undo" in done.stdout
        and (saved / "a.txt").read_text() == "1\n"
    )
    again = cli("restore", "first", cwd=saved)
    assert again.returncode == 0 and "nothing to change." in again.stdout


def test_restore_of_paths_is_relative_to_where_one_stands(saved):
    (saved / "a.txt").write_text("2\n")
    (saved / "src/app.py").write_text("2\n")
    assert cli("restore", "first", "-y", "--", "app.py", cwd=saved / "src").returncode == 0
    assert ((saved / "a.txt").read_text(), (saved / "src/app.py").read_text()) == ("2\n", "print('hi')\n")
    assert cli("restore", "first", "-y", "--", "../a.txt", cwd=saved / "src").returncode == 0
    assert (saved / "a.txt").read_text() == "1\n"
    outside = cli("restore", "first", "-y", "--", "../../elsewhere", cwd=saved / "src")
    assert outside.returncode == 83 and "outside the workspace" in outside.stderr


def test_restore_of_state_leaves_files_alone(saved):
    (saved / "a.txt").write_text("2\n")
    report = cli_json("restore", "first", "--state", "-y", cwd=saved)["report"]
    assert (report["modified"], (saved / "a.txt").read_text()) == ([], "2\n")


def test_undo_and_redo_walk_back_and_forward(saved):
    (saved / "a.txt").write_text("2\n")
    assert cli_json("undo", cwd=saved)["report"]["modified"] == ["a.txt"] and (saved / "a.txt").read_text() == "1\n"
    done = cli("redo", cwd=saved)
    assert done.returncode == 0 and "Undo: mulligan undo" in done.stdout and (saved / "a.txt").read_text() == "2\n"
    assert cli("redo", cwd=saved).returncode == 1


# -- the store ----------------------------------------------------------------------------------


def test_rm_deletes_all_or_nothing(saved):
    (saved / "a.txt").write_text("2\n")
    cli("save", "second", cwd=saved)
    assert cli("rm", "first", "nope", cwd=saved).returncode == 1
    assert len(cli_json("log", cwd=saved)["checkpoints"]) == 2
    ids = [c["id"] for c in cli_json("log", cwd=saved)["checkpoints"]]
    assert cli_json("rm", "second", ids[0], "first", "-y", cwd=saved) == {"deleted": ids}
    assert cli_json("log", cwd=saved) == {"checkpoints": []}
    assert cli("show", "@", cwd=saved).returncode == 10


def test_gc_frees_what_was_deleted(saved):
    (saved / "big").write_bytes(os.urandom(300_000))
    cli("save", "big", cwd=saved)
    (saved / "big").unlink()
    cli("save", "without", cwd=saved)
    cli("rm", "big", "-y", cwd=saved)
    promised = cli_json("gc", "--dry-run", cwd=saved)["freed_bytes"]
    freed = cli_json("gc", cwd=saved)["freed_bytes"]
    assert promised > 250_000 and freed > 250_000
    assert cli("gc", cwd=saved).stdout.endswith("were freed\n")


def test_the_story_says_what_it_cannot_be_limited_to(saved):
    assert cli("log", "--story", "--kind", "manual", cwd=saved).returncode == 2


def test_forget_removes_a_path_from_history(saved):
    done = cli("forget", "app.py", "-y", cwd=saved / "src")
    assert done.returncode == 0 and "forgot src/app.py" in done.stdout and (saved / "src/app.py").exists()
    assert cli("cat", "first:src/app.py", cwd=saved).returncode == 1
    assert cli("forget", ".", cwd=saved).returncode == 1 and cli("forget", "/etc/passwd", cwd=saved).returncode == 83


def test_status_tells_scope_budget_and_what_is_unprotected(saved):
    (saved / ".gitignore").write_text("*.log\n")
    (saved / "x.log").write_text("")
    done = cli("status", cwd=saved)
    assert done.returncode == 0
    assert all(
        part in done.stdout for part in (str(saved), "1 checkpoint, ", " of 2.0 GiB", "1 added", "ignored: x.log")
    )
    status = cli_json("status", cwd=saved)
    assert (status["workspace"], status["watcher"], status["pending"]) == (str(saved), None, None)


def test_check_and_doctor_on_a_sound_store(saved):
    assert cli_json("check", cwd=saved)["ok"] is True and cli_json("doctor", cwd=saved)["ok"] is True
    assert cli("check", cwd=saved).stdout.startswith("ok") and "sound" in cli("doctor", cwd=saved).stdout


def test_a_damaged_store_ends_with_ninety_and_says_what(saved):
    store = Path(cli_json("status", cwd=saved)["store"])
    pack = next((store / "objects/pack").glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    os.chmod(pack, 0o600)
    pack.write_bytes(data)
    done = cli("--json", "check", cwd=saved)
    assert done.returncode == 90 and json.loads(done.stdout)["ok"] is False and json.loads(done.stdout)["problems"]
    assert cli("check", cwd=saved).returncode == 90 and "mulligan doctor" in cli("check", cwd=saved).stderr


def test_stores_are_listed_and_purged(saved, tmp_path):
    (store,) = cli_json("stores", cwd=tmp_path)["stores"]
    assert (store["workspace"], store["checkpoints"], store["exists"]) == (str(saved), 1, True)
    assert str(saved) in cli("stores", cwd=tmp_path).stdout and "1 store, " in cli("stores", cwd=tmp_path).stdout
    os.rename(saved, tmp_path / "moved")
    assert len(cli_json("stores", "--purge", "-y", cwd=tmp_path)["stores"]) == 1
    purged = cli_json("stores", "--purge", "--older-than", "0", "-y", cwd=tmp_path)
    assert (purged["stores"], len(purged["purged"])) == ([], 1)


def test_a_moved_project_adopts_its_history(saved, tmp_path):
    os.rename(saved, tmp_path / "moved")
    assert cli("show", "first", cwd=tmp_path / "moved").returncode == 10
    assert cli("adopt", "../proj", cwd=tmp_path / "moved").returncode == 0
    assert cli_json("show", "first", cwd=tmp_path / "moved")["checkpoint"]["name"] == "first"


def test_the_demo_leaves_nothing_behind(tmp_path, private_home):
    (tmp_path / "tmp").mkdir()
    done = cli("demo", cwd=tmp_path, TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 0 and done.stdout.count("✓ ") == 3 and "mulligan save" in done.stdout
    assert os.listdir(tmp_path / "tmp") == [] and cli_json("stores", cwd=tmp_path)["stores"] == []
    assert cli_json("demo", cwd=tmp_path)["ok"] is True


def test_the_module_is_the_same_door(saved):
    done = subprocess.run(
        mulligan_argv("--json", "log"), cwd=saved, env=plain_environment(), capture_output=True, check=True
    )
    assert (json.loads(done.stdout), done.stderr) == (cli_json("log", cwd=saved), b"")


def test_completion_words_come_from_the_timeline(saved):
    words = cli("__complete", cwd=saved).stdout.split("\n")
    assert words[:3] == ["@", "latest", "first"] and len(words[3]) == 8


# -- exit codes, workspaces, configuration -------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["show", "@"],
        ["diff"],
        ["restore", "x"],
        ["cat", "@:a.txt"],
        ["undo"],
        ["redo"],
        ["rm", "x"],
        ["forget", "a.txt"],
    ],
)
def test_commands_that_need_a_checkpoint_end_with_ten(proj, words):
    done = cli(*words, cwd=proj)
    assert done.returncode == 10 and "mulligan save" in done.stderr
    assert json.loads(cli("--json", *words, cwd=proj).stdout)["error"]["exit_code"] == 10


@pytest.mark.parametrize("words", [["log"], ["status"], ["check"], ["doctor"], ["gc"], ["gc", "--dry-run"], ["stores"]])
def test_the_others_work_without_one_and_make_no_store(proj, words, private_home):
    assert cli(*words, cwd=proj).returncode == 0 and cli_json(*words, cwd=proj) is not None
    assert not (private_home / "xdg-state/mulligan").exists()


def test_a_subdirectory_finds_the_workspace_above_it(saved):
    (saved / "src/deep").mkdir()
    assert cli_json("status", cwd=saved / "src/deep")["workspace"] == str(saved)
    assert cli_json("-C", ".", "status", cwd=saved / "src")["workspace"] == str(saved / "src")
    assert cli_json("-C", "src", "status", cwd=saved)["workspace"] == str(saved / "src")


def test_the_store_may_be_named(proj, tmp_path):
    assert cli("--store", tmp_path / "s", "save", "x", cwd=proj).returncode == 0
    assert cli_json("log", cwd=proj) == {"checkpoints": []}
    named = {"MULLIGAN_STORE": str(tmp_path / "s")}
    assert len(cli_json("log", cwd=proj, **named)["checkpoints"]) == 1
    assert cli_json("status", cwd=proj / "src", **named)["workspace"] == str(proj)
    assert cli("log", cwd=tmp_path, **named).returncode == 1


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    assert cli("-C", "nope", "log", cwd=tmp_path).returncode == 1


def test_a_busy_store_ends_with_eleven(saved):
    import fcntl

    store = Path(cli_json("status", cwd=saved)["store"])
    with open(store / "lock", "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = cli("--wait", "0", "save", cwd=saved)
        assert done.returncode == 11 and "in use" in done.stderr
        assert cli("log", cwd=saved).returncode == 0


def test_a_workspace_configuration_that_asks_too_much_is_a_warning(proj):
    (proj / "mulligan.toml").write_text("[retention]\nbudget = '1 TiB'\n")
    done = cli("--json", "save", cwd=proj)
    assert done.returncode == 0 and json.loads(done.stdout)["checkpoint"] and "retention.budget" in done.stderr


def test_a_wrong_user_configuration_is_a_warning_that_names_it(proj, private_home):
    (private_home / "xdg-config/mulligan").mkdir(parents=True)
    (private_home / "xdg-config/mulligan/config.toml").write_text("[retention]\nbudgett = 1\n")
    done = cli("save", cwd=proj)
    assert done.returncode == 0 and "config.toml" in done.stderr and "budgett" in done.stderr


# -- a person at a terminal ---------------------------------------------------------------------


def test_restore_on_a_terminal_shows_the_plan_and_asks(saved):
    (saved / "a.txt").write_text("2\n")
    code, shown = at_a_terminal("restore", "first", cwd=saved, typed="n\n")
    assert (code, (saved / "a.txt").read_text()) == (1, "2\n") and "~ a.txt" in shown and "[y/N]" in shown
    code, shown = at_a_terminal("restore", "first", cwd=saved, typed="y\n")
    assert (code, (saved / "a.txt").read_text()) == (0, "1\n")


def test_yes_and_json_ask_nothing(saved):
    for words in (["restore", "first", "-y"], ["--json", "restore", "first"]):
        (saved / "a.txt").write_text("2\n")
        code, shown = at_a_terminal(*words, cwd=saved, typed="")
        assert (code, (saved / "a.txt").read_text()) == (0, "1\n") and "[y/N]" not in shown


def test_deleting_on_a_terminal_asks(saved):
    for words in (["rm", "first"], ["forget", "a.txt"], ["stores", "--purge"]):
        code, shown = at_a_terminal(*words, cwd=saved, typed="\n")
        assert code == 1 and "[y/N]" in shown
    assert len(cli_json("log", cwd=saved)["checkpoints"]) == 1


@pytest.mark.parametrize("words", [["rm", "first"], ["forget", "a.txt"], ["stores", "--purge", "--older-than", "0"]])
def test_deleting_history_without_a_terminal_needs_a_yes(saved, words):
    done = cli(*words, cwd=saved)
    assert done.returncode == 1 and "no terminal to ask on" in done.stderr and "-y" in done.stderr
    assert cli("--json", *words, cwd=saved).returncode == 1
    assert len(cli_json("log", cwd=saved)["checkpoints"]) == 1 and cli("cat", "first:a.txt", cwd=saved).stdout == "1\n"


def test_colour_is_for_terminals_and_no_color_is_respected(saved):
    assert "\x1b[" in at_a_terminal("log", cwd=saved, typed="")[1]
    assert "\x1b[" not in at_a_terminal("log", cwd=saved, typed="", NO_COLOR="1")[1]
    assert "\x1b[" not in cli("log", cwd=saved).stdout


def test_a_patch_on_a_terminal_is_harmless(saved):
    (saved / "a.txt").write_text("\x1b]0;owned\x07\n")
    shown = at_a_terminal("diff", cwd=saved, typed="")[1]
    assert "\x1b]0" not in shown and "\x07" not in shown and "\\x1b]0;owned" in shown
