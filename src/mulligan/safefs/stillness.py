"""
Whether a file holds still, told by the kernel: which tick of its clock it stamps files with, and when a write call is over.

A write stamps the file once, when it begins, and then copies its bytes piece by piece. Whoever reads meanwhile sees a part of
it, and the stamps are the same before and after. Two things are needed to rule that out: that no write is under way when the
read begins, and that one that begins later gets another stamp than the file has. A stamp lasts for a tick of the clock, or
for a whole second on file systems that keep no parts of one (ext3, ext4 with inodes of 128 bytes), two of them on FAT.
LIMIT: direct writes of databases, and file systems without a lock around a search for holes (vfat, some in user space), are
not waited for.
"""

from __future__ import annotations

import os
import sys
import time

from mulligan.safefs import seam

SECOND = 1_000_000_000
_FAT = 0x4D44
# Linux stamps files with this clock, which stands still for a tick of 1 to 10 ms; Python has no name for it.
_COARSE_CLOCK = 5
_PAUSE_S = 0.001


def stamping_clock() -> int:
    """Returns the time that a file changed now gets at the least, in nanoseconds."""
    return time.clock_gettime_ns(_COARSE_CLOCK) if sys.platform == "linux" else time.time_ns()


def tick_began(clock: int, stamp: int, fd: int) -> int:
    """Returns when the tick began that the clock stands in, for the file system of `fd`, which gave such a stamp."""
    # Where stamps have parts of a second, the clock itself moves in ticks. A stamp is a whole second by accident once in
    # a hundred seconds or more, and then a file is taken for younger than it is.
    return clock if stamp % SECOND else clock - clock % _coarse_tick(fd)


def _coarse_tick(fd: int) -> int:
    return 2 * SECOND if seam.calls.kind_of_disk(fd) == _FAT else SECOND


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
    try:
        at = os.lseek(fd, 0, os.SEEK_DATA)
    except OSError:
        at = -1  # empty, all hole, or not supported here
    if at:
        os.lseek(fd, 0, os.SEEK_SET)
