"""
Every known-bad build, and the sweep that catches it: zeros mean something only because these are not zero.

    python tests/proofs/honesty.py [--size N] [--seed N] [--only NAME ...] [--list]

A build is the package with one fault put into it on purpose: no fsync, a write in place, a look before an open. Each is
given to its sweep, which must find something within a minute of processor time, however busy the machine is. `--size` is how many are tried; 0, the default, is all of them.
To add one: a `--build` of a sweep in `proof.py`, and one line in `BAD`.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import proof
from tally import Tally, parser

MINUTE = 60.0


class Bad(NamedTuple):
    """A build, its fault in a few words, the sweep that catches it, and with which size and options."""

    build: str
    fault: str
    sweep: str
    size: int
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called among all."""
        return f"{self.sweep}/{self.build}"


_FIRST, _ONE, _SOME = ("--first",), ("--enough", "1"), ("--enough", "3")
_SAVE, _RESTORE, _GC = ((*_FIRST, "--operation", name) for name in ("save-second", "restore", "gc"))
_BOTH = (*_FIRST, "--operation", "restore", "--operation", "save-second")
_FEW = ("--workers", "4", *_ONE)
_TMPFS = (*_ONE, "--wall", "bytes-tmpfs", "--operation")
# fmt: off
#: One line each.
BAD = (
    Bad("in-place", "a restore writes new bytes into the old file", "kills", 300, _RESTORE),
    Bad("unlink-first", "the old file goes before the new one comes", "kills", 300, _RESTORE),
    Bad("journal-late", "the journal is written when the files have changed", "kills", 300, _RESTORE),
    Bad("clean-before-validate", "files are removed before it is known that new ones can be had", "kills", 300, _RESTORE),
    Bad("timeline-first", "the timeline names a checkpoint whose objects are not there", "kills", 300, _SAVE),
    Bad("ref-not-owed", "nothing says that a ref is still to be written", "kills", 300, _SAVE),
    Bad("gc-removes-first", "old packs go before the new one is in place", "kills", 300, _GC),
    Bad("never-swept", "nobody removes what a dead process left", "kills", 300, _SAVE),
    Bad("lock-by-existence", "the lock is a file that stays when its process dies", "kills", 300, _SAVE),
    Bad("in-place", "a fork is written straight into its place", "fork-kills", 60, _ONE),
    Bad("row-late", "nothing says that a fork is being made", "fork-kills", 60, _ONE),
    Bad("linear", "states are tried one after another", "bisect", 20, _ONE),
    Bad("acknowledges-early", "a save is acknowledged before it is committed", "kills-random", 600, _ONE),
    Bad("clean-before-validate", "as above, at random instants", "kills-random", 600, (*_ONE, "--life", "0.5")),
    Bad("ignores-fsync", "an fsync that fails is taken for one that did not", "faults", 400, _BOTH),
    Bad("repeats-fsync", "an fsync that fails is tried again, and believed", "faults", 400, _BOTH),
    Bad("leaves-temporaries", "what was staged stays in the workspace", "faults", 400, _BOTH),
    Bad("leaks-descriptors", "a file that could not be made ready stays open", "faults", 400, _BOTH),
    Bad("python-errors", "what the system refused is raised as it came", "faults", 400, _BOTH),
    Bad("writes-short", "one write is taken to have written everything", "faults", 400, _BOTH),
    Bad("no-fsync", "nothing is synced", "power-acknowledged", 30, _ONE),
    Bad("no-directory-fsync", "names are not synced", "power-acknowledged", 30, (*_ONE, "--apart", "1")),
    Bad("refs-unsynced", "refs are not synced", "power-acknowledged", 30, _ONE),
    Bad("ref-names-unsynced", "names of refs are not synced", "power-acknowledged", 30, _ONE),
    Bad("timeline-unsynced", "the timeline is not synced", "power-acknowledged", 30, _ONE),
    Bad("acknowledges-early", "a save is acknowledged before it is committed", "power-acknowledged", 30, _ONE),
    Bad("restores-unsynced", "a restore is acknowledged with its files in memory", "power-acknowledged", 30, _ONE),
    Bad("stages-unsynced", "new files take their places with their bytes in memory", "power-acknowledged", 30, _ONE),
    Bad("follows", "links are followed", "symlinks", 200_000, _SOME),
    Bad("lstat", "a look at the name, then the open", "symlinks", 200_000, _SOME),
    Bad("realpath", "the name is resolved and compared, then opened", "symlinks", 200_000, _SOME),
    Bad("in-place", "bytes are written into whatever stands there", "symlinks", 200_000, _SOME),
    Bad("follows", "links are followed", "symlinks-capture", 200_000, _SOME),
    Bad("lstat", "a look at the name, then the open", "symlinks-capture", 200_000, _SOME),
    Bad("realpath", "the name is resolved and compared, then opened", "symlinks-capture", 200_000, _SOME),
    Bad("impatient", "a file that is being written is read as it is", "writers-hot", 100_000, _ONE),
    Bad("once", "a file is read once and believed", "writers-hot", 100_000, _ONE),
    Bad("unlocked", "nobody holds the store", "crowd-8", 2000, _FEW),
    Bad("stale", "a process believes what it read before it had the lock", "crowd-8", 2000, _FEW),
    Bad("unlocked", "disk is freed while others write", "gc", 2000, _ONE),
    Bad("credulous", "what came since somebody looked is not asked for before disk is freed", "gc", 2000, _ONE),
    Bad("closes-only", "a lock is closed, and a forked child has it still", "sharers", 10, (*_ONE, "--scene", "forks")),
    Bad("pins-by-process", "what a guard holds is known by its process number", "sharers", 10, (*_ONE, "--scene", "containers")),
    Bad("counts-packs", "the budget counts packs, and not the timeline", "sharers", 10, (*_ONE, "--scene", "names")),
    Bad("forgets-new-directories", "what is made in a new directory is not heard of", "watcher", 6000, _ONE),
    Bad("does-not-wait", "events that are still on their way are not waited for", "watcher", 6000, _ONE),
    Bad("knows-one-name", "second names of a file are not thought of", "watcher", 6000, _ONE),
    Bad("forgives-too-early", "marks go although no checkpoint holds what was found", "watcher", 6000, _ONE),
    Bad("keeps-moved", "a directory that was moved keeps its old place", "watcher", 6000, _ONE),
    Bad("overlooks-the-index", "that git tracks other files now goes unnoticed", "watcher", 6000, _ONE),
    Bad("overlooks-names-that-came", "a name that came is not looked for", "watcher", 6000, _ONE),
    Bad("looks-too-shallow", "what lies below a directory that changed is not looked at", "watcher", 6000, _ONE),
    Bad("judges-by-inode-and-size", "what a restore displaced is judged by inode and size alone", "displaced", 40, _ONE),
    Bad("never-rewinds", "a directory is listed as it was when it was opened", "filesystems", 20,
        (*_ONE, "--scene", "others-packs")),
    Bad("trusts-whole-seconds", "a file is trusted 40 ms after it changed, where stamps are whole seconds", "whole-seconds", 20,
        (*_ONE, "--scene", "edited-twice")),
    Bad("reads-within-a-second", "what is written in the second of the last write does not show", "whole-seconds", 40,
        (*_ONE, "--scene", "written-while-read")),
    Bad("ignores-change-times", "a file is believed to be git's although its change time is another", "adoption", 400, _ONE),
    Bad("believes-records", "records of a pack are copied whatever their checksum is", "adoption", 60, _ONE),
    Bad("ignores-doubts", "what was not copied from a pack proves as much as what was", "adoption", 60, _ONE),
    Bad("believes-filters", "nobody asks what stands between file and object", "adoption", 60, _ONE),
    Bad("forgets-filters", "a filter that no attribute names any more never was in force", "adoption", 400, _ONE),
    Bad("segment-first", "a segment is sent before the packs that it names", "machines", 24, _ONE),
    Bad("keeps-the-forgotten", "a forgotten path is not cut out of what comes in", "machines", 24, _ONE),
    Bad("tells-no-deletions", "copies of deleted checkpoints stay", "machines", 24, _ONE),
    Bad("names-a-collected-pack", "a push that goes on names a pack that was collected since", "machines", 24, _ONE),
    Bad("claims-everything", "an undo takes back what others did in the same step", "days", 24, _ONE),
    Bad("always-complete", "an undo that left something undone ends with exit code 0", "days", 24, _ONE),
    Bad("ignores-paths", "an undo of some paths takes back all of them", "days", 24, _ONE),
    Bad("dry-runs-for-real", "a dry run of an undo changes files", "days", 24, _ONE),
    Bad("any-session", "an undo of one session takes back another one's turn", "days", 24, _ONE),
    Bad("secrets-in-the-clear", "secrets are saved as they are", "days", 24, _ONE),
    Bad("cleans", "a restore removes what lies beside, as git clean does", "bystanders", 200, _ONE),
    Bad("touches", "a restore gives other files a fresh time", "bystanders", 200, _ONE),
    Bad("forgets-the-wall", "a disk without room is not noticed", "full-disks", 40, (*_TMPFS, "save-streamed")),
    Bad("leaves-half", "what did not fit stays half done", "full-disks", 40, (*_TMPFS, "restore-streamed")),
    Bad("credulous", "names in a store are believed", "traversal", 80, _ONE),
    Bad("unheld", "a model's restores push out what others saved", "mcp-poison", 5, _ONE),
    Bad("any-plan", "an id that is not known means the newest plan", "mcp-poison", 5, _ONE),
    Bad("deletes", "the model has a tool that deletes", "mcp-poison", 5, _ONE),
    Bad("no-seals", "rows of the timeline are believed", "corruption", 400, _ONE),
    Bad("no-hashes", "objects are believed", "corruption", 400, _ONE),
)
# fmt: on


def caught(bad: Bad, seed: int) -> str:
    """Runs the sweep on a build; returns what is wrong with that, empty when it was caught in time."""
    sweep = next(each for each in proof.PROOFS if each.name == bad.sweep)
    before = _spent()
    result = proof.run(sweep, bad.size, seed, ["--build", bad.build, *bad.options])
    spent = _spent() - before
    if result.cannot:
        return result.verdict
    if not result.broken:
        return f"{bad.sweep} tried {result.tried} times, and did not find {bad.build}: {bad.fault}"
    return f"{bad.sweep} needed {spent:.0f} s to find {bad.build}" if spent > MINUTE else ""


def _spent() -> float:
    """The processor time of all sweeps that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Tries the builds; one that is not caught is what is broken here."""
    options = parser(__doc__, 0)
    options.add_argument("--only", action="append", choices=[bad.name for bad in BAD], metavar="SWEEP/BUILD")
    options.add_argument("--list", action="store_true", help="print all of them and end")
    given = options.parse_args()
    if given.list:
        print("\n".join(f"{bad.name:42} {bad.fault}" for bad in BAD))
        return 0
    chosen = [bad for bad in BAD if not given.only or bad.name in given.only][: given.size or None]
    tally = Tally("bad builds", len(chosen), enough=given.enough)
    for bad in chosen:
        print(f"{bad.name}: {bad.fault}", flush=True)
        trouble = caught(bad, given.seed)
        if trouble.startswith("NOT RUN"):
            tally.did(0, could_not_be_tried_here=1)
            print(f"!!! {bad.name} {trouble}", flush=True)
            continue
        tally.broke(trouble or [])
        tally.did(1, caught=not trouble)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
