"""Seed 001, line by line: what its document says, played with mulligan's dialect and command line."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tools
from mulligan.dialects.architect import CheckpointManager, CheckpointsConfig, agent_loop
from tools import cli, cli_json, git


@pytest.fixture
def repo(project: Path) -> Path:
    """A clean repository with one commit."""
    git("init", "-q", "-b", "main", cwd=project)
    (project / "a.txt").write_text("v0\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    return project


def pipeline(project: Path, text: str) -> Path:
    """Writes a pipeline whose agent runs its prompt as shell text."""
    made = project.parent / "pipeline.yaml"
    agent = shlex.join(["sh", "-c", "{prompt}"]).replace("'{prompt}'", "{prompt}")
    made.write_text(f"agents:\n  build: {agent}\n{text}")
    return made


def messages(repo: Path) -> list[str]:
    return [each for each in git("log", "--format=%B%x00", cwd=repo).decode().split("\0\n") if each.strip()]


# -- "Cada step con `checkpoint: true` ejecuta: git add -A, git commit" -------------------------------


def test_cada_step_con_checkpoint_true_ejecuta_un_commit_also_when_its_checks_fail(repo: Path) -> None:
    file = pipeline(
        repo,
        "steps:\n"
        "  - {name: implement, prompt: echo bad > a.txt, checkpoint: true, checks: ['false', 'true', 'test -f b.txt']}\n"
        "  - {name: optimize, prompt: echo good > a.txt, checkpoint: true}\n",
    )
    done = cli_json("run", file, cwd=repo, expect=1)
    first, second = done["steps"]
    assert (first["status"], first["checks_passed"], first["ok"]) == ("success", False, False)
    listed = git("log", "--oneline", "--grep=architect:checkpoint", "--format=%s", cwd=repo).decode().split()
    assert listed == ["architect:checkpoint:optimize", "architect:checkpoint:implement"]
    said = git("log", "-1", "--format=%B", first["commit"], cwd=repo).decode()
    assert "Checks: failed (false, test -f b.txt)" in said
    assert git("log", "-1", "--format=%(trailers:key=Checks,valueonly)", first["commit"], cwd=repo).strip()
    assert "Checks:" not in git("log", "-1", "--format=%B", second["commit"], cwd=repo).decode()
    assert git("show", f"{first['commit']}:a.txt", cwd=repo) == b"bad\n"


def test_cada_step_con_checkpoint_true_ejecuta_un_commit_also_when_the_step_fails(repo: Path) -> None:
    file = pipeline(repo, "steps:\n  - {name: implement, prompt: echo half > a.txt; exit 3, checkpoint: true}\n")
    (step,) = cli_json("run", file, cwd=repo, expect=1)["steps"]
    assert step["status"] == "failed"
    assert "Status: failed" in git("log", "-1", "--format=%B", step["commit"], cwd=repo).decode()
    assert cli("rollback", "--to-commit", "HEAD~1", cwd=repo).returncode == 0
    assert (repo / "a.txt").read_text() == "v0\n"
    assert cli("rollback", "--to-name", "implement", cwd=repo).returncode == 0
    assert (repo / "a.txt").read_text() == "half\n"


# -- "files_changed: list[str]  # Archivos modificados" ----------------------------------------------


def test_list_checkpoints_fills_files_changed(repo: Path) -> None:
    manager = CheckpointManager(str(repo))
    (repo / "a.txt").write_text("v1\n")
    (repo / "größe mit leerzeichen.txt").write_text("x\n")
    made = manager.create(1, "one")
    (repo / "a.txt").unlink()
    manager.create(2)
    assert made is not None
    assert [each.files_changed for each in manager.list_checkpoints()] == [["a.txt"], sorted(made.files_changed)]
    latest = manager.get_latest()
    assert latest is not None
    assert latest.files_changed == ["a.txt"]


def test_list_checkpoints_fills_files_changed_in_the_first_commit_and_below_a_subdirectory(project: Path) -> None:
    git("init", "-q", cwd=project)
    (project / "sub").mkdir()
    (project / "sub" / "new.txt").write_text("x\n")
    below = CheckpointManager(str(project / "sub"))
    assert below.create(1) is not None
    assert [each.files_changed for each in below.list_checkpoints()] == [["new.txt"]]


def test_list_checkpoints_fills_files_changed_without_a_repository(project: Path) -> None:
    manager = CheckpointManager(str(project))
    (project / "new.txt").write_text("x\n")
    manager.create(1)
    assert [each.files_changed for each in manager.list_checkpoints()] == [["new.txt"]]


# -- "Configuración YAML: checkpoints: enabled: false, every_n_steps: 5" -----------------------------


def test_the_checkpoints_section_of_the_yaml_configuration_is_read(repo: Path) -> None:
    (repo / "config.yaml").write_text("llm:\n  model: x\ncheckpoints:\n  enabled: true\n  every_n_steps: 2\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "configure", cwd=repo)
    loop = agent_loop(str(repo))
    for number in range(1, 5):
        loop.before_tool("write_file", {"path": "a.txt"})
        (repo / "a.txt").write_text(f"{number}\n")
        loop.after_tool("write_file", {"path": "a.txt"})
    assert [each.step for each in CheckpointManager(str(repo)).list_checkpoints()] == [4, 2]
    assert CheckpointsConfig.from_yaml(repo / "config.yaml") == CheckpointsConfig(enabled=True, every_n_steps=2)


@pytest.mark.parametrize("text", ["checkpoints: {every_n_steps: 51}", "checkpoints: {every: 1}", "checkpoints: 3"])
def test_a_wrong_checkpoints_section_is_an_error(repo: Path, text: str) -> None:
    (repo / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match="checkpoints"):
        agent_loop(str(repo))


def test_a_configuration_without_the_section_saves_nothing(repo: Path) -> None:
    (repo / "config.yaml").write_text("llm: {model: x}\n")
    assert CheckpointsConfig.from_yaml(repo / "config.yaml") == CheckpointsConfig()
    with pytest.raises(FileNotFoundError):
        CheckpointsConfig.from_yaml(repo / "other.yaml")


# -- pipelines ---------------------------------------------------------------------------------------


def test_unknown_keys_at_the_top_of_a_pipeline_are_reported(repo: Path) -> None:
    file = pipeline(repo, "on_failure: stop\nx-own: 1\nsteps:\n  - {name: a, prompt: 'true'}\n")
    done = cli("run", file, cwd=repo)
    assert done.returncode == 0
    assert "unknown field 'on_failure' is ignored" in done.stderr
    assert "(line 3)" in done.stderr
    assert "x-own" not in done.stderr


def _gone(pid: int) -> bool:
    for _ in range(1500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def _interrupt(repo: Path, file: Path, number: int) -> list[int]:
    """Starts a pipeline and kills it once its agent wrote its process ids; returns those."""
    pids = repo.parent / "pids"
    started = subprocess.Popen(
        tools.mulligan_argv("run", file), cwd=repo, env=tools.plain_environment(), stderr=subprocess.DEVNULL
    )
    while not pids.exists() or pids.read_text().count("\n") < 2:
        assert started.poll() is None
        time.sleep(0.01)
    os.kill(started.pid, number)
    started.wait(timeout=60)
    return [int(line) for line in pids.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_does_not_outlive_a_killed_run(repo: Path, number: int) -> None:
    pids = repo.parent / "pids"
    work = f"sleep 600 & echo $! >> {pids}; echo $$ >> {pids}; wait"
    file = pipeline(repo, f"steps:\n  - name: long\n    prompt: {work!r}\n")
    for pid in _interrupt(repo, file, number):
        assert _gone(pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_resume_goes_on_with_the_outputs_of_earlier_steps(repo: Path, number: int) -> None:
    pids = repo.parent / "pids"
    work = f"if test -e {pids}; then echo {{{{plan}}}} > result.txt; else echo $$ > {pids}; echo 1 >> {pids}; sleep 600; fi"
    file = pipeline(
        repo,
        f"steps:\n  - {{name: plan, prompt: 'echo ran >> count.txt; echo the-plan-{{{{ticket}}}}', output_var: plan}}\n"
        f"  - name: do\n    prompt: {work!r}\n",
    )
    text = file.read_text()
    file.write_text(text + "variables: {ticket: 42}\n")
    _interrupt(repo, file, number)
    assert cli("run", file, "--from-step", "do", cwd=repo).returncode == 1
    done = cli("run", file, "--resume", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "Resuming with step do." in done.stderr
    assert (repo / "result.txt").read_text() == "the-plan-42\n"
    assert (repo / "count.txt").read_text() == "ran\n"
    over = cli("run", file, "--resume", cwd=repo)
    assert (over.returncode, "nothing to resume" in over.stderr) == (1, True)


def test_resume_says_what_is_in_its_way(repo: Path) -> None:
    file = pipeline(repo, "steps:\n  - {name: a, prompt: 'true'}\n")
    fresh = cli("run", file, "--resume", cwd=repo)
    assert (fresh.returncode, "was not run here yet" in fresh.stderr) == (1, True)
    assert cli("run", file, "--resume", "--from-step", "a", cwd=repo).returncode == 2


# -- "Listar checkpoints" ----------------------------------------------------------------------------


def test_history_names_the_option_that_works(repo: Path) -> None:
    cli("run", pipeline(repo, "steps:\n  - {name: implement, prompt: echo 1 > a.txt, checkpoint: true}\n"), cwd=repo)
    assert "Use 'mulligan architect rollback --to-name NAME'" in cli("architect", "history", cwd=repo).stdout
    (repo / "a.txt").write_text("2\n")
    CheckpointManager(str(repo)).create(2)
    assert "rollback --to-step N | --to-name NAME'" in cli("architect", "history", cwd=repo).stdout


def test_the_sample_of_the_migration_page_works_in_a_clean_repository(repo: Path) -> None:
    page = (tools.PACKAGE.parent / "docs/howto/migrate-from-architect.md").read_text()
    sample = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", sample],
        cwd=repo,
        env=tools.plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ")
    assert "before the refactor" in done.stdout
    assert (repo / "notes.txt").exists()
