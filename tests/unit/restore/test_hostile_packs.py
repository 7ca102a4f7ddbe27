"""Objects that are not what they should be: a restore refuses them and changes nothing."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mulligan.engine.workspace import Workspace
from mulligan.errors import NoRoom, StoreDamaged
from mulligan.gitformat.pack import PackIndex
from mulligan.gitformat.record import encode_header
from mulligan.model.objects import BLOB, object_id
from mulligan.settings import resolve
from scenes import left_lying, state_of

FILES = 90
VICTIM = 45
# A record of the victim and the bytes that follow it in its pack; what stands there instead, of the same length.
Damage = Callable[[bytes], bytes]


def text(number: int, version: str) -> bytes:
    return b"%d %b and something that can be deflated, deflated\n" % (number, version.encode()) * (number % 50 + 3)


def write(project: Path, version: str) -> None:
    for number in range(FILES):
        place = project / f"d{number % 7}" / f"f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(text(number, version))


def stream_of(record: bytes, change: Callable[[bytearray, int], None]) -> bytes:
    """Changes the deflated bytes of a record; its header is two bytes long."""
    made = bytearray(record)
    change(made, 2)
    return bytes(made)


def flipped(at: int) -> Damage:
    return lambda record: stream_of(record, lambda made, start: made.__setitem__(start + at, made[start + at] ^ 0x10))


def instead(kind: int, size: int, content: bytes, *, tail: bytes = b"") -> Damage:
    def damage(record: bytes) -> bytes:
        made = encode_header(kind, size) + (zlib.compress(content, 9) + tail)
        return made + record[len(made) :] if len(made) <= len(record) else made[: len(record)]

    return damage


RIGHT = text(VICTIM, "one")
DAMAGES: dict[str, Damage] = {
    "no zlib stream": flipped(0),
    "a preset dictionary": flipped(1),
    "other codes": flipped(4),
    "another byte": flipped(30),
    "zeros": lambda record: record[:2] + bytes(40) + record[42:],
    "ones": lambda record: b"\xff" * 40 + record[40:],
    "a size too small": instead(3, len(RIGHT) - 1, RIGHT),
    "a size too large": instead(3, len(RIGHT) + 1, RIGHT),
    "a size that no file has": instead(3, 1 << 60, RIGHT),
    "more bytes than it says": instead(3, len(RIGHT), RIGHT + b"x"),
    "the bytes of another": instead(3, len(RIGHT), RIGHT.replace(b"one", b"two")),
    "a tree": instead(2, len(RIGHT), RIGHT),
    "a delta of nothing": instead(7, 20, b"\0" * 20),
    "a delta far back": lambda record: b"\x6f\xff\xff\x7f" + record[4:],
    "a wrong checksum": instead(3, len(RIGHT), RIGHT),  # which is made wrong below
}


def spoil(record: bytes, name: str) -> bytes:
    made = DAMAGES[name](record)
    if name == "a wrong checksum":
        end = len(encode_header(3, len(RIGHT)) + zlib.compress(RIGHT, 9))
        made = made[: end - 1] + bytes([made[end - 1] ^ 1]) + made[end:]
    assert len(made) == len(record)
    return made


class Project:
    """A project that was saved, and changed since."""

    def __init__(self, home: Path) -> None:
        self.path, self.store = home / "project", home / "store"
        self.path.mkdir()
        write(self.path, "one")
        with self.opened() as space:
            space.save("one")

    def opened(self) -> Workspace:
        return Workspace(resolve(self.path, store=self.store))

    def patch(self, change: Callable[[Path, int], None]) -> None:
        """Hands out the pack that has the victim, and where it begins there."""
        for index in self.store.glob("**/objects/pack/*.idx"):
            found = PackIndex(index.read_bytes())
            at = found.find(object_id(BLOB, RIGHT))
            if at >= 0:
                pack = index.with_suffix(".pack")
                pack.chmod(0o644)
                change(pack, found.offset(at))
                return
        pytest.fail("not there")

    def restored(self) -> list[str]:
        """The files that a restore changed; where it refuses to, nothing has changed."""
        with self.opened() as space:
            write(self.path, "two")
            before = state_of(self.path)
            try:
                return sorted(space.restore(space.log()[-1].id).modified)
            except (NoRoom, StoreDamaged):
                assert state_of(self.path) == before and left_lying(self.path) == []
                raise


@pytest.fixture
def saved(tmp_path) -> Project:
    return Project(tmp_path)


def damage(pack: Path, offset: int, name: str) -> None:
    data = bytearray(pack.read_bytes())
    end = min(offset + 200, len(data) - 20)  # those behind it may go with it
    data[offset:end] = spoil(bytes(data[offset:end]), name)
    pack.write_bytes(data)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_object_ends_a_restore_with_nothing_changed(saved, name):
    saved.patch(lambda pack, offset: damage(pack, offset, name))
    with pytest.raises((NoRoom, StoreDamaged)):
        saved.restored()


def test_a_pack_that_is_cut_short_ends_a_restore_with_nothing_changed(saved):
    saved.patch(lambda pack, offset: os.truncate(pack, offset + 40))
    with pytest.raises((NoRoom, StoreDamaged)):
        saved.restored()


@pytest.mark.parametrize("where", [0, 5, 12, 1 << 30, 0xFFFFFFFF])
def test_an_index_that_points_elsewhere_ends_a_restore_with_nothing_changed(saved, where):
    def change(pack: Path, offset: int) -> None:
        index = pack.with_suffix(".idx")
        index.chmod(0o644)
        data = index.read_bytes()
        count = int.from_bytes(data[8 + 255 * 4 : 8 + 256 * 4], "big")
        start = 8 + 1024 + 24 * count
        table = data[start : start + 4 * count].replace(offset.to_bytes(4, "big"), where.to_bytes(4, "big"))
        index.write_bytes(data[:start] + table + data[start + 4 * count :])

    saved.patch(change)
    with pytest.raises((NoRoom, StoreDamaged)):
        saved.restored()


@pytest.mark.parametrize("name", ["another byte", "a size too large", "the bytes of another"])
def test_a_good_copy_in_another_pack_is_taken(saved, name):
    def change(pack: Path, offset: int) -> None:
        for each in (pack, pack.with_suffix(".idx")):
            shutil.copy(each, each.with_stem("pack-" + "f" * 40))
        damage(pack, offset, name)

    saved.patch(change)
    assert len(saved.restored()) == FILES
    assert (saved.path / f"d{VICTIM % 7}" / f"f{VICTIM}").read_bytes() == RIGHT
