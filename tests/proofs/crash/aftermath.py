"""
After a kill: what must be true of a workspace and its store, at that instant and after the next command.

The verdicts come from the judge, which reads with plain git and `os`; the package is only asked to go on working. `Ground`
is an operation's stage with bystanders in it, and with what the operation comes to when nobody interferes.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from git_scenes import wrong_in_git
from operations import HIDDEN, Operation, Stage

import mulligan
from checker import PORTABLE, disturbed, judge, neither_old_nor_new, view_of
from faults import FailsAlways
from mulligan.safefs import syscalls
from mulligan.state.conversation import Transcript
from scenes import State, state_of
from tree import Entry, entry_at, put
from users_repository import commits, seen

#: Never captured here: a secret, which the configuration says to skip, and what is no file.
SECRET, PIPE = ".env", "pipe"
#: Paths that stay where they are when a checkpoint without them is restored: hidden, or forgotten.
STAYING = frozenset({SECRET, PIPE, *HIDDEN, "sub", "d", "d/secret", "d/e", "d/e/f"})
_THOROUGH_EVERY = 5


def configure_secrets(how: str) -> None:
    """Says in the user's configuration what becomes of secrets; a restore must not touch them where they are skipped."""
    place = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "mulligan")
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(f'[capture]\nsecrets = "{how}"\n')


class Ground(Stage):
    """A stage, the state the operation finds, and the one it leaves."""

    def __init__(self, base: Path, name: str, operation: Operation, *, user: int | None = None) -> None:
        self.name, self._user = name, None
        configure_secrets("seal" if operation.seals else "skip")
        super().__init__(base, operation)
        self.project, self.store = self.place.project, self.place.store
        self.reset().close()
        self.act()  # whoever comes next may not be allowed to read the modules that it needs
        self.go_on()
        self._user = user
        self.reset().close()
        with self.as_user():
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Runs the operation once with nobody interfering."""
        operation = self.operation
        self.old, self.git_old, self.talk_old = self.state(), self.git(), self.talk()
        self.made = commits(self.project) if operation.git else set()
        self.act()
        self.new, self.git_new, self.held_new = self.state(), self.git(), view_of(self.store).checkpoints()
        self.talk_new = self.talk()
        wrong = judge(self.store, self.project)
        assert not wrong, f"{self.name} without a kill: {wrong}"

    @contextmanager
    def as_user(self) -> Iterator[None]:
        """What happens inside is done by the user, and on the kind of file system, that the stage was made for."""
        lacking = self.operation.lacking
        system = FailsAlways(errno.ENOSYS, *lacking) if lacking else syscalls.calls
        if self._user is not None:
            from isal import isal_zlib  # noqa: F401 - who is not root may not be able to read where this Python is

            os.seteuid(self._user)
        try:
            with syscalls.using(system):
                yield
        finally:
            if self._user is not None:
                os.seteuid(0)

    def reset(self) -> Any:
        """Puts everything back to the beginning, the bystanders too, and returns the workspace."""
        doing = os.geteuid()
        if self._user is not None:
            os.seteuid(0)
        ws = super().reset()
        put(self.place.project, SECRET, "TOKEN=1\n", perm=0o600)
        os.mkfifo(self.place.project / PIPE, 0o640)
        if self._user is not None:
            for path in (self.place.home.parent, self.place.home, *self.place.home.rglob("*")):
                os.chown(path, self._user, -1, follow_symlinks=False)
        os.seteuid(doing)
        self.bystanders = self._bystanders()
        return ws

    def _bystanders(self) -> dict[str, Entry]:
        return {name: entry_at(os.fsencode(self.place.project / name)) for name in (SECRET, PIPE)}

    def open(self) -> Any:
        """A workspace as the next process has it, with the conversation that belongs to it."""
        ws = self.place.open()
        if self.operation.talks:
            ws.provide("conversation", Transcript(self.place.chat))
        return ws

    def act(self) -> None:
        """Runs the operation, as a process of its own would."""
        with self.place.open() as ws:
            self.operation.act(ws, self.place)

    def go_on(self, how: str = "save") -> None:
        """The next command: it ends what was cut short."""
        with self.open() as ws:
            if self.operation.talks:
                ws.settle_state()  # the first thing that a program with a conversation does
            if self.operation.heals and not self._is_adopted():
                self.operation.act(ws, self.place)
            elif how == "gc" and (self.store / "timeline.db").exists():
                ws.prune()
            elif how == "doctor" and self.store.exists():
                assert ws.doctor().ok
            else:
                ws.save("after")

    def _is_adopted(self) -> bool:
        """Whether a history that was to be adopted is: any command works, and there is nothing left to adopt."""
        if not self.name.startswith("adopt") or (self.place.home / "elsewhere").exists():
            return False
        try:
            with self.place.open() as ws:
                return bool(ws.log())
        except mulligan.UserError:
            return False

    def state(self) -> State:
        """The workspace without its bystanders."""
        return {path: node for path, node in state_of(self.project).items() if path not in (SECRET, PIPE)}

    def plain(self, state: State) -> State:
        """What of a state is in the tree of its checkpoint: all but what is sealed."""
        sealed = ".env" if self.operation.seals else "\0"
        return {path: node for path, node in state.items() if not path.rpartition("/")[2].startswith(sealed)}

    def git(self) -> dict[Any, bytes] | None:
        """What git says, where the operation moves it."""
        return seen(self.project) if self.operation.git else None

    def talk(self) -> bytes | None:
        """The conversation, where it goes back with the files."""
        return self.place.chat.read_bytes() if self.operation.talks else None

    def litter(self) -> int:
        """How many temporary files there are now."""
        ours = sum(path.rpartition("/")[2].startswith(".mulligan-") for path in state_of(self.project))
        tmp = self.store / "tmp"
        return ours + (len(os.listdir(tmp)) if tmp.is_dir() else 0)


class Aftermath:
    """One look at everything after a kill; `seconds` is how long the next command took. `saved`: one came between already."""

    def __init__(self, ground: Ground, rng: random.Random, *, died: bool, saved: bool = False) -> None:
        self.ground, self.died = ground, died
        self._saved = saved
        self.how = rng.choice(("save", "save", "gc", "doctor"))
        self.thorough = not rng.randrange(_THOROUGH_EVERY)
        self.seconds = 0.0
        self.litter = ground.litter()

    def wrong(self) -> list[str]:
        """Whatever is not as it must be."""
        try:
            found = [f"at that instant: {line}" for line in self._at_once()]
            self._go_on()
            found += self._at_rest()
            return [f"{line} [next: {self.how}]" for line in found]
        except Exception as error:  # noqa: BLE001 - whatever it is, the next command must not end so
            return [f"the next command ({self.how}): {type(error).__name__}: {error}"]

    # -- at that instant ------------------------------------------------------------------------

    def _at_once(self) -> Iterator[str]:
        ground = self.ground
        aside = PORTABLE or bool(ground.operation.lacking)
        yield from neither_old_nor_new(ground.state(), ground.old, ground.new, aside=aside)
        yield from disturbed({**ground._bystanders()}, {**ground.bystanders})
        if not ground.operation.heals:
            view = view_of(ground.store)
            yield from judge(ground.store, ground.project, with_fsck=False, at_rest=False, view=view)
            yield from self._checkpoints(view.checkpoints())

    def _checkpoints(self, now: dict[str, State]) -> Iterator[str]:
        """Each checkpoint is as it was or as the operation makes it; a new one is whole; none is lost."""
        ground = self.ground
        states = [
            ground.plain(ground.old),
            ground.plain(ground.new),
            *(files for name, files in ground.held_new.items() if name not in ground.known),
        ]
        for name, files in ground.known.items():
            after = ground.held_new.get(name)
            if name not in now and after is not None:
                yield f"checkpoint {name} is gone"
            elif name in now and now[name] not in (files, after):
                yield f"checkpoint {name} holds other files: {_differing(now[name], files)}"
        for name in now.keys() - ground.known.keys():
            if now[name] not in states:
                yield f"checkpoint {name}, new, is not whole: {_differing(now[name], ground.old)}"

    # -- the next command -----------------------------------------------------------------------

    def _go_on(self) -> None:
        """Reading commands work as things are, and then one that writes; nobody helps."""
        ground = self.ground
        began = time.perf_counter()
        if not ground.operation.heals:
            with ground.place.open() as ws:
                ws.log()
                ws.status()
        ground.go_on(self.how)
        self.seconds = time.perf_counter() - began
        self._saved |= self.how == "save"

    def _at_rest(self) -> Iterator[str]:
        ground, now = self.ground, self.ground.state()
        new, view = now == ground.new, view_of(self.ground.store)
        held = view.checkpoints()
        if now not in (ground.old, ground.new):
            yield f"neither old nor new after the next command; not new: {_differing(now, ground.new)}"
        if not self.died:
            yield from self._acknowledged(held, new=new)
        yield from disturbed({**ground._bystanders()}, {**ground.bystanders})
        yield from judge(ground.store, ground.project, with_fsck=self.thorough, view=view)
        yield from self._checkpoints(held)
        if ground.operation.git:
            yield from self._git(new=new)
        if ground.operation.heals:
            yield from (f"checkpoint {name} is not healed" for name in ground.held_new if name not in held)
        yield from self._talk(new=new)
        if new and ground.old != ground.new and ground.plain(ground.old) not in held.values():
            yield "what was unsaved is in no checkpoint"
        yield from self._goes_on_working(held, new=new)

    def _acknowledged(self, held: dict[str, State], *, new: bool) -> Iterator[str]:
        ground = self.ground
        if not new:
            yield "acknowledged, and the workspace is not new"
        made = [files for name, files in ground.held_new.items() if name not in ground.known]
        yield from ("acknowledged, and its checkpoint is not there" for files in made if files not in held.values())
        for name in ground.known.keys() - ground.held_new.keys():
            if name in held:
                yield f"acknowledged, and checkpoint {name} is still there"

    def _git(self, *, new: bool) -> Iterator[str]:
        ground = self.ground
        wanted = (ground.git_new if new else ground.git_old) or {}
        yield from wrong_in_git(ground.project, wanted, ground.made, f"files are {'new' if new else 'old'}")

    def _talk(self, *, new: bool) -> Iterator[str]:
        """A conversation goes with its files; alone, it is old or new."""
        ground, now = self.ground, self.ground.talk()
        if now not in (ground.talk_old, ground.talk_new):
            yield f"the conversation is neither old nor new: {now!r}"
        elif ground.old != ground.new and now != (ground.talk_new if new else ground.talk_old):
            yield f"files are {'new' if new else 'old'}, the conversation is not"

    def _goes_on_working(self, held: dict[str, State], *, new: bool) -> Iterator[str]:
        """What was done can be taken back, and an old checkpoint restored, exactly."""
        ground = self.ground
        undone = ground.name.startswith(("undo", "session-undo"))
        # A save ends what can be redone, and after a turn it is an operation of its own.
        over = self._saved and (undone or ground.name == "redo-turn")
        with ground.open() as ws:
            if ground.name == "recognise":
                # Killed before it was noted, this is still another directory, and a restore is refused until it is repeated.
                ground.operation.act(ws, ground.place)
            if new and ground.old != ground.new and not ground.operation.heals and not over:
                (ws.redo if undone else ws.undo)()
                if ground.state() != ground.old:
                    yield f"it cannot be taken back: {_differing(ground.state(), ground.old)}"
                if ground.talk() != ground.talk_old:
                    yield "the conversation cannot be taken back"
            if self.thorough and (name := next((name for name in ground.known if name in held), "")):
                ws.restore(name)
                if odd := set(_differing(ground.plain(ground.state()), held[name])) - STAYING:
                    yield f"a restore is not exact: {sorted(odd)}"
            if self.thorough and (problems := ws.check().problems):
                yield f"check: {problems}"


def _differing(one: State, other: State) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
