"""The real clients: how each is run without a person and without the network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tools import cli, cli_json, git, plain_environment

#: Files of agents and of ours, which are not the project's.
_OWN = (".aider", ".claude", ".cline", ".codex", ".gemini", ".kilo", ".opencode", ".qwen", ".git/")
#: Seconds, and no measure of anything: a machine that is busy with something else may take minutes for what takes it five.
PATIENCE = 600


class Project(NamedTuple):
    """A project and the home of the person who runs an agent in it."""

    root: Path
    home: Path

    @classmethod
    def made(cls, root: Path, home: Path) -> Project:
        """Returns a project with files of several kinds in it."""
        (root / "src").mkdir(parents=True)
        (root / "a.txt").write_text("hello\n")
        (root / "src" / "app.py").write_text("def answer():\n    return 42\n")
        (root / "data.bin").write_bytes(bytes(range(256)) * 8)
        (root / "run.sh").write_text("#!/bin/sh\necho ok\n")
        (root / "run.sh").chmod(0o755)
        os.symlink("a.txt", root / "link")
        return cls(root, home)

    def everything(self) -> dict[str, tuple[int, bytes]]:
        """Every entry with its mode and bytes; what is ours or the agent's own is left out."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if name.startswith(_OWN):
                continue
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[name] = (path.lstat().st_mode, data)
        return found

    def protect_from_below(self) -> Project:
        """Makes a repository of this, with tests and a secret; returns the project as seen by who starts in `src`."""
        (self.root / "tests").mkdir()
        (self.root / "tests/test_app.py").write_text("assert True\n")
        (self.root / ".env").write_text("TOKEN=1\n")
        (self.root / ".gitignore").write_text(".env\n")
        git("init", "-q", cwd=self.root)
        git("add", "-A", cwd=self.root)
        git("commit", "-q", "-m", "first", cwd=self.root)
        return self._replace(root=self.root / "src")

    def mulligan(self, *words: str) -> Any:
        """Runs mulligan here and returns its document."""
        return cli_json(*words, cwd=self.root)

    def said(self, *words: str) -> str:
        """Runs mulligan here and returns what it prints."""
        return cli(*words, cwd=self.root).stdout

    def run(self, argv: list[str], *, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Runs an agent to its end; `said` is what a person types."""
        return subprocess.run(
            argv,
            cwd=self.root,
            env=self.environment(**env),
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self, argv: list[str], **env: str) -> subprocess.Popen[str]:
        """Starts an agent, as the first of a group of processes."""
        return subprocess.Popen(
            argv,
            cwd=self.root,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill_in_the_middle(self, argv: list[str], **env: str) -> None:
        """Starts an agent and kills it while its command runs, which says that by writing its process id into `begun`."""
        flag = self.root / "begun"
        agent = self.start(argv, **env)
        try:
            while not flag.exists() or not flag.read_text():
                assert agent.poll() is None, agent.communicate()[0]
                time.sleep(0.02)
        finally:
            os.killpg(agent.pid, signal.SIGKILL)
            with suppress(FileNotFoundError, ValueError, ProcessLookupError):
                # The command runs in a session of its own, and outlives its agent.
                os.kill(int(flag.read_text()), signal.SIGKILL)
            agent.communicate()

    def environment(self, **env: str) -> dict[str, str]:
        """The environment of an agent: little, and able to import the package."""
        plain = plain_environment()
        kept = ("PATH", "HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LC_ALL")
        kept += ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        return {name: plain[name] for name in (*kept, "CODEX_HOME") if name in plain} | env


# -- Claude Code ------------------------------------------------------------------------------------


def trust_claude(project: Project) -> None:
    """Says what a person says once in Claude Code's own dialogs."""
    known = {"hasCompletedOnboarding": True, "projects": {str(project.root): {"hasTrustDialogAccepted": True}}}
    (project.home / ".claude.json").write_text(json.dumps(known))


def claude_argv(claude: str, prompt: str, *more: str) -> list[str]:
    """The command line of one turn of Claude Code."""
    return [
        *(claude, "-p", prompt, "--output-format", "json", "--model", "claude-sonnet-4-5"),
        *("--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write,Edit,Agent", *more),
    ]


def claude_variables(url: str) -> dict[str, str]:
    """The variables that lead Claude Code to the scripted model."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # Before its first request it waits for its MCP servers, however long they take to start.
        "MCP_CONNECTION_NONBLOCKING": "0",
        "MCP_CONNECT_TIMEOUT_MS": f"{PATIENCE}000",
        "MCP_TIMEOUT": f"{PATIENCE}000",
    }


# -- Codex ------------------------------------------------------------------------------------------


def configure_codex(project: Project, url: str) -> None:
    """Leads Codex to the scripted model and says, as a person would, that the project is trusted."""
    config = f"""\
model = "gpt-5.5"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[projects."{project.root}"]
trust_level = "trusted"
"""
    folder = codex_home(project)
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)


def codex_home(project: Project) -> Path:
    """Where Codex keeps all it has."""
    return Path(os.environ.get("CODEX_HOME") or project.home / ".codex")


def codex_argv(codex: str, prompt: str, *resume: str) -> list[str]:
    """The command line of one turn of Codex, of a session that is there already if `resume` says so."""
    return [codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *resume, prompt]


def approve_codex_hooks(project: Project, codex: str) -> list[str]:
    """Plays the person who approves all hooks, as Codex's own dialog does; returns what Codex said of each before."""
    server = subprocess.Popen(
        [codex, "app-server"],
        cwd=project.root,
        env=project.environment(SCRIPTED_KEY="x"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(number: int, method: str, params: Any) -> Any:
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer["result"]
        raise AssertionError("codex app-server ended")

    try:
        ask(1, "initialize", {"clientInfo": {"name": "test", "title": "test", "version": "1"}})
        hooks = ask(2, "hooks/list", {"cwds": [str(project.root)]})["data"][0]["hooks"]
    finally:
        server.kill()
        server.communicate()
    lines = [f'[hooks.state."{hook["key"]}"]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in hooks]
    with open(codex_home(project) / "config.toml", "a") as config:
        config.write("".join(lines))
    return [hook["trustStatus"] for hook in hooks]


# -- opencode ---------------------------------------------------------------------------------------


def configure_opencode(project: Project, url: str) -> dict[str, str]:
    """
    Leads opencode to the scripted model and keeps it from the network; returns its variables.

    On its first start it fetches a list of models, and installs a package of types into each directory that may hold plugins,
    before it loads any: 28 of the 61 seconds that it took once, on a busy machine. Ours needs no package; here is what tells
    opencode that it is there.
    """
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": {}},
    }
    allowed = {"bash": "allow", "edit": "allow", "task": "allow"}
    config = {"provider": {"scripted": provider}, "model": "scripted/scripted", "permission": allowed}
    (project.home / "opencode.json").write_text(json.dumps(config))
    locked = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    for folder in (Path(project.environment()["XDG_CONFIG_HOME"]) / "opencode", project.root / ".opencode"):
        (folder / "node_modules").mkdir(parents=True, exist_ok=True)
        (folder / "package-lock.json").write_text(json.dumps(locked))
    switched_off = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD")
    return {
        "OPENCODE_CONFIG": str(project.home / "opencode.json"),
        **{f"OPENCODE_DISABLE_{what}": "1" for what in switched_off},
    }


# -- aider ------------------------------------------------------------------------------------------


def aider_argv(aider: str, *words: str) -> list[str]:
    """The command line of aider, which asks no questions of its own before it begins."""
    quiet = ("check-update", "show-model-warnings", "show-release-notes", "analytics", "fancy-input", "pretty")
    model = ("--model", "openai/scripted", "--edit-format", "diff")
    return [aider, *model, *(f"--no-{each}" for each in quiet), *words]


def aider_variables(url: str) -> dict[str, str]:
    """The variables that lead aider to the scripted model, and tell git who it is."""
    names = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **names}
