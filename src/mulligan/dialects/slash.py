"""
The slash commands of Chimera's REPL, as text in and text out.

    /checkpoint [save|create [NAME] | list | restore NAME | undo]
    /undo [N], /redo

With a workspace they work on its whole timeline: what hooks, the command line and other dialects saved is listed, restored
and undone too. With an agent, any other text is a prompt for it. No command ends in an exception: what went wrong is the
answer. `mulligan repl` is the door; any other chat loop can hand its lines to `SlashCommands.run` as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from mulligan.dialects.chimera import CheckpointManager
from mulligan.engine.workspace import Workspace
from mulligan.environments.ghost import GhostCommitManager
from mulligan.errors import MulliganError, UnknownCheckpoint
from mulligan.loop.makers import maker, words_for
from mulligan.model.checkpoint import Checkpoint
from mulligan.model.event import PROMPT, Turn, turn_of
from mulligan.model.plan import RestoreReport
from mulligan.present.outcome import about, name_of, outcome_lines
from mulligan.present.text import count, shorten

HELP = """\
/checkpoint                  list the checkpoints
/checkpoint save [NAME]      save one (or: create)
/checkpoint restore NAME     go back to one; `/undo` takes that back
/checkpoint undo             go back to the latest
/undo [N]                    undo the last prompt, restore or tool, or the last N
/redo                        take the last undo back
/help                        this text
/quit                        leave"""
LISTED = 30
_PROMPT = 50


class SlashCommands:
    """The commands over one manager, one ghost stack and one workspace; each may be missing."""

    def __init__(
        self,
        manager: CheckpointManager | None = None,
        ghost: GhostCommitManager | None = None,
        workspace: Workspace | None = None,
        agent: Callable[[str], str] | None = None,
    ) -> None:
        self.manager = manager
        self.ghost = ghost
        self.workspace = workspace
        self.agent = agent

    def run(self, line: str) -> str | None:
        """Returns the answer to a line, None when it asks to leave."""
        word, _, rest = line.strip().partition(" ")
        if word in ("/quit", "/exit", "/q"):
            return None
        if not word:
            return ""
        try:
            if self.agent is not None and not word.startswith("/"):
                return self.agent(line.strip())
            return self._answer(word, rest.strip())
        except KeyError as error:
            return str(error.args[0]) if error.args else "Not found."
        except MulliganError as error:
            return f"{error}\nhint: {error.hint}" if error.hint else str(error)
        except (OSError, ValueError) as error:
            return str(error)

    def _answer(self, word: str, rest: str) -> str:
        if word == "/checkpoint":
            return self.checkpoint(rest)
        if word == "/undo":
            return self.undo(rest)
        if word == "/redo" and self.workspace is not None:
            return self._told(self.workspace.redo(), "Redid", "Redone")
        if word == "/help":
            return HELP
        return f"Unknown command: {word}. /help lists them."

    # -- /checkpoint ----------------------------------------------------------------------------

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
            return self._listed(manager)
        if verb == "restore":
            return self._restored(manager, name) if name else "Usage: /checkpoint restore <name>"
        if verb == "undo":
            return self._latest(manager)
        return f"Unknown checkpoint command: {verb}"

    def _listed(self, manager: CheckpointManager) -> str:
        if self.workspace is None:
            listed = [f"  {info.id}  {info.name}  {info.time_str}" for info in manager.list_checkpoints()]
            return "\n".join(listed) or "No checkpoints."
        found = [each for each in reversed(self.workspace.log()) if each.kind != "safety"]
        earlier = [f"  … and {count(len(found) - LISTED, 'earlier one')}: mulligan log"] if len(found) > LISTED else []
        asked = self._prompts(self.workspace)
        return "\n".join([*earlier, *(_line(each, asked) for each in found[-LISTED:])]) or "No checkpoints."

    @staticmethod
    def _prompts(workspace: Workspace) -> dict[Turn, str]:
        """Returns what was asked for in each turn of an agent."""
        events = [each for each in workspace.agent_events() if each.event.kind == PROMPT]
        return {Turn(each.event.session, each.prompt): each.event.text for each in events}

    def _restored(self, manager: CheckpointManager, name: str) -> str:
        if self.workspace is not None and manager.get(name) is None:
            with suppress(UnknownCheckpoint):  # then the manager has the words for it
                target = self.workspace.get(name)
                return self._told(self.workspace.restore(target), "", f"Restored to checkpoint {words_for(target)}")
        return f"Restored to checkpoint: {manager.restore_by_name(name).name}"

    def _latest(self, manager: CheckpointManager) -> str:
        newest = next(iter(self.workspace.log(limit=1)), None) if self.workspace is not None else None
        if self.workspace is not None and newest is not None:
            target = self.workspace.get("latest")
            return self._told(self.workspace.restore(target), "", f"Undone to checkpoint {words_for(target)}")
        latest = manager.undo()
        return f"Undone to checkpoint: {latest.name}" if latest is not None else "No checkpoints to undo."

    # -- /undo ----------------------------------------------------------------------------------

    def undo(self, rest: str) -> str:
        """Returns the answer to what follows `/undo`."""
        if self.ghost is None and self.workspace is None:
            return "No undo stack active."
        if rest and not (rest.isascii() and rest.isdigit() and int(rest)):
            return "Usage: /undo [n]"
        wanted = int(rest or 1)
        if self.workspace is None and self.ghost is not None:
            return self._undo_tools(self.ghost, wanted)
        said: list[str] = []
        for _ in range(wanted):
            try:
                said.append(self._undo_one())
            except MulliganError as error:
                if not said:
                    raise
                said.append(str(error))  # those before it are undone
                break
        return "\n".join(said)

    def _undo_one(self) -> str:
        """Undoes the newest of both: a tool of the ghost stack, else a turn, restore or step of the timeline."""
        if self.workspace is None:
            return "No undo stack active."
        newest = next((each for each in self.workspace.log() if each.kind != "safety"), None)
        if self.ghost is not None and newest is not None and newest.metadata.get("ghost") and self.ghost.depth:
            return self._undo_tools(self.ghost, 1)
        return self._told(self.workspace.undo(), "Undid", "Undone")

    @staticmethod
    def _undo_tools(ghost: GhostCommitManager, number: int) -> str:
        before = ghost.depth
        lines = ghost.undo(number)
        if not before:
            return "Nothing to undo."
        return "\n".join(lines) or "Nothing to change."

    def _told(self, report: RestoreReport, verb: str, otherwise: str) -> str:
        head = otherwise
        if verb and report.undone is not None and self.workspace is not None:
            name = name_of(report.undone.checkpoint, self.workspace.get)
            head = f"{verb} {about(report.undone, datetime.now(UTC), name)}"
        return "\n".join(outcome_lines(report, head, changed="changed" if verb == "Redid" else "restored"))


def _line(each: Checkpoint, asked: dict[Turn, str]) -> str:
    """Returns one line of the list; a checkpoint of the chat's own has the id that it was given."""
    own = each.metadata.get("dialect") == "chimera"
    shown = str(each.metadata.get("id") or each.short_id) if own else each.short_id
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.created_at.timestamp()))
    turn = turn_of(each)
    prompt = f'prompt {turn.prompt} "{shorten(asked.get(turn, ""), _PROMPT)}"' if turn is not None else ""
    words = each.name or prompt or words_for(each)
    return f"  {shown}  {words}  {when}" + ("" if own else f"  ({maker(each)})")
