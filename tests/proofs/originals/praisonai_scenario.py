"""
One scripted scenario for two services: the original's and ours, each in a process of its own.

    python praisonai_scenario.py MODULE DIRECTORY

runs every scene in a fresh directory and prints one JSON object, scene by scene; an exception is a result too. Uses only
what both offer by the same name, so that the results can be compared word for word.
"""

# ruff: noqa: ASYNC221, ASYNC240 - a scene has its event loop to itself

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SCENES: dict[str, Callable[[Box], Awaitable[Any]]] = {}


class Box:
    """A fresh workspace and the module under test."""

    def __init__(self, module: str, place: Path) -> None:
        self.module = importlib.import_module(f"{module}.service")
        self.types = importlib.import_module(f"{module}.types")
        self.place = place
        self.ws = place / "ws"
        self.ws.mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.ws / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def read(self, name: str) -> str | None:
        path = self.ws / name
        return path.read_bytes().decode() if path.is_file() else None

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.ws)) for path in self.ws.rglob("*") if path.is_file())

    def service(self, workspace: str | None = None, **options: Any) -> Any:
        options = {"storage_dir": str(self.place / "storage"), **options}
        return self.module.CheckpointService(workspace_dir=workspace or str(self.ws), **options)

    async def started(self, **options: Any) -> Any:
        service = self.service(**options)
        assert await service.initialize(), "not initialized"
        return service


def scene(function: Callable[[Box], Awaitable[Any]]) -> Callable[[Box], Awaitable[Any]]:
    SCENES[function.__name__] = function
    return function


def told(result: Any) -> Any:
    return True if result.success else result.error.splitlines()[0]


# -- the same -------------------------------------------------------------------------------------


@scene
async def initialize_and_first_save(box):
    box.write("a", "1")
    service = await box.started()
    result = await service.save("first")
    return [service.is_initialized, told(result), result.checkpoint.message, len(result.checkpoint.short_id)]


@scene
async def save_without_change(box):
    box.write("a", "1")
    service = await box.started()
    await service.save("first")
    return [told(await service.save("again")), told(await service.save("again", allow_empty=True))]


@scene
async def save_in_an_empty_workspace(box):
    return told(await (await box.started()).save("nothing"))


@scene
async def restore_brings_back_changes_additions_and_deletions(box):
    box.write("changed", "1")
    box.write("deleted", "1")
    service = await box.started()
    first = await service.save("first")
    box.write("changed", "2")
    box.write("added", "2")
    (box.ws / "deleted").unlink()
    return [told(await service.restore(first.checkpoint.id)), {name: box.read(name) for name in box.files()}]


@scene
async def restore_by_short_id(box):
    service = await box.started()
    box.write("a", "1")
    first = await service.save("first")
    box.write("a", "2")
    return [told(await service.restore(first.checkpoint.short_id)), box.read("a")]


@scene
async def a_file_in_place_of_a_directory(box):
    service = await box.started()
    box.write("x/inside", "1")
    first = await service.save("first")
    (box.ws / "x/inside").unlink()
    (box.ws / "x").rmdir()
    box.write("x", "now a file")
    await service.save("second")
    return [told(await service.restore(first.checkpoint.id)), box.files()]


@scene
async def list_newest_first(box):
    service = await box.started()
    for number in range(3):
        box.write("a", str(number))
        await service.save(f"m{number}")
    return [each.message for each in await service.list_checkpoints()]


@scene
async def rewind_one_and_two(box):
    found = []
    for steps in (1, 2):
        inner = Box(box.module.__name__.rpartition(".")[0], box.place / str(steps))
        service = await inner.started()
        for number in range(3):
            inner.write("a", f"v{number}")
            await service.save(f"m{number}")
        found += [told(await service.rewind(steps)), inner.read("a")]
    return found


@scene
async def rewind_too_far_and_not_at_all(box):
    service = await box.started()
    for number in range(3):
        box.write("a", f"v{number}")
        await service.save(f"m{number}")
    return [told(await service.rewind(9)), told(await service.rewind(0)), box.read("a")]


@scene
async def rewind_twice_walks_on(box):
    service = await box.started()
    for number in range(3):
        box.write("a", f"v{number}")
        await service.save(f"m{number}")
    await service.rewind(1)
    await service.rewind(1)
    return box.read("a")


@scene
async def rewind_beyond_max_checkpoints(box):
    service = await box.started(max_checkpoints=2)
    for number in range(5):
        box.write("a", f"v{number}")
        await service.save(f"m{number}")
    return [told(await service.rewind(4)), box.read("a")]


@scene
async def steps(box):
    service = await box.started()
    for number in (1, 2):
        box.write("a", f"v{number}")
        await service.save("work", step=number)
    box.write("a", "v3")
    retry = await service.save("[step-1] retry", step=3)
    back = await service.restore(step=1)
    return [
        retry.checkpoint.message, retry.checkpoint.step, told(back), back.checkpoint.step, box.read("a"),
        told(await service.restore(step=99)), told(await service.restore("x", step=1)), told(await service.restore()),
        told(await service.save("x", step=-1)),
    ]  # fmt: skip


@scene
async def uninitialized(box):
    service = box.service()
    diff = await service.diff()
    return [
        told(await service.save("x")), told(await service.restore("x")), told(await service.rewind()),
        await service.list_checkpoints(), await service.get_checkpoint("x"), diff.to_dict(),
    ]  # fmt: skip


@scene
async def refused_workspaces(box):
    home = os.path.expanduser("~")
    chosen = [home, "/", "/tmp", str(box.place / "missing")]
    return [await box.service(each).initialize() for each in chosen] + [await box.service(enabled=False).initialize()]


@scene
async def events_in_order(box):
    service, seen, event = box.service(), [], box.types.CheckpointEvent
    for name in ("INITIALIZED", "CHECKPOINT_CREATED", "CHECKPOINT_RESTORED", "ERROR"):
        service.on(event[name], lambda data, name=name: seen.append(name))

    def broken(data):
        raise RuntimeError("handler")

    service.on(event.CHECKPOINT_CREATED, broken)
    await service.initialize()
    box.write("a", "1")
    first = await service.save("first")
    box.write("a", "2")
    await service.save("second")
    await service.restore(first.checkpoint.id)
    return seen


@scene
async def pruned_events(box):
    service, seen = await box.started(max_checkpoints=3), []
    service.on(box.types.CheckpointEvent.CHECKPOINTS_PRUNED, seen.append)
    ids = []
    for number in range(5):
        box.write("a", str(number))
        ids.append((await service.save(f"m{number}")).checkpoint.id)
    return [seen, await service.get_checkpoint(ids[0]), (await service.get_checkpoint(ids[4])).message]


@scene
async def ignored_and_excluded_files_stay(box):
    box.write(".gitignore", "ignored\n")
    service = await box.started()
    box.write("a", "1")
    first = await service.save("first")
    for name in ("ignored", "x.log", ".env", "node_modules/m", "__pycache__/p.pyc"):
        box.write(name, "mine")
    box.write("a", "2")
    await service.save("second")
    await service.restore(first.checkpoint.id)
    return box.files()


@scene
async def storage_inside_the_workspace(box):
    service = await box.started(storage_dir=str(box.ws / ".cp"))
    box.write("a", "1")
    first = await service.save("first")
    box.write("a", "2")
    await service.save("second")
    return [told(await service.restore(first.checkpoint.id)), box.read("a"), os.path.isdir(service.git_dir)]


@scene
async def git_variables_in_the_environment(box):
    os.environ["GIT_DIR"] = str(box.place / "elsewhere")
    try:
        service = await box.started()
        box.write("a", "1")
        return [told(await service.save("first")), (box.place / "elsewhere").exists()]
    finally:
        del os.environ["GIT_DIR"]


@scene
async def many_saves_at_once(box):
    service = await box.started()
    results = await asyncio.gather(*(service.save(f"m{number}", allow_empty=True) for number in range(6)))
    return [all(result.success for result in results), len({result.checkpoint.id for result in results})]


@scene
async def cleanup_and_delete_all(box):
    service = await box.started()
    box.write("a", "1")
    await service.save("first")
    await service.cleanup()
    ended = service.is_initialized
    await service.initialize()
    return [ended, await service.delete_all(), os.path.exists(service.checkpoint_dir), box.read("a")]


@scene
async def a_failed_diff_is_an_empty_one(box):
    service = await box.started()
    diff = await service.diff("0" * 40)
    return [diff.from_checkpoint, diff.to_checkpoint, diff.files]


# -- where they differ ----------------------------------------------------------------------------


@scene
async def rewind_past_the_first_save(box):
    box.write("precious", "1")
    service = await box.started()
    await service.save("first")
    await service.rewind(1)
    return box.files()


@scene
async def a_bad_id_is_no_checkpoint(box):
    service = await box.started()
    box.write("a", "1")
    await service.save("first")
    box.write("a", "2")
    box.write("untracked", "u")
    result = await service.restore("deadbeef")
    return [result.success, box.read("a"), box.read("untracked"), len(await service.list_checkpoints())]


@scene
async def list_after_a_restore(box):
    service = await box.started()
    for number in range(3):
        box.write("a", str(number))
        await service.save(f"m{number}")
    await service.restore((await service.list_checkpoints())[2].id)
    return [each.message for each in await service.list_checkpoints()]


@scene
async def the_restored_checkpoint_has_its_whole_id(box):
    service = await box.started()
    box.write("a", "1")
    first = await service.save("first")
    box.write("a", "2")
    result = await service.restore(first.checkpoint.short_id)
    return result.checkpoint.id == first.checkpoint.id


@scene
async def a_pipe_in_a_message(box):
    service = await box.started()
    for message in ("plain", "one | two", "three"):
        box.write("a", message)
        await service.save(message)
    return [each.message for each in await service.list_checkpoints()]


@scene
async def several_lines_and_none_in_a_message(box):
    service, found = await box.started(), []
    for message in ("one\ntwo\n\nthree", "", "ünïcode ✓"):
        box.write("a", message + "x")
        result = await service.save(message)
        found.append(result.success and (await service.list_checkpoints(limit=1))[0].message)
    return found


@scene
async def a_relative_directory(box):
    before = os.getcwd()
    os.chdir(box.place)
    try:
        return await box.service("./ws", storage_dir="./storage").initialize()
    finally:
        os.chdir(before)


@scene
async def a_slash_at_the_end_and_a_link(box):
    (box.place / "link").symlink_to(box.ws)
    ways = (str(box.ws), f"{box.ws}/", str(box.place / "link"))
    return len({box.service(way).checkpoint_dir for way in ways})


@scene
async def reopened(box):
    service = await box.started()
    box.write("a", "1")
    first = await service.save("first")
    again = await box.started()
    found = await again.get_checkpoint(first.checkpoint.id)
    return [[each.message for each in await again.list_checkpoints()], found.message if found else None]


@scene
async def statuses_of_a_diff(box):
    for name in ("append", "shrink", "dead", "moved"):
        box.write(name, f"{name}\none\ntwo\n")
    service = await box.started()
    first = await service.save("first")
    box.write("append", "append\none\ntwo\nthree\n")
    box.write("shrink", "shrink\n")
    (box.ws / "dead").unlink()
    (box.ws / "moved").rename(box.ws / "é")
    box.write("empty", "")
    box.write("added", "1\n")
    diff = await service.diff(first.checkpoint.id)
    return {file.path: file.status for file in diff.files}


@scene
async def diff_right_after_a_save(box):
    service = await box.started()
    box.write("a", "1\n")
    await service.save("first")
    return len((await service.diff()).files)


@scene
async def a_nested_repository(box):
    (box.ws / "inner").mkdir()
    subprocess.run(["git", "init", "-q", "inner"], cwd=box.ws, check=True)
    box.write("inner/x", "1")
    service = await box.started()
    first = await service.save("first")
    if not first.success:
        return False
    box.write("inner/x", "2")
    await service.restore(first.checkpoint.id)
    return box.read("inner/x")


@scene
async def modes_and_empty_directories(box):
    box.write("secretive", "1")
    (box.ws / "secretive").chmod(0o600)
    (box.ws / "empty").mkdir()
    service = await box.started()
    first = await service.save("first")
    (box.ws / "secretive").unlink()
    (box.ws / "empty").rmdir()
    await service.restore(first.checkpoint.id)
    return [oct((box.ws / "secretive").stat().st_mode & 0o777), (box.ws / "empty").is_dir()]


@scene
async def exact_bytes_under_gitattributes(box):
    box.write(".gitattributes", "* text eol=lf\n")
    box.write("crlf", "a\r\nb\r\n")
    service = await box.started()
    first = await service.save("first")
    (box.ws / "crlf").unlink()
    await service.restore(first.checkpoint.id)
    return box.read("crlf")


@scene
async def a_file_of_three_mebibytes(box):
    box.write("big", "x" * (3 << 20))
    box.write("a", "1")
    service = await box.started()
    first = await service.save("first")
    box.write("big", "broken")
    await service.restore(first.checkpoint.id)
    return len(box.read("big"))


@scene
async def a_global_configuration_that_signs_commits(box):
    config = Path(os.path.expanduser("~/.gitconfig"))
    config.write_text("[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = /bin/false\n")
    try:
        return await box.service().initialize()
    finally:
        config.unlink()


@scene
async def a_coroutine_as_a_handler(box):
    service, seen = await box.started(), []

    async def later(checkpoint):
        seen.append(checkpoint.message)

    service.on(box.types.CheckpointEvent.CHECKPOINT_CREATED, later)
    box.write("a", "1")
    await service.save("first")
    return seen


@scene
async def list_after_pruning(box):
    service = await box.started(max_checkpoints=3)
    for number in range(5):
        box.write("a", str(number))
        await service.save(f"m{number}")
    return len(await service.list_checkpoints())


@scene
async def the_documents_own_example(box):
    service = await box.started()
    box.write("a", "1")
    first = await service.save("Before refactoring")
    box.write("a", "2")
    second = await service.save("After refactoring")
    diff = await service.diff(first, second)
    await service.restore(first)
    return [box.read("a"), diff.modified_files, len(await service.list()), (await service.get(first)).message]


@scene
async def files_changed(box):
    service = await box.started()
    box.write("a", "1")
    box.write("b", "1")
    return (await service.save("first")).checkpoint.to_dict()["files_changed"]


# -- running --------------------------------------------------------------------------------------


def main(module: str, place: str) -> None:
    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {}
    for name, play in SCENES.items():
        try:
            found[name] = asyncio.run(play(Box(module, Path(place) / name)))
        except Exception as error:  # noqa: BLE001 - a result like any other
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
