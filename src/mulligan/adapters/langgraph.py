"""
LangGraph: our checkpoint beside each of its own.

    files = FilesBeside(InMemorySaver(), mulligan.open("."))
    graph = builder.compile(checkpointer=files.saver)
    graph.invoke(input, config, durability="sync")
    ...
    files.travel(earlier.config)         # the files as they were at that state
    graph.invoke(None, earlier.config, durability="sync")

Use `durability="sync"`: otherwise LangGraph writes its checkpoint while the next node already runs, and the files may be newer.
"""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import Any

from mulligan.adapters.recorder import Recorder
from mulligan.engine.workspace import Workspace
from mulligan.errors import UnknownCheckpoint, UserError
from mulligan.model.event import AFTER, PROMPT
from mulligan.model.plan import RestoreReport

#: In the metadata of LangGraph's checkpoint: the id of ours.
KEY = "mulligan"


class FilesBeside:
    """
    Makes a checkpointer save the files too, and brings them back.

    The checkpointer stays what it is, whichever it is: `put` and `aput` of this one object first save the workspace and then
    note the id of that checkpoint in the metadata of LangGraph's own. Each input of the graph begins a turn, so one `undo`
    takes back what the graph did for it.
    """

    def __init__(self, saver: Any, workspace: Workspace) -> None:
        self.saver = saver
        self.workspace = workspace
        self.recorder = Recorder(workspace, "langgraph")
        self._wrap_put(saver.put)
        self._wrap_aput(saver.aput)

    def _wrap_put(self, put: Any) -> None:
        @wraps(put)
        def with_files(config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            return put(config, checkpoint, self._marked(config, metadata), new_versions)

        self.saver.put = with_files

    def _wrap_aput(self, aput: Any) -> None:
        @wraps(aput)
        async def with_files(config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            marked = await asyncio.to_thread(self._marked, config, metadata)
            return await aput(config, checkpoint, marked, new_versions)

        self.saver.aput = with_files

    def _marked(self, config: Any, metadata: Any) -> Any:
        """Saves the files, if they changed, and returns LangGraph's metadata with the id of the state they are in."""
        if KEY in metadata:
            return metadata  # some savers implement one of the two by the other
        thread = str(config.get("configurable", {}).get("thread_id", ""))
        begins, step = metadata.get("source") == "input", f"step {metadata.get('step')}"
        try:
            if begins:
                self.recorder.record(PROMPT, text=f"thread {thread}")
            else:
                self.recorder.record(AFTER, tool=step, call=f"{thread}-{step}")
            held = self.workspace.position()
        except Exception as error:  # noqa: BLE001 - the graph is never stopped for a mistake of ours
            self.recorder.note(self.recorder.failed(error))
            return metadata
        return {**metadata, KEY: held} if held else metadata

    def travel(self, config: Any) -> RestoreReport:
        """Brings the files back to where they were at a state of the graph; one `undo` takes that back."""
        return self._restore(self.saver.get_tuple(config))

    async def atravel(self, config: Any) -> RestoreReport:
        """The same for savers that only work asynchronously."""
        found = await self.saver.aget_tuple(config)
        return await asyncio.to_thread(self._restore, found)

    def _restore(self, found: Any) -> RestoreReport:
        if found is None:
            raise UserError("LangGraph has no checkpoint there. Nothing was changed.")
        held = found.metadata.get(KEY)
        if not held:
            raise UserError("No files were saved beside that checkpoint of LangGraph. Nothing was changed.")
        try:
            return self.workspace.restore(held)
        except UnknownCheckpoint:
            raise UserError(
                f"The files beside that checkpoint of LangGraph ({held[:8]}) are no longer kept. Nothing was changed.",
                hint="Raise retention.step in your configuration",
            ) from None
