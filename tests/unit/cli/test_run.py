"""`mulligan run`: what a person sees, exit codes, JSON, reports; and a run that is cut short."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import cli, cli_json, git, mulligan_argv, plain_environment

WRITES = 'sh -c \'echo "$1" >> log.txt; echo "answer to $1"\' sh {prompt}'


@pytest.fixture
def pipe(project: Path):
    """Writes a pipeline; the agent `build` notes its prompt in log.txt and answers."""

    def write(steps: str, *, agents: dict[str, str] | None = None, more: str = "") -> Path:
        known = {"build": WRITES, **(agents or {})}
        path = project / "pipe.yaml"
        path.write_text(f"agents: {json.dumps(known)}\n{more}\nsteps:\n{steps}")
        return path

    return write


def log_of(project: Path) -> list[str]:
    return (project / "log.txt").read_text().splitlines()


# -- a whole run --------------------------------------------------------------------------------


def test_a_run_as_one_document(project, pipe):
    pipe(
        "  - {name: plan, prompt: 'plan {{n}}', output_var: plan}\n"
        "  - {name: do, prompt: '{{plan}}', checks: ['test -f log.txt'], checkpoint: true}\n"
        "  - {name: never, prompt: x, condition: \"n == '4'\"}\n",
        more="name: demo\nvariables: {n: 3}",
    )
    document = cli_json("run", "pipe.yaml", cwd=project)
    assert (document["pipeline"], document["ok"], document["interrupted"]) == ("demo", True, False)
    assert [(step["step_name"], step["status"], step["ok"]) for step in document["steps"]] == [
        ("plan", "success", True),
        ("do", "success", True),
        ("never", "skipped", True),
    ]
    assert log_of(project) == ["plan 3", "answer to plan 3"]
    assert document["steps"][0]["output"] == "answer to plan 3"
    ids = {checkpoint["id"] for checkpoint in cli_json("log", cwd=project)["checkpoints"]}
    assert document["steps"][1]["checkpoint"] in ids
    assert document["steps"][1]["before"] in ids


def test_a_person_sees_each_step_and_the_end(project, pipe):
    pipe(
        "  - {name: one, prompt: a}\n  - {name: two, prompt: b, checks: ['true', 'false']}\n  - {name: three, prompt: c, condition: 'no'}\n"
    )
    done = cli("run", "pipe.yaml", cwd=project)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["one    success", "two    success  checks failed: false", "three  skipped"]
    for line in (
        "step 1 of 3: one (build)",
        "step 2 of 3: two (build)",
        "  passed: true",
        "  failed: false",
        "mulligan undo",
    ):
        assert line in done.stderr
    quiet = cli("run", "pipe.yaml", "--quiet", cwd=project)
    assert "step 1" not in quiet.stderr


def test_variables_of_the_command_line_win(project, pipe):
    pipe("  - {prompt: '{{a}} {{b}}'}\n", more="variables: {a: 1, b: 2}")
    assert cli("run", "pipe.yaml", "--var", "b=x=y", "--var", "c=", cwd=project).returncode == 0
    assert log_of(project) == ["1 x=y"]


def test_a_dry_run_shows_the_plan_and_makes_nothing(project, pipe, private_home):
    pipe("  - {name: one, prompt: 'do {{n}}', checkpoint: true}\n", more="variables: {n: 3}")
    done = cli("run", "pipe.yaml", "--dry-run", cwd=project)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["1. **one** (build) [checkpoint]", "   do 3"]
    assert [step["status"] for step in cli_json("run", "pipe.yaml", "--dry-run", cwd=project)["steps"]] == ["dry_run"]
    assert sorted(os.listdir(project)) == ["pipe.yaml"]
    assert cli_json("log", cwd=project)["checkpoints"] == []


def test_a_step_is_one_undo_away(project, pipe):
    (project / "mine.txt").write_text("mine")
    pipe("  - {prompt: a}\n", agents={"build": "sh -c 'rm mine.txt; echo mess > litter'"})
    assert cli("run", "pipe.yaml", cwd=project).returncode == 0
    assert not (project / "mine.txt").exists()
    assert cli("undo", cwd=project).returncode == 0
    assert sorted(os.listdir(project)) == ["mine.txt", "pipe.yaml"]


def test_commits_where_there_is_a_repository_unless_told_otherwise(project, pipe):
    git("init", "-q", ".", cwd=project)
    pipe("  - {name: implement, prompt: a, checkpoint: true}\n")
    git("add", "-A", cwd=project)
    git("commit", "-q", "-m", "first", cwd=project)
    assert cli("run", "pipe.yaml", "--no-commit", cwd=project).returncode == 0
    assert git("log", "--format=%s", cwd=project) == b"first\n"
    assert cli("show", "architect:checkpoint:implement", cwd=project).returncode == 0
    assert cli("run", "pipe.yaml", cwd=project).returncode == 0
    assert git("log", "--format=%s", "--grep=architect:checkpoint", cwd=project) == b"architect:checkpoint:implement\n"


def test_a_pipeline_outside_the_workspace_and_one_below_it(project, pipe, tmp_path):
    pipe("  - {prompt: a}\n")
    moved = tmp_path / "elsewhere.yaml"
    (project / "pipe.yaml").rename(moved)
    assert cli("run", str(moved), cwd=project).returncode == 0
    (project / "sub").mkdir()
    assert cli("run", str(moved), cwd=project / "sub").returncode == 0
    # Commands run where one stands; the checkpoint is of the workspace around it.
    assert log_of(project / "sub") == ["a"]
    assert cli("-C", str(project), "run", "../elsewhere.yaml", cwd=tmp_path).returncode == 0
    assert log_of(project) == ["a", "a"]


# -- refused before anything runs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["none.yaml"], 1, "There is no pipeline"),
        (["pipe.yaml", "--from-step", "nope"], 1, "There is no step 'nope'"),
        (["pipe.yaml", "--from-step", "two"], 1, "--var plan="),
        (["pipe.yaml", "--var", "x"], 2, "'x' is not NAME=VALUE"),
        (
            ["pipe.yaml", "--agent", "build=no-such-program {prompt}"],
            1,
            "'no-such-program' of agent 'build' was not found",
        ),
        (["pipe.yaml", "--agent", "build='open"], 2, "No closing quotation"),
        (["pipe.yaml", "--agent", "build=echo {model}"], 1, "asks for {model}"),
        (["pipe.yaml", "--agent-factory", "no.such.module:f"], 1, "cannot be loaded"),
        (["pipe.yaml", "--agent-factory", "json"], 1, "package.module:function"),
        (["pipe.yaml", "--agent-factory", "json:__name__"], 1, "is not a function"),
        (["pipe.yaml", "--report-file", "x"], 2, "needs --report"),
        (["pipe.yaml", "--json", "--report", "json"], 2, "needs a file"),
        ([], 2, "PIPELINE.yaml"),
    ],
)
def test_what_cannot_be_run_is_refused_first(project, pipe, words, code, said):
    pipe("  - {name: one, prompt: a, output_var: plan}\n  - {name: two, prompt: '{{plan}}'}\n")
    done = cli("run", *words, cwd=project)
    assert done.returncode == code
    assert said in done.stderr + done.stdout
    assert sorted(os.listdir(project)) == ["pipe.yaml"]
    assert cli_json("log", cwd=project)["checkpoints"] == []


def test_every_mistake_of_the_file_is_listed(project):
    (project / "p.yaml").write_text("steps:\n  - {task: x}\n  - {prompt: y, agnet: z}\n")
    done = cli("run", "p.yaml", cwd=project)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "step 1 (line 2): unknown field 'task' (did you mean 'prompt'?) (line 2)",
        "step 1 (line 2): missing 'prompt' (the 'task' field is not valid, use 'prompt')",
        "step 2 (line 3): unknown field 'agnet' (did you mean 'agent'?) (line 3)",
        f"mulligan: {project / 'p.yaml'} is no valid pipeline: 3 mistakes. Nothing was run.",
    ]
    assert "agnet" in cli_json("run", "p.yaml", cwd=project, expect=1)["error"]["message"]


def test_an_agent_that_nobody_provides(project, pipe):
    pipe("  - {prompt: a, agent: review}\n")
    done = cli("run", "pipe.yaml", cwd=project)
    assert done.returncode == 1
    assert "No command is set for the agent 'review'" in done.stderr


def test_from_step_with_what_it_needs(project, pipe):
    pipe("  - {name: one, prompt: a, output_var: plan}\n  - {name: two, prompt: '{{plan}}'}\n")
    assert cli("run", "pipe.yaml", "--from-step", "two", "--var", "plan=known", cwd=project).returncode == 0
    assert log_of(project) == ["known"]


def test_no_checkpoint_no_step(project, pipe, private_home):
    """Where the engine refuses, nothing is run: the home directory is no workspace."""
    (private_home / "p.yaml").write_text((pipe("  - {prompt: a}\n")).read_text())
    done = cli("run", "p.yaml", cwd=private_home)
    assert done.returncode == 1
    assert not (private_home / "log.txt").exists()


# -- Python agents ------------------------------------------------------------------------------

FACTORY = """
class Agent:
    def __init__(self, agent, model):
        self.agent, self.model = agent, model

    def run(self, prompt):
        print("printed by the agent")
        from types import SimpleNamespace as Answer
        return Answer(status="success", final_output=f"{self.agent}/{self.model}: {prompt}")


def make(agent, model):
    return Agent(agent, model)
"""


@pytest.mark.parametrize("where", ["option", "file"])
def test_agents_from_a_python_factory(project, tmp_path, where):
    (tmp_path / "my_agents.py").write_text(FACTORY)
    named = "agents: {build: 'python:my_agents:make'}\n" if where == "file" else ""
    (project / "p.yaml").write_text(named + "steps: [{prompt: hi, model: m}]\n")
    words = ["--agent-factory", "my_agents:make"] if where == "option" else []
    document = cli_json(
        "run", "p.yaml", *words, cwd=project, PYTHONPATH=f"{plain_environment()['PYTHONPATH']}:{tmp_path}"
    )
    assert document["steps"][0]["output"] == "build/m: hi"


def test_a_dry_run_imports_no_factory(project, tmp_path):
    (tmp_path / "loud.py").write_text("print('imported')\n")
    (project / "p.yaml").write_text("agents: {build: 'python:loud:make'}\nsteps: [{prompt: hi}]\n")
    env = {"PYTHONPATH": f"{plain_environment()['PYTHONPATH']}:{tmp_path}"}
    for words in ([], ["--agent-factory", "loud:make"]):
        done = cli("run", "p.yaml", "--dry-run", *words, cwd=project, **env)
        assert (done.returncode, "imported" in done.stdout + done.stderr) == (0, False)


# -- reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["json", "markdown", "github"])
def test_reports(project, pipe, how):
    pipe("  - {name: 'o|n`e', prompt: a}\n  - {name: two, prompt: b, checks: ['echo no; false']}\n")
    done = cli("run", "pipe.yaml", "--report", how, "--report-file", "out", cwd=project)
    assert done.returncode == 1
    text = (project / "out").read_text()
    if how == "json":
        assert [step["checks_passed"] for step in json.loads(text)["steps"]] == [True, False]
    else:
        assert "``o\\|n`e``" in text and "0 of 1" in text and "answer to b" in text
        assert ("<details open>" in text) is (how == "github")
    assert done.stdout.startswith("o|n`e")
    shown = cli("run", "pipe.yaml", "--report", how, cwd=project)
    assert shown.stdout[:1] in "{#"


def test_a_report_that_cannot_be_written_says_that_the_steps_ran(project, pipe):
    pipe("  - {prompt: a}\n")
    done = cli("run", "pipe.yaml", "--report", "json", "--report-file", "no/where", cwd=project)
    assert done.returncode == 1
    assert "The pipeline ran" in done.stderr


# -- odd agents ---------------------------------------------------------------------------------


def test_escape_sequences_of_an_agent_do_not_reach_the_terminal(project, pipe):
    pipe("  - {prompt: a}\n", agents={"build": "sh -c 'printf \"\\033[2J\" >&2; exit 1'"})
    done = cli("run", "pipe.yaml", cwd=project)
    assert "\x1b" not in done.stderr + done.stdout
    assert "exit code 1" in done.stderr


def test_on_a_terminal_the_last_line_of_the_agent_is_shown(project, pipe):
    pipe("  - {prompt: a}\n", agents={"build": "sh -c 'echo thinking hard; sleep 0.3'"})
    leader, follower = pty.openpty()
    env = plain_environment(TERM="xterm", NO_COLOR="1")
    process = subprocess.Popen(
        mulligan_argv("run", "pipe.yaml"), cwd=project, env=env, stderr=follower, stdout=subprocess.DEVNULL
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break  # the other end is closed
        if not data:
            break
        seen += data
    os.close(leader)
    assert process.wait() == 0
    assert b"\x1b[2K  thinking hard" in seen
    assert b"success after" in seen


def test_a_reader_who_leaves_does_not_end_the_pipeline(project, pipe):
    pipe("  - {prompt: a}\n  - {prompt: b}\n  - {prompt: c}\n")
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        mulligan_argv("run", "pipe.yaml"),
        cwd=project,
        env=plain_environment(),
        stderr=write,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    os.close(write)
    assert log_of(project) == ["a", "b", "c"]
    assert process.returncode == 0


# -- cut short ----------------------------------------------------------------------------------


def wait_for(path: Path) -> str:
    for _ in range(3000):
        if path.exists() and path.read_text().endswith("\n"):
            return path.read_text()
        time.sleep(0.01)
    raise AssertionError(f"{path} never came")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except FileNotFoundError:
        return False


def ended(pid: int) -> bool:
    for _ in range(1000):
        if not runs(pid):
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def endless(project, pipe):
    """A pipeline whose second step spoils a file, starts a child and never ends."""
    (project / "work.txt").write_text("good\n")
    pipe(
        "  - {name: one, prompt: a}\n  - {name: two, prompt: b, agent: slow}\n  - {name: three, prompt: c}\n",
        agents={"slow": "sh -c 'echo spoilt > work.txt; sleep 600 & echo $! > child; wait'"},
    )

    def start(*words: str) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            mulligan_argv(*words, "run", "pipe.yaml"),
            cwd=project,
            env=plain_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return process, int(wait_for(project / "child"))

    return start


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_the_agent_and_says_where_it_stood(project, endless, how):
    process, child = endless("--json")
    process.send_signal(how)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["interrupted"]
    assert [(step["step_name"], step["status"]) for step in document["steps"]] == [
        ("one", "success"),
        ("two", "interrupted"),
    ]
    assert ended(child)
    assert cli("undo", cwd=project).returncode == 0
    assert (project / "work.txt").read_text() == "good\n"
    assert cli_json("check", cwd=project)["ok"]


def test_an_interrupted_run_tells_a_person_how_to_go_back(project, endless):
    process, _ = endless()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.splitlines() == ["one  success", "two  interrupted"]
    assert "Interrupted: the agent was ended." in err and "mulligan undo" in err


def test_a_run_that_is_killed_leaves_a_sound_store_and_the_way_back(project, endless):
    process, child = endless()
    process.kill()
    process.communicate(timeout=60)
    os.kill(child, signal.SIGKILL)
    assert cli_json("check", cwd=project)["ok"]
    assert cli("undo", cwd=project).returncode == 0
    assert (project / "work.txt").read_text() == "good\n"


def test_the_command_loads_nothing_of_this_for_others(project):
    """Only `run` pays for YAML and for processes."""
    program = "import sys; from mulligan.cli import main; main(['status']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'yaml'" not in done.stdout and "mulligan.loop" not in done.stdout
