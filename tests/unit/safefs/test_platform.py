"""One package for every UNIX: what only Linux has is used where it is there, and nothing fails where it is not."""

from __future__ import annotations

import ast
import ctypes
import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mulligan
from mulligan.forks import copying
from mulligan.safefs import attributes
from mulligan.safefs.platform import choose
from mulligan.safefs.platform.darwin import Darwin
from mulligan.safefs.syscalls import Calls, using
from tools import cli, cli_json, plain_environment

PORTABLE = {"MULLIGAN_PLATFORM": "portable"}
#: A system of another name, without the names that Python has on Linux alone; a look at /proc or into the C library ends it.
ELSEWHERE = """
import fcntl, os, posix, select, sys, time
GONE = ("setxattr getxattr listxattr removexattr O_PATH O_TMPFILE O_NOATIME O_DIRECT posix_fadvise POSIX_FADV_DONTNEED "
        "sched_getaffinity memfd_create eventfd pidfd_open splice copy_file_range getrandom SEEK_DATA SEEK_HOLE fdatasync pipe2")
for module, names in ((os, GONE), (posix, GONE), (time, "CLOCK_BOOTTIME"), (select, "epoll"),
                      (fcntl, "F_OFD_SETLK F_OFD_GETLK F_OFD_SETLKW")):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
def refuse(event, given):
    if event == "ctypes.dlopen" or str(given and given[0]).startswith(("/proc", "b'/proc")):
        os.write(2, f"touched: {event} {given}\\n".encode())
        os._exit(70)
sys.addaudithook(refuse)
def guarded(call):
    def guard(path, *more, **named):
        refuse(call.__name__, (path,))
        return call(path, *more, **named)
    return guard
os.stat, os.lstat, os.readlink, os.access = map(guarded, (os.stat, os.lstat, os.readlink, os.access))
sys.platform = "unix5"
"""
USE = """
import mulligan
from pathlib import Path
from mulligan.safefs.platform import HERE
assert (HERE.name, any(HERE.can)) == ("portable", False), HERE.name
project = Path("project")
with mulligan.open(project) as ws:
    first = ws.save("first")
    (project / "a").write_text("2")
    (project / "run.sh").chmod(0o755)
    (project / "folder" / "new").write_text("new")
    (project / "link").unlink()
    second = ws.save("second")
    assert ws.diff(first.id, second.id)
    ws.restore(first.id)
    assert (project / "a").read_text() == "1" and (project / "link").is_symlink()
    assert not (project / "folder" / "new").exists() and (project / "run.sh").stat().st_mode & 0o777 == 0o644
    ws.undo()
    assert (project / "a").read_text() == "2" and (project / "run.sh").stat().st_mode & 0o777 == 0o755
    assert ws.check().ok and not ws.watch().active
print("used")
"""


@pytest.fixture
def saved(project: Path) -> Path:
    (project / "a").write_text("1")
    with mulligan.open(project) as ws:
        ws.save("one")
    return project


def test_a_system_without_linuxs_own_names_saves_compares_restores_and_undoes(tmp_path):
    project = tmp_path / "project"
    (project / "folder").mkdir(parents=True)
    (project / "a").write_text("1")
    (project / "run.sh").write_text("true")
    (project / "link").symlink_to("a")
    env = plain_environment(MULLIGAN_NATIVE="0")
    env.pop("MULLIGAN_PLATFORM", None)
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE + USE], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "used\n", "")


def test_the_prelude_of_that_test_notices_a_look_at_the_processes(tmp_path):
    for touch in ("os.stat('/proc/self')", "open('/proc/self/stat')", "import ctypes; ctypes.CDLL(None)"):
        run = subprocess.run([sys.executable, "-c", ELSEWHERE + touch], capture_output=True, check=False)
        assert run.returncode == 70, touch


def test_doctor_prints_in_one_line_what_the_system_can_do(saved):
    lines = cli("doctor", cwd=saved, MULLIGAN_PLATFORM="").stdout.splitlines()
    assert "platform  linux: exchange, open_path, sync_all, xattr, watch, clone" in lines
    lines = cli("doctor", cwd=saved, **PORTABLE).stdout.splitlines()
    assert "platform  portable: POSIX only; without exchange, open_path, sync_all, xattr, watch, clone" in lines
    told = cli_json("doctor", cwd=saved, **PORTABLE)["platform"]
    assert told["name"] == "portable" and set(told["can"].values()) == {False}


def test_watch_says_where_there_is_no_watcher_and_commands_scan(saved):
    refused = cli("watch", "--background", cwd=saved, **PORTABLE)
    assert refused.returncode == 1 and "no file watcher on this system" in refused.stderr
    (saved / "a").write_text("2")
    assert cli("save", cwd=saved, **PORTABLE).returncode == 0
    assert cli("watch", "--status", cwd=saved, **PORTABLE).stdout == "No watcher runs here.\n"


def test_without_attributes_a_project_that_was_replaced_is_still_recognised(project):
    (project / "a").write_text("1")
    assert cli("save", cwd=project, **PORTABLE).returncode == 0
    assert os.listxattr(project) == []
    (project / "a").unlink()
    project.rmdir()
    project.mkdir()
    (project / "b").write_text("another project")
    refused = cli("undo", cwd=project, **PORTABLE)
    assert refused.returncode != 0 and "looks like a different directory" in refused.stderr
    assert (project / "b").read_text() == "another project"


def test_both_modes_read_what_the_other_saved(project):
    for number, mode in enumerate((PORTABLE, {"MULLIGAN_PLATFORM": ""}, PORTABLE)):
        (project / "a").write_text(str(number))
        assert json.loads(cli("--json", "save", cwd=project, **mode).stdout)
    assert cli("undo", cwd=project, MULLIGAN_PLATFORM="").returncode == 0
    assert (project / "a").read_text() == "1"
    assert cli("undo", cwd=project, **PORTABLE).returncode == 0
    assert (project / "a").read_text() == "0"


@pytest.mark.parametrize(("system", "name"), [("linux", "linux"), ("darwin", "darwin"), ("freebsd14", "portable")])
def test_the_platform_is_the_systems_own_and_portable_where_that_is_wanted(system, name):
    assert choose("", system).name == name
    assert choose("portable", system).name == "portable"


def test_macos_syncs_with_the_order_that_reaches_the_disk(tmp_path, monkeypatch):
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, order: asked.append((fd, order)))
    fd = os.open(tmp_path, os.O_RDONLY)
    Darwin().fsync(fd)
    assert asked == [(fd, 51)]

    def refuse(_fd: int, _order: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    code = errno.ENOTSUP
    Darwin().fsync(fd)  # a file system that has only the plain one
    code = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        Darwin().fsync(fd)
    os.close(fd)


class Recorder:
    """Stands for the C library of macOS: remembers each call, and answers as it was told."""

    def __init__(self, **answers):
        self.calls = []
        self._answers = answers

    def __getattr__(self, name):
        def call(*given):
            self.calls.append((name, *given))
            answer = self._answers.get(name, 0)
            return answer(*given) if callable(answer) else answer

        return call


def mac(**answers):
    platform = Darwin()
    platform.libc = Recorder(**answers)
    return platform


def failing(code):
    def fail(*_):
        ctypes.set_errno(code)
        return -1

    return fail


def test_macos_swaps_and_places_names_with_the_flags_of_its_headers():
    platform = mac()
    platform.exchange(b"a", b"b", src_dir_fd=3, dst_dir_fd=4)
    platform.rename_new(b"a", b"b", src_dir_fd=3, dst_dir_fd=4)
    assert platform.libc.calls == [("renameatx_np", 3, b"a", 4, b"b", 2), ("renameatx_np", 3, b"a", 4, b"b", 4)]


def test_macos_says_why_a_name_was_not_placed():
    with pytest.raises(FileExistsError):
        mac(renameatx_np=failing(errno.EEXIST)).rename_new(b"a", b"b", src_dir_fd=3, dst_dir_fd=4)
    with pytest.raises(OSError, match=os.strerror(errno.ENOTSUP)):
        mac(renameatx_np=failing(errno.ENOTSUP)).exchange(b"a", b"b", src_dir_fd=3, dst_dir_fd=4)


def cloning(source: int, folder: int, name: bytes, flags: int) -> int:
    """Does what fclonefileat does, by bytes: a new file with the content, permission bits and times of an open one."""
    assert flags == 2
    try:
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    except FileExistsError:
        return failing(errno.EEXIST)()
    found = os.fstat(source)
    os.write(made, os.pread(source, found.st_size, 0))
    os.fchmod(made, found.st_mode & 0o7777)
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.close(made)
    return 0


def fork_on_a_mac(project: Path, monkeypatch: pytest.MonkeyPatch, fclonefileat):
    """Makes a fork whose files are cloned as on macOS; returns how they were copied, and the names that were asked for."""
    platform = mac(fclonefileat=fclonefileat)
    calls = Calls()
    calls.clone = platform.clone
    monkeypatch.setattr(copying, "HERE", platform)
    (project / ".gitignore").write_text("built\n")
    (project / "built").mkdir()
    (project / "built" / "out").write_bytes(b"\0" * 100)
    (project / "built" / "locked").write_text("locked")
    (project / "built" / "locked").chmod(0o444)
    for name in ("a", "run.sh"):
        (project / name).write_text(name)
        os.utime(project / name, ns=(10**18, 10**18))
    (project / "run.sh").chmod(0o755)
    with mulligan.open(project) as ws, using(calls):
        ws.save("start")
        ws.fork("start", project.parent / "try", with_ignored=True).close()
        backend = ws.forks()[0].backend
    other = project.parent / "try"
    for name in (".gitignore", "a", "run.sh", "built/out", "built/locked"):
        assert (other / name).read_bytes() == (project / name).read_bytes()
        assert (other / name).stat().st_mode == (project / name).stat().st_mode
        assert (other / name).stat().st_mtime_ns == (project / name).stat().st_mtime_ns
    return backend, [given[3] for given in platform.libc.calls]


def test_macos_shares_the_blocks_of_a_forks_files(project, monkeypatch):
    backend, cloned = fork_on_a_mac(project, monkeypatch, cloning)
    assert backend == "reflink"
    assert {b"out", b"locked"} <= set(cloned)


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EXDEV])
def test_macos_copies_a_forks_files_where_the_disk_cannot_share_them(project, monkeypatch, code):
    backend, cloned = fork_on_a_mac(project, monkeypatch, failing(code))
    assert backend == "copy"
    assert len(cloned) == 1  # the next file would fail the same way


def test_macos_reads_and_writes_attributes_of_paths_and_open_files():
    def value(_target, _name, buffer, size, position, options):
        assert (position, options) == (0, 0)
        if buffer is not None:
            buffer[: min(size, 4)] = b"mark"[:size]
        return 4

    def names(_target, buffer, size, options):
        assert options == 1
        found = b"user.a\0user.b\0"
        if buffer is not None:
            buffer[: len(found)] = found
        return len(found)

    platform = mac(fgetxattr=value, getxattr=value, listxattr=names)
    assert platform.getxattr(7, "user.mark") == b"mark"
    assert platform.getxattr("/a", "user.mark") == b"mark"
    assert platform.listxattr("/a", follow_symlinks=False) == ["user.a", "user.b"]
    platform.setxattr(7, "user.mark", b"12345")
    assert platform.libc.calls[-1] == ("fsetxattr", 7, b"user.mark", b"12345", 5, 0, 0)
    with pytest.raises(OSError, match=os.strerror(errno.ENODATA)):
        mac(fgetxattr=failing(errno.ENODATA)).getxattr(7, "user.mark")


def test_macos_hands_attributes_over_to_the_file_that_a_restore_puts_in_place(project, monkeypatch):
    """By descriptors, for there are no paths that lead to open files; the system's own attributes are left to the system."""
    kept: dict[int, dict[bytes, bytes]] = {}

    def answer(found, buffer):
        if buffer is not None:
            buffer[: len(found)] = found
        return len(found)

    def names(fd, buffer, _size, _options):
        return answer(b"".join(name + b"\0" for name in kept.get(os.fstat(fd).st_ino, ())), buffer)

    def value(fd, name, buffer, _size, _position, _options):
        found = kept.get(os.fstat(fd).st_ino, {}).get(name)
        return answer(found, buffer) if found is not None else failing(errno.ENODATA)()

    def put(fd, name, data, size, _position, _options):
        if name == b"com.apple.provenance":
            return failing(errno.EPERM)()
        kept.setdefault(os.fstat(fd).st_ino, {})[name] = data[:size]
        return 0

    by_path = dict.fromkeys(("listxattr", "getxattr", "setxattr"), failing(errno.ENOENT))
    platform, calls = mac(flistxattr=names, fgetxattr=value, fsetxattr=put, **by_path), Calls()
    calls.setxattr = platform.setxattr
    monkeypatch.setattr(attributes, "HERE", platform)
    place = project / "tool"
    place.write_text("1")
    with mulligan.open(project) as ws, using(calls):
        first = ws.save("first")
        place.write_text("2")
        before = place.stat().st_ino
        kept[before] = {b"com.apple.quarantine": b"0083;", b"com.apple.provenance": b"\1"}
        report = ws.restore(first.id)
    assert place.read_text() == "1" and place.stat().st_ino != before
    assert kept[place.stat().st_ino] == {b"com.apple.quarantine": b"0083;"}
    assert not report.kept


def test_macos_asks_the_drive_itself_after_each_commit(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, order: asked.append((os.readlink(f"/proc/self/fd/{fd}"), order)))
    Darwin().settle(str(tmp_path))
    assert asked == [(str(tmp_path), 51)]


#: A system where files and directories of some names are in the cloud: who opened one would download it.
CLOUD = """
import os, sys
from types import SimpleNamespace
from mulligan.safefs.platform.portable import Portable
Portable.dataless = 0x40000000
away = set()
real, real_fstat, opened = os.stat, os.fstat, os.open
def told(found, name):
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    fields["st_ctime_ns"] += name in away  # as the system does, when it takes the content away
    return SimpleNamespace(**fields, st_flags=0x40000000 if name in away else 0)
def flagged(path, *more, **named):
    return told(real(path, *more, **named), None if isinstance(path, int) else os.path.basename(os.fsencode(path)))
def by_descriptor(fd):
    return told(real_fstat(fd), os.path.basename(os.readlink(f"/proc/self/fd/{fd}").encode()))
os.stat, os.fstat = flagged, by_descriptor
def read(fd, *more):
    assert os.path.basename(os.readlink(f"/proc/self/fd/{fd}").encode()) not in away, "it was read"
    return real_read(fd, *more)
real_read, os.read = os.read, read
real_listdir = os.listdir
def listed(place="."):
    assert not isinstance(place, int) or os.path.basename(os.readlink(f"/proc/self/fd/{place}").encode()) not in away
    return real_listdir(place)
os.listdir = listed
import mulligan
def missed(saved):
    return [(each.path, each.reason, each.detail) for each in saved.not_captured]
"""
AWAY = "its content is only in the cloud"


def in_the_cloud(project: Path, script: str) -> list[object]:
    """What a script prints, line by line, on a system where some files are in the cloud."""
    env = plain_environment(MULLIGAN_NATIVE="0", MULLIGAN_PLATFORM="portable")
    run = subprocess.run(
        [sys.executable, "-c", CLOUD + script], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [ast.literal_eval(line) for line in run.stdout.splitlines()]


def test_files_that_are_only_in_the_cloud_are_listed_and_never_read(project):
    (project / "here.txt").write_text("here")
    (project / "cloud.txt").write_text("in the cloud")
    (project / "folder").mkdir()
    (project / "folder" / "x").write_text("in the cloud")
    script = """
away |= {b"cloud.txt", b"folder"}
with mulligan.open(".") as ws:
    saved = ws.save("first")
    print((saved.complete, missed(saved), saved.files_changed))
"""
    rows = [("cloud.txt", "special", AWAY), ("folder", "special", AWAY)]
    assert in_the_cloud(project, script) == [(True, rows, ("here.txt",))]


def test_a_file_whose_content_went_to_the_cloud_after_a_save_is_not_read_again(project):
    (project / "cloud.txt").write_text("in the cloud soon")
    os.utime(project / "cloud.txt", ns=(10**18, 10**18))
    script = """
with mulligan.open(".") as ws:
    print(missed(ws.save("first")))
    away.add(b"cloud.txt")
    saved = ws.save("second")
    print(missed(saved))
    print([each.path for each in ws.restore("first").kept])
"""
    assert in_the_cloud(project, script) == [[], [("cloud.txt", "special", AWAY)], ["cloud.txt"]]
    assert (project / "cloud.txt").read_text() == "in the cloud soon"


def test_ignore_rules_that_are_only_in_the_cloud_are_reported_and_not_read(project):
    (project / ".gitignore").write_text("*.log\n")
    (project / "a.log").write_text("a")
    script = """
away.add(b".gitignore")
with mulligan.open(".") as ws:
    saved = ws.save("first")
    print((saved.complete, missed(saved)))
"""
    assert in_the_cloud(project, script) == [(False, [(".gitignore", "unreadable", AWAY)])]


def test_a_fork_leaves_out_what_is_only_in_the_cloud(project):
    (project / ".gitignore").write_text("built\n")
    (project / "built").mkdir()
    for name in ("here", "cloud"):
        (project / "built" / name).write_text(name)
    script = """
away.add(b"cloud")
with mulligan.open(".") as ws:
    ws.save("first")
    ws.fork("first", "../try", with_ignored=True).close()
"""
    assert in_the_cloud(project, script) == []
    assert sorted(each.name for each in (project.parent / "try" / "built").iterdir()) == ["here"]
