"""The project's own directory: deleted, replaced by another one, made again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import tools
from play import Agent, tree, typed


def in_shell(script: str, cwd: Path) -> str:
    """What a person sees who types lines into one shell; `mulligan` is the command."""
    command = " ".join(tools.mulligan_argv())
    done = subprocess.run(
        ["/bin/sh", "-c", f'mulligan() {{ {command} "$@"; }}; {script}'],
        cwd=cwd,
        env=tools.plain_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def saved(project: Path) -> dict[str, str]:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("print('hello')\n")
    (project / "notes.txt").write_text("one\n")
    typed(project, "save", "good")
    return tree(project)


def test_undo_brings_back_a_project_that_was_deleted_under_the_shell(project: Path) -> None:
    before = saved(project)
    said = in_shell('rm -rf "$PWD"; mulligan undo; echo "exit $?"', project)
    assert tree(project) == before
    assert "exit 0" in said
    assert 'cd "$PWD"' in said


def test_undo_typed_in_a_deleted_subdirectory_brings_back_the_project(project: Path) -> None:
    before = saved(project)
    in_shell('rm -rf "${PWD%/src}"; mulligan undo', project / "src")
    assert tree(project) == before


def test_undo_by_name_brings_back_a_project_whose_parents_are_gone_too(tmp_path: Path) -> None:
    project = tmp_path / "customers" / "acme" / "shop"
    project.mkdir(parents=True)
    project.chmod(0o750)
    before = saved(project)
    shutil.rmtree(tmp_path / "customers")
    typed(tmp_path, "-C", str(project), "undo")
    assert tree(project) == before
    assert project.stat().st_mode & 0o777 == 0o750


def test_a_project_that_is_gone_can_be_looked_at(project: Path, tmp_path: Path) -> None:
    saved(project)
    shutil.rmtree(project)
    where = ("-C", str(project))
    assert "good" in typed(tmp_path, *where, "log")
    assert "good" in typed(tmp_path, *where, "show", "@")
    assert "app.py" in typed(tmp_path, *where, "diff", "--stat")
    assert "src/app.py" in typed(tmp_path, *where, "restore", "good", "--dry-run")
    assert "is gone" in typed(tmp_path, *where, "status")
    assert str(project) in typed(tmp_path, *where, "stores")
    typed(tmp_path, *where, "check")
    assert not project.exists(), "looking made the directory again"


def test_the_status_of_a_project_that_is_gone_claims_no_protection_and_names_the_way_back(
    project: Path, tmp_path: Path
) -> None:
    (project / "a").write_text("1\n")
    typed(project, "save", "good")
    shutil.rmtree(project)
    said = typed(tmp_path, "-C", str(project), "status")
    assert "all files are protected" not in said and f"Bring it back: mulligan -C {project} undo" in said


def test_a_project_that_is_gone_cannot_be_saved_and_the_way_back_is_named(project: Path, tmp_path: Path) -> None:
    saved(project)
    shutil.rmtree(project)
    assert f"mulligan -C {project} undo" in typed(tmp_path, "-C", str(project), "save", expect=1)
    assert not project.exists()


def test_restore_brings_back_a_project_that_is_gone(project: Path, tmp_path: Path) -> None:
    before = saved(project)
    (project / "later.txt").write_text("later\n")
    typed(project, "save", "later")
    shutil.rmtree(project)
    typed(tmp_path, "-C", str(project), "restore", "good", "-y")
    assert tree(project) == before


def test_a_directory_that_never_was_a_project_is_named_as_such(tmp_path: Path) -> None:
    assert "mulligan stores" in typed(tmp_path, "-C", str(tmp_path / "nowhere"), "undo", expect=1)


def test_undo_after_an_agent_deleted_the_project_comes_before_its_turn(project: Path, tmp_path: Path) -> None:
    saved(project)
    agent = Agent(project, cwd=tmp_path)
    agent.begin("add a feature, then clean up")
    agent.write("feature.py", "feature\n")
    agent.bash("rm -rf project")
    agent.stop()
    typed(tmp_path, "-C", str(project), "undo")
    assert "feature.py" in tree(project), "the files of the last checkpoint come back first"
    typed(project, "undo")
    assert "feature.py" not in tree(project)
    assert "src/app.py" in tree(project)


def test_a_directory_that_was_made_again_empty_is_filled(project: Path) -> None:
    before = saved(project)
    shutil.rmtree(project)
    project.mkdir()
    typed(project, "undo")
    assert tree(project) == before


def replace(project: Path) -> None:
    """Puts another project in the place of one, with the same inode where the file system hands it out again."""
    shutil.rmtree(project)
    project.mkdir()
    (project / "fresh.txt").write_text("another project\n")


def test_undo_never_deletes_the_files_of_another_project_in_the_old_place(project: Path) -> None:
    saved(project)
    for _ in range(6):  # ext4 reuses the inode in most of them
        replace(project)
        for command in ("undo", "redo"):
            typed(project, command, expect=1)
        assert "mulligan save" in typed(project, "restore", "good", "-y", expect=1)
        assert tree(project) == {"fresh.txt": "another project\n"}


def test_a_hook_in_another_project_does_not_make_undo_delete_it(project: Path) -> None:
    saved(project)
    replace(project)
    agent = Agent(project)
    agent.turn("write something", "echo work > work.txt")
    typed(project, "undo")
    assert tree(project) == {"fresh.txt": "another project\n"}, "the agent's turn is undone"
    typed(project, "undo", expect=1)
    assert tree(project) == {"fresh.txt": "another project\n"}


def test_a_project_that_was_cloned_again_goes_on_after_a_save(project: Path) -> None:
    before = saved(project)
    replace(project)
    typed(project, "save", "it is the same project")
    typed(project, "undo")
    assert tree(project) == before


def test_a_copy_with_all_its_attributes_is_the_same_project(project: Path, tmp_path: Path) -> None:
    before = saved(project)
    (project / "notes.txt").write_text("two\n")
    subprocess.run(["cp", "-a", project, tmp_path / "copy"], check=True)
    shutil.rmtree(project)
    os.rename(tmp_path / "copy", project)
    typed(project, "undo")
    assert tree(project) == before


def test_a_history_of_an_older_release_gets_its_mark_with_the_next_save(project: Path) -> None:
    saved(project)
    database = next(Path(os.environ["XDG_STATE_HOME"]).glob("mulligan/stores/*/timeline.db"))
    drop = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute(\"DELETE FROM meta WHERE key='workspace_identity'\"); c.commit()"
    subprocess.run(["python3", "-c", drop, database], check=True)
    os.removexattr(project, "user.mulligan.workspace")
    typed(project, "save", "upgraded")
    assert os.getxattr(project, "user.mulligan.workspace")
    replace(project)
    typed(project, "undo", expect=1)
