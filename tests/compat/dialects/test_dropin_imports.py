"""`mulligan.compat`: the imports of the seeds' documents run unchanged, and only for those who ask for it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tools

INSTALL = "import mulligan.compat; mulligan.compat.install()\n"

SEEDS = {
    "000": """
        import asyncio
        from scripts.checkpoint_manager import CheckpointManager

        async def main(project_dir):
            manager = CheckpointManager(project_dir)
            checkpoint = await manager.create_checkpoint(
                name="before-refactor",
                description="State before major refactoring"
            )
            open("a.txt", "w").write("changed")
            await manager.rollback(checkpoint.id)
            # or rollback to latest
            await manager.rollback_to_latest()

        asyncio.run(main("."))
        assert open("a.txt").read() == "a"
    """,
    "001": """
        from architect.features.checkpoints import CHECKPOINT_PREFIX, Checkpoint, CheckpointManager

        manager = CheckpointManager(".")
        made = manager.create(step=1, message="one")
        assert isinstance(made, Checkpoint) and made.files_changed == ["a.txt"], made
        assert manager.create(step=2) is None
        assert [each.step for each in manager.list_checkpoints()] == [1]
        open("a.txt", "w").write("changed")
        assert manager.has_changes_since(made.commit_hash)
        assert manager.rollback(step=1) is True and manager.get_latest().short_hash() == made.commit_hash[:7]
        assert open("a.txt").read() == "a" and CHECKPOINT_PREFIX == "architect:checkpoint"
        from architect.features import CheckpointManager as again
        from architect.features.pipelines import PipelineRunner
        assert again is CheckpointManager
    """,
    "002": """
        import asyncio
        from praisonaiagents.checkpoints import CheckpointService, CheckpointConfig, CheckpointEvent, CheckpointDiff
        from praisonaiagents.checkpoints.types import CheckpointResult, FileDiff

        async def main():
            config = CheckpointConfig(auto_checkpoint=True, max_checkpoints=50, exclude_patterns=["*.tmp"])
            service = CheckpointService(workspace_dir=".", config=config)
            await service.initialize()
            checkpoint_id = await service.save("Before refactoring")
            open("a.txt", "w").write("changed")
            second = await service.save("After")
            assert (await service.diff(checkpoint_id, second)).modified_files == ["a.txt"]
            await service.restore(checkpoint_id)
            assert open("a.txt").read() == "a"
            assert [each.message for each in await service.list()][:2] == ["After", "Before refactoring"]
            assert (await service.get(second)).files_changed == ["a.txt"]
            await service.delete(second)

        asyncio.run(main())
    """,
    "003": """
        from chimera.checkpoints import CheckpointManager
        from chimera.env.local import LocalEnvironment
        env = LocalEnvironment(working_dir=".")
        manager = CheckpointManager(env)
        # Save a checkpoint
        cp = manager.create(name="before-refactor", description="Clean state before refactoring")
        print(cp.time_str) # "2026-03-06 14:30:00"
        open("a.txt", "w").write("changed")
        # Undo to the most recent checkpoint
        manager.undo()
        assert open("a.txt").read() == "a"

        cp1 = manager.create(name="initial", description="Starting state")
        cp2 = manager.create(name="after-tests", description="All tests passing")
        for cp in manager.list_checkpoints():
            print(f"{cp.name} ({cp.time_str}): {cp.description}")
        # Restore by name (finds most recent match)
        restored = manager.restore_by_name("initial")
        print(f"Restored to: {restored.name}")
        # Restore by raw checkpoint ID
        restored = manager.restore_by_id(cp1.id)
        result = manager.undo()
        if result:
            print(f"Undone to: {result.name}")
        else:
            print("No checkpoints to undo to")
        info = manager.get("before-refactor")
        if info:
            print(f"Checkpoint exists: {info.id} at {info.time_str}")

        from chimera.checkpoints_ghost import GhostCommitManager
        from chimera.core.loop_config import LoopConfig
        ghost = GhostCommitManager(workdir=".", max_snapshots=50)
        config = LoopConfig(ghost_commits=ghost)
        # After the loop runs:
        ghost.snapshot("write_file: a.txt", paths=["a.txt"])
        open("a.txt", "w").write("changed")
        ghost.undo() # restores a.txt
        assert open("a.txt").read() == "a"
        from chimera.checkpoints import CheckpointInfo, CheckpointManager
        from chimera.checkpoints_ghost import GhostCommitManager, GhostSnapshot
    """,
}


def python(project: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = tools.plain_environment()
    if path is not None:
        env["PYTHONPATH"] = f"{path}:{env['PYTHONPATH']}"
    return subprocess.run(
        [sys.executable, *words], cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def package(place: Path, **modules: str) -> Path:
    """Makes a package `chimera` in a directory of its own, as another project would install it."""
    top = place / "site" / "chimera"
    top.mkdir(parents=True)
    for name, text in {"__init__": "", **modules}.items():
        (top / f"{name}.py").write_text(text)
    return top.parent


@pytest.mark.parametrize("how", ["install", "around"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_samples_of_a_seed_run_letter_for_letter(project: Path, tmp_path: Path, seed: str, how: str) -> None:
    (project / "a.txt").write_text("a")
    script = tmp_path / "sample.py"
    script.write_text((INSTALL if how == "install" else "") + textwrap.dedent(SEEDS[seed]))
    done = python(project, *(["-m", "mulligan.compat"] if how == "around" else []), str(script))
    assert done.returncode == 0, done.stderr


def test_nothing_happens_on_a_plain_import_of_mulligan(project: Path) -> None:
    for first in ("import mulligan", "import mulligan, mulligan.compat"):
        done = python(project, "-c", f"{first}\nimport chimera.checkpoints")
        assert (done.returncode, "ModuleNotFoundError: No module named 'chimera'" in done.stderr) == (1, True)


def test_where_the_original_is_installed_only_its_checkpoint_modules_are_replaced(
    project: Path, tmp_path: Path
) -> None:
    site = package(tmp_path, checkpoints="raise AssertionError('the original')", agent="NAME = 'its own'")
    code = (
        "from chimera.checkpoints import CheckpointManager\nfrom chimera.agent import NAME\nimport chimera\n"
        "print(CheckpointManager.__module__, NAME, chimera.__file__ is not None)\n"
        "try:\n    import chimera.core.loop_config\nexcept ModuleNotFoundError:\n    print('not provided')\n"
    )
    done = python(project, "-c", INSTALL + code, path=site)
    assert done.stdout == "mulligan.dialects.chimera its own True\nnot provided\n", done.stderr


def test_a_package_of_that_name_without_the_seeds_modules_is_left_alone_with_a_warning(
    project: Path, tmp_path: Path
) -> None:
    site = package(tmp_path, colours="RED = 1")
    done = python(project, "-c", INSTALL + "from chimera.colours import RED\nimport chimera.checkpoints", path=site)
    assert (
        "ForeignPackageWarning: The package 'chimera' that is installed here has no chimera.checkpoints" in done.stderr
    )
    assert "ModuleNotFoundError: No module named 'chimera.checkpoints'" in done.stderr


def test_install_after_the_original_was_imported_raises(project: Path, tmp_path: Path) -> None:
    site = package(tmp_path, checkpoints="")
    done = python(project, "-c", "import chimera\n" + INSTALL, path=site)
    assert "RuntimeError: chimera was imported before mulligan.compat.install(). Nothing was changed." in done.stderr
    twice = python(
        project, "-c", INSTALL + INSTALL + "import chimera.checkpoints\nmulligan.compat.install()", path=site
    )
    assert twice.returncode == 0, twice.stderr


def test_uninstall_takes_it_away(project: Path) -> None:
    done = python(project, "-c", INSTALL + "mulligan.compat.uninstall()\nimport chimera")
    assert "ModuleNotFoundError" in done.stderr


def test_around_a_program_arguments_path_and_exit_code_are_the_programs(project: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    script = tmp_path / "program.py"
    script.write_text(
        "import sys\nfrom beside import WORD\nfrom chimera.checkpoints import CheckpointInfo\n"
        "print(__name__, WORD, sys.argv[1:], CheckpointInfo.__name__)\nsys.exit(7)\n"
    )
    done = python(project, "-m", "mulligan.compat", str(script), "-x", "y")
    assert (done.returncode, done.stdout) == (7, "__main__ beside ['-x', 'y'] CheckpointInfo\n"), done.stderr
    module = python(project, "-m", "mulligan.compat", "-m", "program", "z", path=tmp_path)
    assert (module.returncode, module.stdout) == (7, "__main__ beside ['z'] CheckpointInfo\n"), module.stderr
    assert python(project, "-m", "mulligan.compat").returncode == 2
    assert python(project, "-m", "mulligan.compat", "-h").stdout.startswith("usage: python -m mulligan.compat")
