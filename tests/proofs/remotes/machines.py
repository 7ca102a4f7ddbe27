"""
Several machines push, pull, forget, expire and collect at random, are killed at any request, and have their connections cut.

    python tests/proofs/remotes/machines.py [--size N] [--seed N] [--through git|sealed|bucket] [--build NAME]

Each history has 2 or 5 machines on one remote (a git daemon, encrypted or not, or an object store by moto). About 2 of 5 pushes,
pulls and collections are killed before or after a random request, and as many have their connection cut at a random byte, in
either direction, once or until the command ends. A model knows what each machine saved. At the end all of them push and pull,
and a new clone is made. About half of the clones are lazy, and fetch contents in between. An object store keeps the first half
of what about half of the killed requests were writing; on a git server, git itself is killed somewhere in half of them. Then: no saved checkpoint is lost or changed, nothing forgotten came back,
every store passes our check and `git fsck`.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import mulligan
from cutting import Cutter, cutter
from fleet import bare_repository, check_store, git_daemon, object_store
from loose_builds import replaced
from mulligan.errors import MulliganError, RemoteDamaged, RemoteFailed, UnknownPath
from mulligan.remotes import bucket, gitserver, pull
from mulligan.remotes.clone import clone_into, make_empty
from mulligan.remotes.records import RemoteRecords
from tally import Tally, parser, workplace

PATHS = ("a", "b", "dir/c", "dir/d")
STEPS = 28
_UNTOUCHED = ("Your checkpoints here are untouched", "Nothing was changed")
#: A git server, one that cannot read what it keeps, an object store.
WAYS = ("git", "sealed", "bucket")


class Killed(BaseException):
    """The process is gone."""


class Killer:
    """Counts requests to the storage and ends the process before or after one of them, or cuts the connection."""

    def __init__(self) -> None:
        self.left, self.after, self.kills, self.cuts, self.halves = -1, False, 0, 0, 0
        self.at_segment = self.half = False
        self.delay = 0.0
        self.requests = 8  # about as many as a push or pull has
        self.unreadable: set[str] = set()  # whose last segment is there in part
        self.relay: Cutter | None = None

    def around(self, real: Callable) -> Callable:
        def request(*args, **more):
            if self.at_segment and real.__name__ == "create" and args[1].startswith("log/"):
                self.kills += 1
                raise Killed
            if self.left < 0:
                return real(*args, **more)
            self.left -= 1
            if self.left >= 0:
                return real(*args, **more)
            self.kills += 1
            if self.half and real.__name__ in ("create", "put") and isinstance(args[2], bytes):
                self._keep_half(real, *args)
            elif self.half and real.__name__ == "run":
                self._kill_git(real, *args, **more)
            elif self.after:
                real(*args, **more)
            raise Killed

        return request

    def _kill_git(self, run: Callable, *args, **more) -> None:
        """Kills git itself after some milliseconds, so that it cannot clean up."""
        self.halves += 1
        started = subprocess.Popen

        def start(*words, **options):
            process = started(*words, **options)
            threading.Timer(self.delay, process.kill).start()
            return process

        with replaced(gitserver.subprocess, Popen=start), suppress(RemoteFailed):
            run(*args, **more)

    def _keep_half(self, write: Callable, objects: bucket.BucketObjects, key: str, data: bytes) -> None:
        self.halves += 1
        if write(objects, key, data[: len(data) // 2]) is True and key.startswith("log/"):
            self.unreadable.add(key.split("/")[1])

    @contextmanager
    def armed(self, chance: random.Random) -> Iterator[None]:
        what, before = chance.random(), self.relay.cuts
        if what < 0.4:
            self.left, self.after, self.half = (
                chance.randrange(self.requests),
                chance.random() < 0.5,
                chance.random() < 0.5,
            )
            self.delay = chance.random() * 0.06
        elif what < 0.8:
            after = chance.randrange(chance.choice((300, 3000, 12000)))
            self.relay.arm(after, stays=chance.random() < 0.3, resets=chance.random() < 0.5)
        try:
            yield
        except Killed:
            pass
        except RemoteFailed as error:
            if self.relay.cuts == before or not any(said in error.message for said in _UNTOUCHED):
                raise
        finally:
            self.left = -1
            self.relay.disarm()
            self.cuts += self.relay.cuts - before

    @contextmanager
    def before_segment(self) -> Iterator[None]:
        """Ends the process when its packs are sent and the segment that names them is not."""
        self.at_segment = True
        try:
            yield
        except Killed:
            pass
        finally:
            self.at_segment = False


class Machine:
    """One store, and what the model knows of it."""

    def __init__(self, place: Path, name: str) -> None:
        self.name, self.root = name, place / name
        self.ws: mulligan.Workspace | None = None
        self.store = place / f"{name}.store"
        self.saved: dict[str, dict[str, str]] = {}
        self.applied: set[str] = set()

    def open(self) -> mulligan.Workspace:
        if self.ws is None:
            self.ws = mulligan.open(self.root, store=self.store)
        return self.ws

    def id(self) -> str:
        """By which its chain is called."""
        with self.open().bench.reading() as store:
            return RemoteRecords(store).machine()

    def restart(self) -> None:
        """What a kill leaves: nothing in memory."""
        if self.ws is not None:
            self.ws.close()
        self.ws = None


class History:
    """One random history."""

    def __init__(self, place: Path, url: str, seed: int, killer: Killer, *, encrypted: bool) -> None:
        self.random, self.place, self.url, self.killer = random.Random(seed), place, url, killer
        self.is_bucket, self.encrypted = url.startswith("s3:"), encrypted
        count = self.random.choice((2, 2, 5))
        self.machines = [Machine(place, f"m{number}") for number in range(count)]
        self.tokens = 0
        self.made: dict[str, frozenset[str]] = {}  # by checkpoint: what its machine had forgotten when it was made
        self.first: dict[str, set[str]] = {}  # by checkpoint: the files that it held when it was made
        self.story: list[str] = []
        self.wrong: list[str] = []
        self.fetched = 0

    def run(self) -> None:
        first = self.machines[0]
        first.root.mkdir(parents=True)
        for _ in range(self.random.choice((1, 3))):
            self._save(first)
        first.open().remotes.add("hub", self.url, machine=first.name, encrypt=self.encrypted)
        first.ws.remotes.push("hub")
        for machine in self.machines[1:]:
            make_empty(str(machine.root))
            clone_into(machine.open(), self.url, machine=machine.name, lazy=self.random.random() < 0.5)
            self._learn(machine)
        steps = [self._save] * 6 + [self._push] * 6 + [self._pull] * 5 + [self._fetch] * 4 + [self._delete, self._forget, self._restore, self._local_gc, self._anew, self._collect, self._collect_between]  # fmt: skip
        for _ in range(STEPS):
            machine = self.random.choice(self.machines)
            step = self.random.choice(steps)
            self.story.append(f"{machine.name} {step.__name__}")
            step(machine)
            self._compare_own(machine)
        self._settle()

    def _name(self, machine: Machine) -> str:
        return machine.open().remotes.list()[0].name

    # -- steps ----------------------------------------------------------------------------------

    def _save(self, machine: Machine) -> None:
        for path in self.random.sample(PATHS, self.random.choice((1, 1, 2))):
            self.tokens += 1
            token = f"token-{self.tokens}-{machine.name}"
            target = machine.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(token * self.random.choice((1, 40)))
        kind = self.random.choice(("manual", "manual", "automatic"))
        machine.open().save(f"{machine.name}-{len(self.story)}", kind=kind)
        self._learn(machine)

    def _learn(self, machine: Machine) -> None:
        """Takes what is there for what must stay: made by a verb that the model does not follow."""
        ws = machine.open()
        self._known_applied(machine)
        own = {each.id: each for each in ws.log() if not each.machine}
        for name in machine.saved.keys() - own.keys():
            del machine.saved[name]  # expired by retention, or deleted
        for name, each in own.items():
            if name not in machine.saved:
                machine.saved[name] = contents(ws, each)
                self.made[name] = frozenset(machine.applied)
                self.first[name] = set(machine.saved[name])

    def _push(self, machine: Machine) -> None:
        with self.killer.armed(self.random):
            self._send(machine)
            return
        machine.restart()

    def _anew(self, machine: Machine) -> None:
        with self.killer.armed(self.random):
            self._send(machine, full=True)
            return
        machine.restart()

    def _send(self, machine: Machine, **options) -> None:
        machine.open().remotes.push(self._name(machine), **options)
        self.killer.unreadable.discard(machine.id())

    def _pull(self, machine: Machine) -> None:
        with self.killer.armed(self.random):
            report = machine.open().remotes.pull(self._name(machine), everything=self.random.random() < 0.1)
            self._note_refused(machine, report)
            self._compare_forgotten(machine)
            return
        machine.restart()

    def _note_refused(self, machine: Machine, report: pull.PulledReport) -> None:
        """Nothing may be refused but a chain whose end is there in part, until its machine has pushed again."""
        torn = {each[:8] for each in self.killer.unreadable}
        if refused := [each for each in report.refused if each[0] not in torn]:
            self.wrong.append(f"{machine.name} refused {refused[:2]}")

    def _delete(self, machine: Machine) -> None:
        ws = machine.open()
        mine = [each for each in ws.log() if not each.machine]
        if len(mine) > 2:
            ws.delete(self.random.choice(mine[1:]))
        self._learn(machine)

    def _forget(self, machine: Machine) -> None:
        path = self.random.choice(PATHS)
        try:
            machine.open().forget(path)
        except UnknownPath:
            return
        self._known_applied(machine)
        for files in machine.saved.values():
            files.pop(path, None)

    def _restore(self, machine: Machine) -> None:
        others = [each for each in machine.open().log() if each.machine]
        if others:
            with suppress(RemoteDamaged):  # contents that a lazy clone does not have, and that are gone there
                machine.ws.restore(self.random.choice(others))
            self._learn(machine)

    def _fetch(self, _machine: Machine) -> None:
        """Some lazy clone reads a checkpoint whose contents are only on the remote; one that is gone there is refused."""
        lacking = [(each, row) for each in self.machines for row in each.open().log() if row.held_by]
        if not lacking:
            return
        machine, row = self.random.choice(lacking)
        with self.killer.armed(self.random):
            with suppress(RemoteDamaged):  # deleted or rewritten there since the last pull
                machine.ws.contents(row)
                self.fetched += 1
            return
        machine.restart()

    def _local_gc(self, machine: Machine) -> None:
        machine.open().prune()

    def _collect(self, machine: Machine) -> None:
        if not self.is_bucket:
            return
        for _ in range(2):
            try:
                with self.killer.armed(self.random):
                    machine.open().remotes.collect(self._name(machine), grace_hours=0)
            except RemoteFailed as error:
                if "collecting" not in error.message and not self.killer.unreadable:
                    raise

    def _collect_between(self, machine: Machine) -> None:
        """A push ends after its packs were sent; a collection takes them, since nothing names them; the push goes on."""
        if not self.is_bucket:
            return
        self._save(machine)
        with self.killer.before_segment():
            machine.open().remotes.push(self._name(machine))
        machine.restart()
        other = self.random.choice(self.machines)
        for _ in range(self.random.choice((1, 2, 2))):
            try:
                other.open().remotes.collect(self._name(other), grace_hours=0)
            except RemoteFailed as error:
                if "collecting" not in error.message and not self.killer.unreadable:
                    raise
        self._send(machine)

    # -- what must hold -------------------------------------------------------------------------

    def _known_applied(self, machine: Machine) -> None:
        with machine.open().bench.reading() as store:
            machine.applied = {note.what.id for note in RemoteRecords(store).forgotten() if note.applied}

    def _compare_own(self, machine: Machine) -> None:
        ws = machine.open()
        own = {each.id for each in ws.log() if not each.machine}
        lost = machine.saved.keys() - own
        if lost:
            self.wrong.append(f"{machine.name} lost {len(lost)} of its own checkpoints")
            self._learn(machine)

    def _compare_forgotten(self, machine: Machine) -> None:
        """No copy holds a path that was forgotten, unless its machine saved it after it had forgotten it too."""
        self._known_applied(machine)
        ws = machine.open()
        with ws.bench.reading() as store:
            notes = [note.what for note in RemoteRecords(store).forgotten()]
        for each in ws.log():
            if each.machine:
                # Of a row whose contents are on the remote, the names that it shows, but for those that it says were deleted.
                held = contents(ws, each) if not each.held_by else self.first[each.id].intersection(each.files_changed)
                for what in notes:
                    if what.path in held and what.id not in self.made[each.id]:
                        self.wrong.append(
                            f"{machine.name} has {what.path} of {each.machine} again, which was forgotten"
                        )

    def _settle(self) -> None:
        """All machines push and pull until nothing is new; then everybody has what the others have."""
        for round_ in range(3):
            for machine in self.machines:
                self._send(machine)
            for machine in self.machines:
                report = machine.open().remotes.pull(self._name(machine))
                self._note_refused(machine, report)
                self._compare_forgotten(machine)
                for path in report.forgotten if round_ < 2 else ():
                    machine.ws.forget(path)
                    for files in machine.saved.values():
                        files.pop(path, None)
        make_empty(str(self.place / "new"))
        fresh = mulligan.open(self.place / "new", store=self.place / "new.store")
        clone_into(fresh, self.url, machine="new", lazy=self.random.random() < 0.5)
        for machine in self.machines:
            self._compare_own(machine)
            for reader in (*(other.ws for other in self.machines if other is not machine), fresh):
                self._compare_copies(machine, reader)
            check_store(machine.ws)
        check_store(fresh)
        fresh.close()
        for machine in self.machines:
            machine.restart()

    def _compare_copies(self, machine: Machine, reader: mulligan.Workspace) -> None:
        copies = {each.id: each for each in reader.log() if each.machine == machine.name}
        for name in machine.saved:
            mine = contents(machine.ws, machine.ws.get(name))
            if mine != machine.saved[name]:
                self.wrong.append(f"{machine.name} has {name} with other files than it saved")
            if name not in copies:
                self.wrong.append(f"a copy of {name} of {machine.name} is missing in {Path(reader.root).name}")
            elif contents(reader, copies[name]) != mine:
                theirs = contents(reader, copies[name])
                paths = sorted(path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path))
                self.wrong.append(
                    f"a copy of {name} of {machine.name} differs in {Path(reader.root).name}: {[(p, p in mine, p in theirs) for p in paths]}"
                )
        if extra := copies.keys() - machine.saved.keys():
            self.wrong.append(
                f"{len(extra)} deleted checkpoints of {machine.name} are still in {Path(reader.root).name}"
            )


def contents(ws: mulligan.Workspace, checkpoint: mulligan.Checkpoint) -> dict[str, str]:
    """The files of a checkpoint."""
    return {path: ws.cat(checkpoint, path).decode() for path in ws.contents(checkpoint).added}


# -- builds that are known to be bad ----------------------------------------------------------------


def _segment_first(real: Callable) -> Callable:
    def send(self, segment, base, before):
        kept = []
        create, put = self.objects.create, self.objects.put

        def late(how):
            def write(key, data):
                if not key.startswith("packs/"):
                    return create(key, data)
                kept.append((how, key, data if isinstance(data, bytes) else b"".join(data)))
                return True

            return write

        self.objects.create, self.objects.put = late(create), late(put)
        try:
            mark = real(self, segment, base, before)
        finally:
            self.objects.create, self.objects.put = create, put
        for how, key, data in kept:
            how(key, data)
        return mark

    return send


BUILDS = {
    "": lambda: replaced(bucket.Bucket),
    "segment-first": lambda: replaced(bucket.Bucket, send=_segment_first(bucket.Bucket.send)),
    "keeps-the-forgotten": lambda: replaced(pull.Puller, _cut=lambda _self, _records, entry, *_: entry),
    "names-a-collected-pack": lambda: replaced(bucket.Bucket, _is_there=lambda *_: True),
    "tells-no-deletions": lambda: replaced(pull.Puller, _go=lambda *_: 0),
}


def main() -> int:
    options = parser(__doc__, 6)
    options.add_argument("--through", choices=(*WAYS, "all"), default="all")
    options.add_argument("--build", choices=BUILDS, default="")
    args = options.parse_args()
    tally, killer = Tally("machines", args.size, enough=args.enough), Killer()
    with ExitStack() as stack:
        place = stack.enter_context(workplace(args.base))
        os.environ["XDG_DATA_HOME"] = str(place / "data")
        (place / "srv").mkdir()
        relays = {}
        if args.through != "bucket":
            server = stack.enter_context(git_daemon(place / "srv"))
            relays["git"] = relays["sealed"] = stack.enter_context(cutter(int(server.rpartition(":")[2])))
        if args.through in ("bucket", "all"):
            os.environ.update(stack.enter_context(object_store()))
            relay = relays["bucket"] = stack.enter_context(
                cutter(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]))
            )
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{relay.port}"
            for name in ("create", "put", "get", "download", "listed", "below", "delete"):
                stack.enter_context(
                    replaced(bucket.BucketObjects, **{name: killer.around(getattr(bucket.BucketObjects, name))})
                )
        stack.enter_context(replaced(gitserver.GitServer, run=killer.around(gitserver.GitServer.run)))
        stack.enter_context(BUILDS[args.build]())
        seed = args.seed
        while not tally.over:
            where = place / f"h{seed}"
            where.mkdir()
            way = args.through if args.through != "all" else WAYS[seed % len(WAYS)]
            killer.relay, killer.requests = relays[way], 8 if way == "bucket" else 3
            url = f"s3://bucket/h{seed}" if way == "bucket" else f"git://127.0.0.1:{killer.relay.port}/h{seed}.git"
            if way != "bucket":
                bare_repository(place / "srv" / f"h{seed}.git")
            history = History(where, url, seed, killer, encrypted=way != "git")
            kills, cuts, halves = killer.kills, killer.cuts, killer.halves
            killer.unreadable.clear()
            try:
                history.run()
            except (MulliganError, AssertionError, KeyError) as error:
                history.wrong.append(
                    f"{type(error).__name__}: {error} {traceback.format_exc(limit=-4) if args.enough < 9 else ''}"
                )
            for line in dict.fromkeys(history.wrong):
                tally.broke(
                    f"seed {seed} ({way}): {line}; {len(history.story)} steps"
                    + (f"\n{history.story}" if args.enough < 3 else "")
                )
            tally.did(
                machines=len(history.machines),
                steps=len(history.story),
                kills=killer.kills - kills,
                cuts=killer.cuts - cuts,
                halves=killer.halves - halves,
                fetches=history.fetched,
                **{f"through {each}": int(each == way) for each in WAYS},
            )
            shutil.rmtree(where, ignore_errors=True)
            shutil.rmtree(place / "srv" / f"h{seed}.git", ignore_errors=True)
            seed += 1
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
