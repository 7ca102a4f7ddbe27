"""
Any git server as a remote, through the installed git.

Git runs in the remote's directory inside the store, with the user's own configuration (credential helpers, ssh, proxies) and
nothing of the workspace's. Each machine has one ref. Each push adds one commit to it, whose parents are the commit before, a
checkpoint that the server has (so that git sends only what differs) and the new checkpoints, and whose tree holds `segment.json`
and, below `log/`, the segments before it. So the last commit alone, without its parents, is enough to list a machine's history.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from mulligan.errors import GitMissing, RemoteDamaged, RemoteFailed
from mulligan.model.objects import (
    AUTHOR,
    BLOB,
    COMMIT,
    MODE_DIR,
    MODE_FILE,
    TREE,
    TreeEntry,
    encode_tree,
    parse_tree,
)
from mulligan.remotes.chain import Arrived, Diverged, torn, walk_chain
from mulligan.remotes.protocol import LARGEST_SEGMENT, Segment, decode, digest_of, is_id
from mulligan.remotes.records import HIDDEN, VISIBLE, ChainMark, RemoteNote
from mulligan.remotes.spool import Spool
from mulligan.remotes.urls import shown
from mulligan.remotes.words import Incomplete, NotServed, RefBehind, RefDeclined, git_trouble
from mulligan.settings.variables import environment

_SEGMENT, _LOG = b"segment.json", b"log"
# Segments per directory of `log/`: a push rewrites one of them.
_PER_GROUP = 100
#: The ref beside the chains that only an encrypted timeline has.
KEYS = "keys"
_MOST_SEGMENTS = 1_000_000
_PROGRESS = re.compile(rb"(\d+)% \((\d+)/(\d+)\)")


def choose_timeline(remote: RemoteNote, found: dict[str, list[str]], wanted: str) -> str:
    """Returns the timeline that a clone means; raises RemoteFailed."""
    chosen = [each for each in found if each.startswith(wanted)]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        what = f"no timeline {wanted}" if wanted else "no timeline of mulligan's"
        raise RemoteFailed(
            f"There is {what} at {shown(remote.url)}. Nothing was made.", hint="Push one there first: mulligan push"
        )
    listed = ", ".join(f"{each[:12]} ({len(found[each])} machines)" for each in chosen)
    raise RemoteFailed(
        f"{shown(remote.url)} holds several timelines: {listed}. Nothing was made.", hint="Name one: --timeline ID"
    )


class GitServer:
    """One git server."""

    _apart: tuple[str, ...] = ()
    _segment_name = _SEGMENT

    def __init__(
        self, remote: RemoteNote, spool: Spool, timeline: str, progress: Callable[[str, int, int], None] | None
    ) -> None:
        self.remote, self.spool, self.timeline = remote, spool, timeline
        self._progress = progress
        self.faults: dict[str, str] = {}
        self.torn: dict[str, str] = {}

    # -- running git ----------------------------------------------------------------------------

    def run(self, *words: str, label: str = "") -> bytes:
        """Runs git in the remote's directory and returns what it printed; raises RemoteFailed in plain words."""
        own = {
            name: value for name, value in environment().items() if not name.startswith("GIT_") or name in _HANDED_ON
        }
        own |= {
            "GIT_DIR": self.spool.path,
            "LC_ALL": "C",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_ALLOW_PROTOCOL": "http:https:ssh:git:file",
        }
        if self._progress is None:  # there is no terminal
            own["GIT_TERMINAL_PROMPT"] = "0"
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of words, never a shell
                ["git", "-c", "core.hooksPath=/dev/null", *words],  # noqa: S607 - the user's own git, wherever it is
                cwd=self.spool.path, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except FileNotFoundError:
            raise GitMissing(
                "git is not installed, and this remote is a git server. Nothing was sent.", hint="Install git."
            ) from None
        with process:
            try:
                said = b"".join(self._told(process, label)) if label and self._progress else b""
                out, err = process.communicate()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if process.returncode:
            if b".lock': File exists" in said + err and self.spool.unlock():
                return self.run(*words, label=label)
            raise git_trouble(self.remote, (said + err).decode("utf-8", "replace"), out.decode("utf-8", "replace"))
        return out

    def _told(self, process: subprocess.Popen[bytes], label: str) -> Iterator[bytes]:
        """Hands git's own progress on."""
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        line = b""
        while piece := process.stderr.read1(4096):  # type: ignore[attr-defined]
            yield piece
            line = (line + piece)[-200:]
            if (found := list(_PROGRESS.finditer(line))) and self._progress:
                self._progress(label, int(found[-1][2]), int(found[-1][3]))

    # -- asking ---------------------------------------------------------------------------------

    def timelines(self) -> dict[str, dict[str, str]]:
        """Returns every timeline on the server: its machines, and where their chains end."""
        return self._listed()[0]

    def _listed(self) -> tuple[dict[str, dict[str, str]], dict[str, str], set[str]]:
        """Returns the timelines, below which refs each is, and which of them are encrypted."""
        found: dict[str, dict[str, str]] = {}
        places: dict[str, str] = {}
        sealed = set[str]()
        for line in self.run("ls-remote", "--refs", "--", self.remote.url, f"{HIDDEN}/*", f"{VISIBLE}/*").splitlines():
            tip, _, name = line.decode("utf-8", "replace").partition("\t")
            *above, timeline, machine = name.split("/")
            if is_id(timeline) and (is_id(machine) or machine == KEYS) and re.fullmatch("[0-9a-f]{40}", tip):
                machines = found.setdefault(timeline, {})
                places[timeline] = "/".join(above)
                if machine == KEYS:
                    sealed.add(timeline)
                else:
                    machines[machine] = tip
        return found, places, sealed

    def begin(self) -> RemoteNote:
        """Finds out what the server allows, and returns the remote with that."""
        found, _, sealed = self._listed()
        if self.timeline in found and (self.timeline in sealed) is not self.remote.encrypted:
            how, option = ("encrypted", "--encrypt") if self.timeline in sealed else ("not encrypted", "--plain")
            raise RemoteFailed(
                f"This timeline is {how} at {shown(self.remote.url)}. Nothing was changed.",
                hint=f"mulligan remote add {self.remote.name} URL {option}; or use another repository.",
            )
        return self.remote._replace(place=self._place())

    def join(self, timeline: str) -> tuple[RemoteNote, str]:
        """Returns the remote and the timeline that it holds; raises RemoteFailed where that is none, or one of several."""
        found, place, sealed = self._listed()
        chosen = choose_timeline(self.remote, {key: list(value) for key, value in found.items()}, timeline)
        if self.remote.identity and chosen not in sealed:
            raise RemoteFailed(f"{shown(self.remote.url)} is not encrypted, and you named a key. Nothing was made.")
        return self.remote._replace(place=place[chosen], encrypted=chosen in sealed), chosen

    def _place(self) -> str:
        """Returns below which refs the server takes chains; leaves nothing behind."""
        probe = self._commit(self.spool.add_tree({_SEGMENT: b"{}\n"}), [], "mulligan tries what this server allows", 0)
        for place in (HIDDEN, VISIBLE):
            ref = f"{place}/probe-{os.urandom(4).hex()}"
            try:
                self.run("push", "--quiet", "--", self.remote.url, f"{probe.hex()}:{ref}")
            except RemoteFailed as error:
                if place == VISIBLE or not isinstance(error, RefDeclined):
                    raise
                continue
            self.run("push", "--quiet", "--", self.remote.url, f":{ref}")
            return place
        raise RemoteFailed(f"{shown(self.remote.url)} takes no refs of mulligan's. Nothing was changed.")

    def _ref(self, machine: str) -> str:
        return f"{self.remote.place or HIDDEN}/{self.timeline}/{machine}"

    # -- pushing --------------------------------------------------------------------------------

    def send(self, segment: Segment, base: bytes | None, before: ChainMark) -> ChainMark:
        """Adds a segment and its checkpoints to this machine's chain; raises Diverged where the chain is another."""
        data = segment.encode()
        parents = [bytes.fromhex(before.tip)] if before.tip and not segment.full else []
        parents += [base] if base is not None and parents else []
        parents += [bytes.fromhex(told.commit) for told in segment.checkpoints]
        subject = f"{segment.name}: {len(segment.checkpoints)} checkpoints"
        tree = self._link(self.spool.add(BLOB, data), segment, before)
        tip = self._commit(tree, list(dict.fromkeys(parents)), subject, segment.at // 10**9)
        self._swap(self._ref(segment.machine), tip, before.tip)
        self.spool.set_chain(segment.machine, tip)
        return ChainMark(segment.number, digest_of(data), tip.hex(), segment.name, segment.applied)

    def _link(self, blob: bytes, segment: Segment, before: ChainMark) -> bytes:
        """Adds the tree of a chain's commit: its segment, and those before it since the last full one."""
        entries = [TreeEntry(self._segment_name, MODE_FILE, blob)]
        if before.tip and not segment.full:
            names = self._names_in(self._own_tip(before, segment.machine))
            groups = self._listed_in(names.get(_LOG))
            group = b"%013d" % (before.number // _PER_GROUP)
            leaves = self._listed_in(groups.get(group))
            if self._segment_name in names:
                leaves[b"%015d" % before.number] = names[self._segment_name]
            groups[group] = self._add_tree(leaves, MODE_FILE)
            entries.append(TreeEntry(_LOG, MODE_DIR, self._add_tree(groups, MODE_DIR)))
        return self.spool.add(TREE, encode_tree(entries))

    def _own_tip(self, before: ChainMark, machine: str) -> bytes:
        """Returns the end of this machine's chain, and has git send it where the spool was deleted; raises Diverged."""
        tip = bytes.fromhex(before.tip)
        if not self._has(tip):
            self._fetch([f"+{self._ref(machine)}:refs/chains/{machine}"])
            self.spool.objects.refresh()
            if not self.spool.objects.has(tip):
                raise Diverged  # the chain was begun anew there, by a push that did not get to note it
            self.spool.keep(tip)
        return tip

    def _has(self, oid: bytes) -> bool:
        return self.spool.objects.has(oid) or self.spool.loose(oid) is not None

    def _add_tree(self, names: dict[bytes, bytes], mode: int) -> bytes:
        return self.spool.add(TREE, encode_tree([TreeEntry(name, mode, oid) for name, oid in names.items()]))

    def _listed_in(self, tree: bytes | None) -> dict[bytes, bytes]:
        """Returns the names in a tree, none where there is no tree; raises RemoteDamaged."""
        return {entry.name: entry.oid for entry in parse_tree(self._read(tree, TREE, 1 << 20))} if tree else {}

    def _names_in(self, commit: bytes) -> dict[bytes, bytes]:
        """Returns the names in the tree of a commit; raises RemoteDamaged."""
        return self._listed_in(self._parse(commit)[0])

    def _swap(self, ref: str, tip: bytes, before: str) -> None:
        """Sets a ref of the server if it still is what it was before; raises Diverged."""
        # By comparing with what the server has: git's own check for a fast-forward reads commits that may be deleted here.
        lease = f"--force-with-lease={ref}:{before}"
        words = ["push", "--porcelain", "--no-verify", *(["--progress"] if self._progress else ["--quiet"]), lease]
        try:
            with self._without_parents([before] if before else []):
                self.run(*words, "--", self.remote.url, f"{tip.hex()}:{ref}", label="sending")
        except RefBehind as error:
            raise Diverged from error

    def _without_parents(self, tips: Iterable[str]) -> AbstractContextManager[None]:
        """
        Hides from git what the ends of chains lead to, which may be deleted here.

        Git makes its check for a fast-forward also where it is not asked for, and 2.53 fails where 2.39 goes on.
        """
        bare = self._commit(self.spool.add_tree({}), [], "stands for the end of a chain", 0)
        return self.spool.replacing(dict.fromkeys(tips), bare)

    def _commit(self, tree: bytes, parents: list[bytes], subject: str, when: int) -> bytes:
        who = b"%s %d +0000" % (AUTHOR, max(0, when))
        lines = [b"tree " + tree.hex().encode(), *(b"parent " + each.hex().encode() for each in parents)]
        text = b"\n".join([*lines, b"author " + who, b"committer " + who, b"", subject.encode(), b""])
        return self.spool.add(COMMIT, text)

    # -- pulling --------------------------------------------------------------------------------

    def receive(
        self, marks: dict[str, ChainMark], *, own: str = "", only: str = "", rows_only: bool = False
    ) -> list[Arrived]:
        """Fetches every chain (or `only` one) and returns the segments after those that are known; with `rows_only`, no contents."""
        for _ in range(2 if rows_only else 0):
            try:
                return self._receive(marks, own, only, shallow=True)
            except RemoteDamaged:
                self.spool.start_over()  # earlier segments may not be here any more
        # A chain without a whole log: its segments are read from commit to commit.
        try:
            return self._receive(marks, own, only, shallow=False)
        except RemoteDamaged:
            self.spool.start_over()  # git did not send what an earlier pull fetched, and that is not kept
            return self._receive(marks, own, only, shallow=False, last=not only)

    def _receive(
        self, marks: dict[str, ChainMark], own: str, only: str, *, shallow: bool, last: bool = False
    ) -> list[Arrived]:
        if self.spool.is_shallow() is not shallow:
            self.spool.start_over()  # git must not take a chain without its contents for a whole one, nor the reverse
        place = self.remote.place or HIDDEN
        heads = [f"+{place}/{self.timeline}/{only or '*'}:refs/chains/{only or '*'}"]
        heads += [f"^{place}/{self.timeline}/{each}" for each in (own, *self._apart) if each and not only]
        options = ("--depth=1",) if shallow else ()
        try:
            self._fetch(heads, *options)
        except Incomplete:
            # Git may send a difference from an object that was deleted or forgotten here. Without a claim it sends all.
            self.spool.start_over()
            self._fetch(heads, *options)
        self.spool.objects.refresh()
        found = []
        for machine, tip in sorted(self._chains().items()):
            if machine == own or (only and machine != only):
                continue
            mark = marks.get(machine, ChainMark())
            if mark.tip != tip:
                walk = self._walk_log if shallow else self._walk
                try:
                    found.append(walk(machine, tip, mark))
                except RemoteDamaged as error:
                    if not last:
                        raise
                    self.torn[machine] = error.message
        return found

    def _fetch(self, heads: list[str], *options: str) -> None:
        words = ["fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", *options]
        words += ["--progress" if self._progress else "--quiet", "--", self.remote.url, *heads]
        with self._without_parents(self._chains().values()):
            self.run(*words, label="receiving")

    def _chains(self) -> dict[str, str]:
        return {machine: tip for machine, tip in self.spool.chains().items() if is_id(machine)}

    def _walk(self, machine: str, tip: str, mark: ChainMark) -> Arrived:
        """Reads a chain back from its end to what is known, or to a full segment."""
        segments: list[Segment] = []
        at, digest, first = tip, "", True
        awaited = ""
        while at and at != mark.tip and len(segments) < _MOST_SEGMENTS:
            parents, data = self._read_link(bytes.fromhex(at))
            segment = decode(data, timeline=self.timeline, machine=machine)
            if first:
                digest, first = digest_of(data), False
            elif digest_of(data) != awaited:
                raise torn(self.remote.name, machine)
            segments.append(segment)
            if segment.full or segment.number == 1:
                break
            awaited, at = segment.previous, parents[0].hex() if parents else ""
        segments.reverse()
        newest = segments[-1]
        return Arrived(machine, segments, ChainMark(newest.number, digest, tip, newest.name, newest.applied))

    def _walk_log(self, machine: str, tip: str, mark: ChainMark) -> Arrived:
        """Reads a chain from the log in its last commit alone."""
        names = self._names_in(bytes.fromhex(tip))
        if self._segment_name not in names:
            raise torn(self.remote.name, machine)
        newest = self._open_segment(names[self._segment_name])
        number = decode(newest, timeline=self.timeline, machine=machine).number
        found = {number: newest}
        blobs: dict[int, bytes] = {}
        for group in self._listed_in(names.get(_LOG)).values():
            blobs |= {int(name): oid for name, oid in self._listed_in(group).items() if name.isdigit()}
        numbers = [number, *(each for each in blobs if mark.number < each < number)]

        def read(_machine: str, wanted: int) -> bytes:
            return found[wanted] if wanted in found else self._open_segment(blobs[wanted])

        arrived = walk_chain(self.remote.name, self.timeline, machine, mark, numbers, read)
        return arrived._replace(mark=arrived.mark._replace(tip=tip))

    def _parse(self, oid: bytes) -> tuple[bytes, list[bytes]]:
        """Returns the tree and the parents of a commit; raises RemoteDamaged."""
        commit = self._read(oid, COMMIT, 4 << 20)
        head = commit.partition(b"\n\n")[0].split(b"\n")
        try:
            tree = bytes.fromhex(head[0].removeprefix(b"tree ").decode("ascii"))
            return tree, [bytes.fromhex(line[7:].decode("ascii")) for line in head if line.startswith(b"parent ")]
        except ValueError:
            raise RemoteDamaged(f"Commit {oid.hex()} on {self.remote.name} is malformed. Nothing was taken.") from None

    def _read_link(self, oid: bytes) -> tuple[list[bytes], bytes]:
        """Returns the parents of a chain's commit, and its segment."""
        tree, parents = self._parse(oid)
        names = self._listed_in(tree)
        if self._segment_name not in names:
            raise RemoteDamaged(f"Commit {oid.hex()} on {self.remote.name} holds no segment. Nothing was taken.")
        return parents, self._open_segment(names[self._segment_name])

    def _open_segment(self, oid: bytes) -> bytes:
        """Returns the bytes of a segment."""
        return self._read(oid, BLOB, LARGEST_SEGMENT)

    def _read(self, oid: bytes, kind: bytes, most: int) -> bytes:
        found = self.spool.loose(oid)
        if found is not None:
            if found[0] != kind or len(found[1]) > most:
                raise RemoteDamaged(f"Object {oid.hex()} on {self.remote.name} is not what it should be.")
            return found[1]
        if not self.spool.objects.has(oid):
            raise RemoteDamaged(f"{self.remote.name} did not send object {oid.hex()}. Nothing was taken.")
        if self.spool.objects.kind_and_size(oid)[1] > most:
            raise RemoteDamaged(f"Object {oid.hex()} on {self.remote.name} is too large. Nothing was taken.")
        return self.spool.objects.read(oid, kind)

    def fetch_again(self, machine: str) -> None:
        """Has git send the whole chain of one machine."""
        place = self.remote.place or HIDDEN
        self.spool.start_over()
        self._fetch([f"+{place}/{self.timeline}/{machine}:refs/chains/{machine}"])

    def fetch_contents(self, machine: str, commits: list[bytes], near: list[bytes]) -> None:
        """Has git send some checkpoints of a machine, as a difference from those `near` that are here."""
        if not self.spool.is_shallow():
            self.spool.start_over()  # a chain whose contents are not here must not be claimed
        tips = [f"--negotiation-tip={commit.hex()}" for commit in near]
        try:
            self._fetch([commit.hex() for commit in commits], *tips)
        except (NotServed, Incomplete):
            self.fetch_again(machine)  # a server that gives out whole refs only, or does not have it any more
        self.spool.objects.refresh()

    def look_anew(self) -> None:
        """Has git send whole chains: what was taken in before is not kept here."""
        self.spool.start_over()

    def machines(self) -> list[str]:
        """Returns the machines that have a chain here."""
        return sorted(self.timelines().get(self.timeline, {}))

    def end_of(self, machine: str, known: ChainMark) -> ChainMark:
        """Returns where a chain ends that cannot be read."""
        return ChainMark(max(1, known.number), "", self.timelines().get(self.timeline, {}).get(machine, ""))

    def check_packs(
        self, _found: list[Arrived], _part: float, _bad: list[tuple[str, str]], _progress: Any
    ) -> tuple[int, int]:
        """Has nothing more to read: git sent every object of every chain, and verified them."""
        return 0, 0

    def fetch_packs(self, _arrived: list[Arrived]) -> None:
        """Has nothing to fetch: git sent the objects with the chains."""

    def settled(self, marks: dict[str, ChainMark]) -> None:
        """Keeps the ends of the chains, so that git can say what is here, and drops everything else that was fetched."""
        for mark in marks.values():
            if mark.tip and self.spool.objects.has(tip := bytes.fromhex(mark.tip)):
                self.spool.keep(tip, whole=self.spool.is_shallow())
        self.spool.clear()


_HANDED_ON = frozenset(
    f"GIT_{name}"
    for name in "SSH SSH_COMMAND ASKPASS CONFIG_GLOBAL CONFIG_SYSTEM CONFIG_NOSYSTEM TERMINAL_PROMPT SSL_CAINFO SSL_NO_VERIFY PROXY_COMMAND TRACE EXEC_PATH".split()  # noqa: SIM905 - a list of words
)
