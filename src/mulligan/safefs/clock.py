"""
The clocks that mulligan trusts: the one that stamps files, and the start of the machine.

A write stamps the file once, when it begins, and then copies its bytes piece by piece. A read at that time sees a part of it,
and the stamps are the same before and after. Two things are needed to rule that out: that no write is in progress when the
read begins, and that one that begins later gets another stamp than the file has. A stamp lasts for a tick of the clock, or
for a whole second on file systems that keep no parts of one (ext3, ext4 with inodes of 128 bytes), two of them on FAT.
LIMIT: direct writes of databases, and file systems without a lock around a search for holes (vfat, some in user space), are
not waited for.

After a power cut a file may have the times and the size of its last edit and the bytes of an earlier one: the file system
writes the former to its journal at once and the latter later. Code that trusts times must therefore know whether the machine
was started since.
LIMIT: a disk that loses its power while the machine runs on cannot be told from one that did not; `doctor` reads everything
again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache

from mulligan.safefs import syscalls
from mulligan.safefs.directory import Directory
from mulligan.safefs.platform import HERE

SECOND = 1_000_000_000
_FAT = 0x4D44
_PAUSE_S = 0.001
Seen = Mapping[bytes, tuple[int, int, int]]  # directories, each with inode, mtime and ctime
_MINUTE = 60 * SECOND
_BOOT_FOLDER, _BOOT_NAME, _BOOT_LIMIT = "sys/kernel/random", b"boot_id", 64


def stamping_clock() -> int:
    """Returns the time that a file changed now gets at the least, in nanoseconds."""
    return HERE.stamping_clock()


def tick_began(clock: int, stamp: int, fd: int) -> int:
    """Returns when the tick began that the clock stands in, for the file system of `fd`, which gave such a stamp."""
    # Where stamps have parts of a second, the clock itself moves in ticks. A stamp is a whole second by accident once in
    # a hundred seconds or more, and then a file is taken for younger than it is.
    return clock if stamp % SECOND else clock - clock % _coarse_tick(fd)


def _coarse_tick(fd: int) -> int:
    return 2 * SECOND if syscalls.calls.kind_of_disk(fd) == _FAT else SECOND


def pass_time() -> None:
    """Lets a part of a tick pass."""
    time.sleep(_PAUSE_S)


def pass_coarse_tick(fd: int) -> None:
    """Lets the rest of the second pass that the file system of `fd` stamps files with now, of two on FAT."""
    tick = _coarse_tick(fd)
    time.sleep((tick - stamping_clock() % tick) / SECOND + _PAUSE_S)


def let_writes_end(fd: int) -> None:
    """Returns when no write call that had begun is under way any more; the next read is at the beginning of the file."""
    # Writers hold the inode's lock for the whole call. Of all that a reader may ask, the search for data needs it too
    # (ext4, tmpfs, btrfs, f2fs; on xfs the read itself does). Measured: 7,660 of 9,370 reads torn without, none with it.
    if HERE.seek_data < 0:
        return
    try:
        at = os.lseek(fd, 0, HERE.seek_data)
    except OSError:
        at = -1  # empty, all hole, or not supported here
    if at:
        os.lseek(fd, 0, os.SEEK_SET)


@cache
def boot_id() -> str:
    """Returns a text that is another one after each start of the machine; it may change without one, too."""
    if not HERE.proc:
        # The minute of the start: a clock that was set changes it, and then files are read again in vain.
        return f"minute {booted_at(time.time_ns()) // _MINUTE}"
    try:
        with Directory.open(f"{HERE.proc}/{_BOOT_FOLDER}") as folder:
            return folder.read(_BOOT_NAME, limit=_BOOT_LIMIT).decode("ascii", "replace").strip()
    except OSError:
        return ""  # hidden from this process: then all starts look the same


def booted_at(now_ns: int) -> int:
    """Returns when the machine was started, by the clock that stands at `now_ns`."""
    return now_ns - HERE.uptime_ns()


def moved_since(root: int, seen: Seen, since: int = 0) -> list[bytes]:
    """
    Returns the directories beneath an open one that are no longer what was seen of them.

    Where stamps are whole seconds, also those that had changed in the second in which the clock stood at `since`, before
    they were looked at: another change in that second does not show. Returns when it is over.
    """
    found, young = [], []
    for path, own in seen.items():
        try:
            st = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
        except OSError:
            continue  # too deep for one path, or gone: its parent tells
        if (st.st_ino, st.st_mtime_ns, st.st_ctime_ns) != own:
            found.append(path)
        elif since and not own[2] % SECOND and own[2] >= tick_began(since, own[2], root):
            young.append(path)
    newest = max((seen[path][2] for path in young), default=0)
    if young and newest >= tick_began(stamping_clock(), newest, root):
        pass_coarse_tick(root)
    return found + young
