"""Objects that are not what they should be: a restore with the compiled part refuses them as one without it does."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mulligan.engine import Workspace
from mulligan.errors import NoRoom, StoreDamaged
from mulligan.model.objects import BLOB, object_id
from mulligan.restore.many import Many
from mulligan.safefs.directory import Directory
from mulligan.settings import resolve
from mulligan.store.objects import ObjectStore
from mulligan.store.packfile import encode_header
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


class Projects:
    """The same project twice, saved and changed since."""

    def __init__(self, home: Path, library: str) -> None:
        self.places, self._library = [home / "without", home / "with"], library
        for place in self.places:
            (place / "project").mkdir(parents=True)
            write(place / "project", "one")
        for space in self.opened("", ""):  # which makes the same packs of both
            space.save("one")
            space.close()

    def opened(self, *compiled: str) -> list[Workspace]:
        return [
            Workspace(resolve(place / "project", store=place / "store")._replace(compiled=library))
            for place, library in zip(self.places, compiled, strict=True)
        ]

    def patch(self, change: Callable[[Path, int], None]) -> None:
        """Hands out each pack that has the victim, and where it begins there."""
        for place in self.places:
            (packs,) = place.glob("store/**/objects/pack")
            with Directory.open(packs.parent.parent) as directory:
                store = ObjectStore(directory)
                store.refresh()
                name, _, offset, _ = store.place_of(object_id(BLOB, RIGHT)) or pytest.fail("not there")
                store.close()
            pack = packs / f"{name.decode()}.pack"
            pack.chmod(0o644)
            change(pack, offset)

    def restored(self) -> list[Any]:
        """What each said, the state it left, and what lies about."""
        told = []
        for place, space in zip(self.places, self.opened("", self._library), strict=True):
            write(place / "project", "two")
            before = state_of(place / "project")
            try:
                report: Any = sorted(space.restore(space.log()[-1].id).modified)
            except (NoRoom, StoreDamaged) as error:
                report = error.message.partition(" and the disk has ")[0]
                assert state_of(place / "project") == before
            space.close()
            told.append((report, state_of(place / "project"), left_lying(place / "project")))
        return told


@pytest.fixture
def projects(tmp_path, library) -> Projects:
    return Projects(tmp_path, library)


def damage(pack: Path, offset: int, name: str) -> None:
    data = bytearray(pack.read_bytes())
    end = min(offset + 200, len(data) - 20)  # those behind it may go with it
    data[offset:end] = spoil(bytes(data[offset:end]), name)
    pack.write_bytes(data)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_object_ends_a_restore_with_nothing_changed(projects, name):
    projects.patch(lambda pack, offset: damage(pack, offset, name))
    one, other = projects.restored()
    assert one == other
    assert isinstance(one[0], str) and one[2] == []


def test_a_pack_that_is_cut_short_ends_a_restore_with_nothing_changed(projects):
    projects.patch(lambda pack, offset: os.truncate(pack, offset + 40))
    one, other = projects.restored()
    assert one == other
    assert isinstance(one[0], str) and one[2] == []


@pytest.mark.parametrize("where", [0, 5, 12, 1 << 30, 0xFFFFFFFF])
def test_an_index_that_points_elsewhere_ends_a_restore_with_nothing_changed(projects, where):
    def change(pack: Path, offset: int) -> None:
        index = pack.with_suffix(".idx")
        index.chmod(0o644)
        data = index.read_bytes()
        count = int.from_bytes(data[8 + 255 * 4 : 8 + 256 * 4], "big")
        start = 8 + 1024 + 24 * count
        table = data[start : start + 4 * count].replace(offset.to_bytes(4, "big"), where.to_bytes(4, "big"))
        index.write_bytes(data[:start] + table + data[start + 4 * count :])

    projects.patch(change)
    one, other = projects.restored()
    assert one == other
    assert isinstance(one[0], str) and one[2] == []


@pytest.mark.parametrize("name", ["another byte", "a size too large", "the bytes of another"])
def test_a_good_copy_in_another_pack_is_taken(projects, name):
    def change(pack: Path, offset: int) -> None:
        for each in (pack, pack.with_suffix(".idx")):
            shutil.copy(each, each.with_stem("pack-" + "f" * 40))
        damage(pack, offset, name)

    projects.patch(change)
    one, other = projects.restored()
    assert one == other
    assert len(one[0]) == FILES and one[1][f"d{VICTIM % 7}/f{VICTIM}"][2] == RIGHT


def test_what_comes_from_a_pack_is_not_read_by_python(projects, monkeypatch):
    """Else none of the above would say anything."""
    found: list[int] = []
    locate = Many.locate

    def counted(many: Many, *args: Any) -> dict[int, int]:
        sizes = locate(many, *args)
        found.extend(sizes.values())
        return sizes

    monkeypatch.setattr(Many, "locate", counted)
    one, other = projects.restored()
    assert one == other and len(one[0]) == FILES
    assert sorted(found) == sorted(len(text(number, "one")) for number in range(FILES))


def refuse(*_: object) -> int:
    raise OSError(errno.EMFILE, "none left")


@pytest.mark.parametrize(
    ("name", "value"),
    [("_PACKS", 0), ("os", SimpleNamespace(dup=refuse, close=os.close))],
    ids=["limit", "no descriptor"],
)
def test_more_packs_than_may_be_open_are_no_trouble(projects, monkeypatch, name, value):
    monkeypatch.setattr(f"mulligan.safefs.placing.{name}", value)
    one, other = projects.restored()
    assert one == other and len(one[0]) == FILES
