"""
The slash commands of Chimera's REPL, as text in and text out.

    /checkpoint [save|create [NAME] | list | restore NAME | undo]
    /undo [N]

No command ends in an exception: what went wrong is the answer. `mulligan repl` is the door; any other chat loop can hand its
lines to `SlashCommands.run` as well.
"""

from __future__ import annotations

from mulligan.dialects.chimera import CheckpointManager
from mulligan.environments.ghost import GhostCommitManager
from mulligan.errors import MulliganError

HELP = """\
/checkpoint                  list the checkpoints
/checkpoint save [NAME]      save one (or: create)
/checkpoint restore NAME     go back to one; `mulligan undo` takes that back
/checkpoint undo             go back to the latest
/undo [N]                    take back what the last N tools did to files
/help                        this text
/quit                        leave"""


class SlashCommands:
    """The commands over one manager and one ghost stack; either may be missing."""

    def __init__(self, manager: CheckpointManager | None = None, ghost: GhostCommitManager | None = None) -> None:
        self.manager = manager
        self.ghost = ghost

    def run(self, line: str) -> str | None:
        """Returns the answer to a line, None when it asks to leave."""
        word, _, rest = line.strip().partition(" ")
        if word in ("/quit", "/exit", "/q"):
            return None
        if not word:
            return ""
        try:
            return self._answer(word, rest.strip())
        except KeyError as error:
            return str(error.args[0]) if error.args else "Not found."
        except MulliganError as error:
            return f"{error}\n{error.hint}" if error.hint else str(error)
        except (OSError, ValueError) as error:
            return str(error)

    def _answer(self, word: str, rest: str) -> str:
        if word == "/checkpoint":
            return self.checkpoint(rest)
        if word == "/undo":
            return self.undo(rest)
        if word == "/help":
            return HELP
        return f"Unknown command: {word}. /help lists them."

    def checkpoint(self, rest: str) -> str:
        """Returns the answer to what follows `/checkpoint`."""
        manager = self.manager
        if manager is None:
            return "No checkpoint manager active."
        verb, _, name = rest.partition(" ")
        name = name.strip()
        if verb in ("save", "create"):
            made = manager.create(name)
            return f"Checkpoint saved: {made.name} ({made.id})"
        if verb in ("", "list"):
            listed = [f"  {info.id}  {info.name}  {info.time_str}" for info in manager.list_checkpoints()]
            return "\n".join(listed) or "No checkpoints."
        if verb == "restore":
            if not name:
                return "Usage: /checkpoint restore <name>"
            return f"Restored to checkpoint: {manager.restore_by_name(name).name}"
        if verb == "undo":
            latest = manager.undo()
            return f"Undone to checkpoint: {latest.name}" if latest is not None else "No checkpoints to undo."
        return f"Unknown checkpoint command: {verb}"

    def undo(self, rest: str) -> str:
        """Returns the answer to what follows `/undo`."""
        if self.ghost is None:
            return "No undo stack active."
        if rest and not (rest.isascii() and rest.isdigit() and int(rest)):
            return "Usage: /undo [n]"
        before = self.ghost.depth
        lines = self.ghost.undo(int(rest or 1))
        if not before:
            return "Nothing to undo."
        return "\n".join(lines) or "Nothing to change."
