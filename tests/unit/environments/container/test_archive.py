"""Archives that a container made: what is taken from them, and what never is."""

from __future__ import annotations

import io
import tarfile

import pytest

from mulligan.environments.container import archive
from mulligan.environments.container.trouble import EngineRefused


def entry(name: str, data: bytes = b"", **more) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for info, data in entries:
            out.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def pieces(data: bytes, size: int = 100) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1 << 20])
def test_a_file_is_read_whatever_pieces_it_comes_in(size):
    content = bytes(range(256)) * 9
    assert archive.read_regular(pieces(tar(entry("f", content)), size), "f") == content
    assert archive.read_regular(pieces(tar(entry("f")), size), "f") == b""


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (tarfile.DIRTYPE, IsADirectoryError),
        (tarfile.SYMTYPE, PermissionError),
        (tarfile.LNKTYPE, PermissionError),
        (tarfile.FIFOTYPE, PermissionError),
        (tarfile.CHRTYPE, PermissionError),
        (tarfile.BLKTYPE, PermissionError),
    ],
)
def test_anything_but_a_regular_file_is_not_read(kind, error):
    with pytest.raises(error):
        archive.read_regular(pieces(tar(entry("f", type=kind, linkname="/etc/passwd"))), "f")


def test_a_size_is_believed_only_up_to_a_limit_and_checked():
    huge, _ = entry("f")
    huge.size = 1 << 45
    with pytest.raises(PermissionError, match="bytes"):
        archive.read_regular(pieces(huge.tobuf()), "f")
    with pytest.raises(PermissionError, match="bytes"):
        archive.read_regular(pieces(tar(entry("f", b"12345"))), "f", limit=4)
    whole = tar(entry("f", b"x" * 2000))
    with pytest.raises(EngineRefused, match="cannot be read"):
        archive.read_regular(pieces(whole[:1500]), "f")


@pytest.mark.parametrize("junk", [b"", b"\0" * 1024, b"x" * 700, b"not a tar at all", bytes(range(256)) * 8])
def test_junk_is_an_error_of_ours_or_an_empty_archive(junk):
    with pytest.raises((EngineRefused, FileNotFoundError)):
        archive.read_regular(pieces(junk), "f")


def test_names_that_lead_elsewhere_are_left_out():
    data = tar(
        entry(".", type=tarfile.DIRTYPE),
        entry("./a.txt", b"1"),
        entry("b/c.txt", b"2"),
        entry("../up", b"3"),
        entry("b/../../up", b"4"),
        entry("/absolute", b"5"),
        entry("b//double", b"6"),
        entry("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry("device", type=tarfile.CHRTYPE),
        entry("pipe", type=tarfile.FIFOTYPE),
        entry("dir", type=tarfile.DIRTYPE),
        entry("new\nline", b"7"),
        entry("nöt-utf8-\udcff", b"8"),
        entry("l" * 300, b"9"),
    )
    found = archive.file_names(pieces(data))
    assert found == sorted(["a.txt", "b/c.txt", "link", "new\nline", "nöt-utf8-\udcff", "l" * 300])


def test_what_is_packed_is_one_file_and_its_new_directories():
    data = archive.pack(["a", "a/b"], "a/b/c\udcff", b"content", archive.Owner(7, 8, 0o750), now=5.5)
    with tarfile.open(fileobj=io.BytesIO(data)) as back:
        members = back.getmembers()
        content = back.extractfile(members[-1])
        assert content is not None and content.read() == b"content"
    assert [(m.name, m.type, m.mode, m.uid, m.gid, m.mtime) for m in members] == [
        ("a", tarfile.DIRTYPE, 0o755, 7, 8, 5),
        ("a/b", tarfile.DIRTYPE, 0o755, 7, 8, 5),
        ("a/b/c\udcff", tarfile.REGTYPE, 0o750, 7, 8, 5),
    ]
    assert len(data) % 512 == 0


def test_whose_the_first_entry_is():
    assert archive.owner_of_first(pieces(tar(entry("f", b"x", uid=3, gid=4, mode=0o100640)))) == (3, 4, 0o640)
