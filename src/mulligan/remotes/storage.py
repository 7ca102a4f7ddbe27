"""What pushing, pulling and looking ask of a storage: a git server, one that cannot read what it keeps, or an object store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mulligan.remotes.chain import Arrived
from mulligan.remotes.protocol import Segment
from mulligan.remotes.records import ChainMark, RemoteNote
from mulligan.remotes.spool import Spool

Progress = Callable[[str, int, int], None]


class Storage(Protocol):
    """One remote, opened for one timeline."""

    remote: RemoteNote
    spool: Spool
    #: The packs that could not be believed, and why.
    faults: dict[str, str]
    #: The machines whose chain could not be read and was left out, and why.
    torn: dict[str, str]

    def begin(self) -> RemoteNote:
        """Finds out what the server can do, and makes the remote there, or joins the one that is there."""

    def join(self, timeline: str, /) -> tuple[RemoteNote, str]:
        """Returns the remote and the timeline that it holds; raises RemoteFailed."""

    def send(self, segment: Segment, base: bytes | None, before: ChainMark, /) -> ChainMark:
        """Adds a segment to this machine's chain; raises Diverged where the chain is another."""

    def receive(
        self, marks: dict[str, ChainMark], /, *, own: str = "", only: str = "", rows_only: bool = False
    ) -> list[Arrived]:
        """Returns the segments after those that are known, of every machine or `only` one."""

    def fetch_packs(self, arrived: list[Arrived], /) -> None:
        """Brings what segments name into the spool."""

    def fetch_again(self, machine: str, /) -> None:
        """Brings everything of one machine's chain into the spool."""

    def fetch_contents(self, machine: str, commits: list[bytes], near: list[bytes], /) -> None:
        """Brings what some checkpoints of a machine need into the spool."""

    def look_anew(self) -> None:
        """Prepares to read chains from their beginning."""

    def machines(self) -> list[str]:
        """Returns the machines that have a chain here."""

    def end_of(self, machine: str, known: ChainMark, /) -> ChainMark:
        """Returns where a chain ends that cannot be read; without a hash, which says that a full segment must follow."""

    def check_packs(
        self, found: list[Arrived], part: float, bad: list[tuple[str, str]], progress: Progress | None, /
    ) -> tuple[int, int]:
        """Looks for every pack that segments name, and reads a part of them; returns how many of each."""

    def settled(self, marks: dict[str, ChainMark], /) -> None:
        """Drops what was fetched, apart from what the next command needs."""
