"""
The settings files of agents: they hold hooks, and the permissions that a user granted.

A list of data. `install` writes hooks into some of them; an undo treats all of them with care (`restore.settings_files`).
"""

from __future__ import annotations

AGENT_SETTINGS = (
    ".claude/settings.local.json",
    ".claude/settings.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".github/hooks/mulligan.json",
    ".qwen/settings.json",
    ".openhands/hooks.json",
    ".factory/settings.local.json",
    ".letta/settings.local.json",
    ".augment/settings.local.json",
    ".vibe/hooks.toml",
    ".agents/plugins/mulligan/plugin.json",
    ".agents/plugins/mulligan/hooks/hooks.json",
    *(f".clinerules/hooks/{name}" for name in ("TaskStart", "TaskResume", "UserPromptSubmit", "PreToolUse")),
    *(f".clinerules/hooks/{name}" for name in ("PostToolUse", "TaskComplete", "TaskCancel")),
    ".opencode/plugin/mulligan.js",
    ".kilo/plugin/mulligan.js",
    ".pi/extensions/mulligan.ts",
    ".aider.conf.yml",
    ".aider.mulligan",
)
_ENDINGS = tuple(f"/{path}".encode() for path in AGENT_SETTINGS)


def is_agent_settings(path: bytes) -> bool:
    """Returns whether a path of a workspace, at any depth, is a settings file of an agent."""
    return (b"/" + path).endswith(_ENDINGS)
