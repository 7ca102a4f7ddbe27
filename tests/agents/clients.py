"""The real clients: where they are, and how each is run without a person and without the network."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tools import cli, cli_json, plain_environment

#: The versions whose payloads were recorded; a newer one is tried by changing it here.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.197"),
    "codex": ("@openai/codex", "0.166.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "mcp-inspector": ("@modelcontextprotocol/inspector", "latest"),
    "conformance": ("@modelcontextprotocol/conformance", "latest"),
}
PATIENCE = 300


class NotThere(Exception):
    """A client could not be had."""


def program(name: str, cache: Path) -> str:
    """Returns the path of a client, installing it into the cache first if need be; raises NotThere."""
    package, version = PACKAGES[name]
    folder = cache / f"{name}-{version}"
    found, done = folder / "node_modules" / ".bin" / name, folder / "installed"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(cache / f"{name}.lock"):
        if not done.exists():
            if shutil.which("npm") is None:
                raise NotThere("needs npm")
            words = ["npm", "install", "--prefix", str(folder), "--no-fund", "--no-audit", "--loglevel=error"]
            npm = subprocess.run(
                [*words, f"{package}@{version}"], capture_output=True, text=True, timeout=300, check=False
            )
            if npm.returncode:
                raise NotThere(f"could not be installed by npm: {npm.stderr.strip()[-200:]}")
            done.touch()
    return str(found)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
            if name.startswith((".claude", ".codex", ".gemini", ".opencode", ".git")):
                continue
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[name] = (path.lstat().st_mode, data)
        return found

    def mulligan(self, *words: str) -> Any:
        """Runs mulligan here and returns its document."""
        return cli_json(*words, cwd=self.root)

    def said(self, *words: str) -> str:
        """Runs mulligan here and returns what it prints."""
        return cli(*words, cwd=self.root).stdout

    def run(self, argv: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        """Runs an agent to its end."""
        return subprocess.run(
            argv,
            cwd=self.root,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def environment(self, **env: str) -> dict[str, str]:
        """The environment of an agent: little, and able to import the package."""
        plain = plain_environment()
        kept = ("PATH", "HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LC_ALL", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        return {name: plain[name] for name in kept if name in plain} | env


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
    folder = project.home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)


def codex_argv(codex: str, prompt: str) -> list[str]:
    """The command line of one turn of Codex."""
    return [codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt]


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
    with open(project.home / ".codex" / "config.toml", "a") as config:
        config.write("".join(lines))
    return [hook["trustStatus"] for hook in hooks]
