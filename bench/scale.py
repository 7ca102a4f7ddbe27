"""
What mulligan costs at sizes that nobody repeats five times: `python bench/scale.py`, see bench/README.md.

Makes a tree of many small files, or one file of many gigabytes, and runs the command line on it, a fresh process for each
command. Reports time, processor time, the memory of the largest process and of all together, and the store's size. Has no
thresholds; the exit code is 1 only where the work was not done.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# Not this script's own directory: a module here is called `profile`, and the standard library has one too.
sys.path[0] = str(CHECKOUT)

from bench import machine  # noqa: E402

FILES_PER_DIRECTORY = 14
DIRECTORIES_PER_DIRECTORY = 40
LOOKS_PER_SECOND = 5
CHUNK = 1 << 20
PRINTED = 1 << 16
FEW_FILES = 200
CONFIGURATION = """
[capture]
max_file_size = "1000 GiB"
[retention]
budget = "1000 GiB"
[watch]
auto = "never"
"""


class WorkNotDone(Exception):
    """A command did not do what it was to do."""


class Row:
    """One command: what it cost."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.seconds = self.processor = 0.0
        self.largest = self.together = self.store = 0
        self.trouble = ""

    def shown(self) -> str:
        """Returns the row as a line of the table."""
        if self.trouble:
            return f"  {self.what:<34} {self.trouble}"
        sizes = (f"{size / 1e6:>10,.0f}" for size in (self.largest, self.together, self.store))
        return f"  {self.what:<34} {self.seconds:>9.2f} {self.processor:>10.2f} " + " ".join(sizes)


HEAD = f"  {'':<34} {'s':>9} {'s of CPU':>10} {'MB, one':>10} {'MB, all':>10} {'MB, store':>10}"


class Bench:
    """One workspace, its store, and the commands measured on them."""

    def __init__(self, place: Path) -> None:
        self.workspace, self.store = place / "workspace", place / "store"
        self.workspace.mkdir(parents=True)
        self.rows: list[Row] = []

    def run(self, what: str, *words: str, check: Callable[[str], bool] | None = None) -> str:
        """Measures one command in a process of its own; returns what it printed."""
        row = Row(what)
        self.rows.append(row)
        command = [sys.executable, "-m", "mulligan", "-C", str(self.workspace), "--store", str(self.store), *words]
        os.sync()
        start = time.perf_counter()
        # What it prints may be long, and its memory is to be measured, not ours.
        with (
            tempfile.TemporaryFile() as out,
            subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process,
        ):
            peak = Peak(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
            row.seconds, row.together = time.perf_counter() - start, peak.stop()
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            printed = out.read(PRINTED).decode("utf-8", "replace")
        row.processor, row.largest = usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
        row.together = max(row.together, row.largest)
        row.store = occupied(self.store)
        if process.returncode or (check is not None and not check(printed)):
            row.trouble = f"DID NOT DO THE JOB (exit code {process.returncode}): {printed.strip()[-300:]}"
        print(row.shown(), flush=True)
        if row.trouble:
            raise WorkNotDone(what)
        return printed

    def require(self, right: object, what: str) -> None:
        """Notes that the last command did not do its work, unless it did."""
        if not right:
            self.rows[-1].trouble = f"DID NOT DO THE JOB: {what}"
            print(self.rows[-1].shown(), flush=True)
            raise WorkNotDone(what)


class Peak:
    """Looks, a few times a second, at what a process and those it started occupy together, shared pages counted once."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(1 / LOOKS_PER_SECOND):
            self._most = max(self._most, sum(map(_proportional, _family(self._pid))))

    def stop(self) -> int:
        """Returns the most that was seen."""
        self._ended.set()
        self._thread.join()
        return self._most


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return  # ended meanwhile
    for child in children:
        yield from _family(int(child))


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # ended meanwhile
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def occupied(directory: Path) -> int:
    """Returns what a directory occupies on the disk."""
    found = 0
    for where, _, names in os.walk(directory):
        for name in names:
            found += os.lstat(os.path.join(where, name)).st_blocks * 512
    return found


# -- many files ---------------------------------------------------------------------------------


def path_of(number: int) -> str:
    """Returns where a file stands: 14 to a directory, 40 directories to a directory."""
    directory = number // FILES_PER_DIRECTORY
    above, directory = divmod(directory, DIRECTORIES_PER_DIRECTORY)
    top, above = divmod(above, DIRECTORIES_PER_DIRECTORY)
    return f"area{top:03}/part{above:02}/module{directory:02}/source_file_{number}.py"


def content_of(number: int, *, size: int) -> bytes:
    """Returns the bytes of a file, no two the same."""
    line = b"value_%d = compute(%d)  # line of file %d\n" % (number, number * 7919, number)
    return (line * (size // len(line) + 1))[:size]


def apart(work: Callable[[], None]) -> None:
    """Does some work in a process of its own: the memory it takes must not be taken for that of a command started here."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said, and the parent ends
            print(f"the ground could not be made: {error!r}", file=sys.stderr)
        finally:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise WorkNotDone("the ground could not be made")


def make_tree(root: Path, count: int, *, size: int) -> None:
    """Writes the files."""
    made = ""
    for number in range(count):
        path = f"{root}/{path_of(number)}"
        parent = path.rpartition("/")[0]
        if parent != made:
            os.makedirs(parent, exist_ok=True)
            made = parent
        with open(path, "xb", buffering=0) as out:
            out.write(content_of(number, size=size))


def on_many_files(bench: Bench, count: int, size: int) -> None:
    """Measures the everyday commands on a tree of many files."""
    apart(lambda: make_tree(bench.workspace, count, size=size))
    os.sync()
    time.sleep(2.2)
    bench.run("save, the first", "save", "first")
    listed = subprocess.run(
        f"git --git-dir={bench.store} ls-tree -r --name-only $(git --git-dir={bench.store} for-each-ref "
        "--format='%(objectname)' refs/checkpoints | head -1):files | wc -l",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    bench.require(int(listed.stdout) == count, f"{listed.stdout.strip()} of {count} files are in the checkpoint")
    bench.run("save, nothing changed", "save", "--if-changed")
    edited, text = bench.workspace / path_of(count // 2), b"edited = True\n"
    edited.write_bytes(text)
    bench.run("save, one file changed", "save", "second")
    bench.run("log", "log", check=lambda out: "first" in out and "second" in out)
    bench.run("status", "status")
    edited.write_bytes(b"damaged\n")
    bench.run("restore of one file", "restore", "@", "--yes")
    bench.require(edited.read_bytes() == text, "the file was not put back")
    removed = [number for number in range(count // 10) if path_of(number) != path_of(count // 2)]
    for number in removed:
        os.unlink(bench.workspace / path_of(number))
    bench.run(f"restore of {len(removed):,} files", "restore", "@", "--yes")
    wrong = [number for number in removed if not _as_made(bench.workspace, number, size)]
    bench.require(not wrong, f"{len(wrong)} files were not put back")
    bench.run("undo of that", "undo")
    bench.require(not any((bench.workspace / path_of(number)).exists() for number in removed), "files are still there")
    bench.run("gc", "gc")
    bench.run("check", "check")


def _as_made(root: Path, number: int, size: int) -> bool:
    path = root / path_of(number)
    return path.exists() and path.read_bytes() == content_of(number, size=size)


# -- one large file -----------------------------------------------------------------------------


def make_large(path: Path, size: int, *, sparse: bool) -> None:
    """Writes a file of random bytes, or one that is all hole."""
    with open(path, "xb", buffering=0) as out:
        if sparse:
            out.truncate(size)
        else:
            out.writelines(os.urandom(CHUNK) for _ in range(size // CHUNK))


def digest_of(path: Path) -> str:
    """Returns what a file's bytes hash to."""
    done = subprocess.run(["sha256sum", str(path)], check=True, capture_output=True, text=True)
    return done.stdout.split()[0]


def on_a_large_file(bench: Bench, size: int, *, sparse: bool) -> None:
    """Measures a file that no process could hold."""
    large, small = bench.workspace / "data.bin", bench.workspace / "notes.txt"
    make_large(large, size, sparse=sparse)
    small.write_text("one\n")
    before = digest_of(large)
    os.sync()
    time.sleep(2.2)
    bench.run("save, the first", "save", "first")
    small.write_text("two\n")
    bench.run("save, another file changed", "save", "second")
    large.unlink()
    bench.run("restore of the large file", "restore", "@", "--yes")
    bench.require(large.exists() and digest_of(large) == before, "it was not put back as it was")
    with open(large, "r+b", buffering=0) as out:
        out.write(b"edited")
    bench.run("save, the large file changed", "save", "third")
    bench.run("diff of that", "diff", "second", "third", "--stat")
    bench.run("rm of that", "rm", "third", "--yes")
    bench.run("gc", "gc")
    bench.run("check", "check")


# -- many checkpoints ---------------------------------------------------------------------------


def on_many_checkpoints(bench: Bench, count: int) -> None:
    """Measures the everyday commands where history is long."""
    for number in range(FEW_FILES):
        path = bench.workspace / path_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content_of(number, size=1000))
    edited = bench.workspace / path_of(0)
    apart(lambda: _make_history(bench, edited, count))
    bench.run("save, nothing changed", "save", "--if-changed")
    edited.write_bytes(b"edited\n")
    bench.run("save, one file changed", "save", "last")
    bench.run("log -n 20", "log", "-n", "20", check=lambda out: "last" in out)
    bench.run("log", "log", check=lambda out: out.count("\n") > count // 2 or len(out) == PRINTED)
    bench.run("status", "status")
    bench.run("undo", "undo")
    bench.require(edited.read_bytes() == b"value = %d\n" % count, "the edit was not taken back")
    bench.run("redo", "redo")
    bench.require(edited.read_bytes() == b"edited\n", "the edit did not come back")
    bench.run("gc", "gc")
    edited.write_bytes(b"edited again\n")
    bench.run("save, one file changed, after gc", "save", "after gc")
    bench.run("check", "check")


def _make_history(bench: Bench, edited: Path, count: int) -> None:
    import mulligan

    with mulligan.open(bench.workspace, store=bench.store) as ws, ws.watch():
        for number in range(1, count + 1):
            edited.write_bytes(b"value = %d\n" % number)
            ws.save(f"number {number}")


# -- the command --------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked for and returns the exit code."""
    options = _parser().parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="mulligan-scale-", dir=options.work or machine.default_work_place()))
    here, wrong = Path.cwd(), False
    results: list[dict[str, Any]] = []
    try:
        source = machine.freeze_source(work, checkout=CHECKOUT)
        sys.path.insert(0, str(source))
        machine.isolate(work, source=source)
        os.chdir(work)
        tempfile.tempdir = None
        configuration = work / "home" / ".config" / "mulligan"
        configuration.mkdir(parents=True)
        (configuration / "config.toml").write_text(CONFIGURATION)
        facts = machine.facts(work, checkout=CHECKOUT)
        print("\n".join(f"{name + ':':<16} {value}" for name, value in facts.items()), flush=True)
        for title, measure in _sections(options):
            print(f"\n== {title}\n\n{HEAD}", flush=True)
            bench = Bench(work / f"section-{len(results)}")
            try:
                measure(bench)
            except WorkNotDone:
                wrong = True
            results.append({"title": title, "rows": [vars(row) for row in bench.rows]})
            if not options.keep:
                shutil.rmtree(bench.workspace.parent, ignore_errors=True)
        if options.json:
            Path(here, options.json).write_text(json.dumps({"machine": facts, "sections": results}, indent=1))
    finally:
        os.chdir(here)
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong else 0


def _sections(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[Bench], None]]]:
    for count in map(int, filter(None, options.files.split(","))):
        yield f"{count:,} files of {options.bytes} bytes", partial(on_many_files, count=count, size=options.bytes)
    for count in map(int, filter(None, options.checkpoints.split(","))):
        yield f"{count:,} checkpoints of {FEW_FILES} files", partial(on_many_checkpoints, count=count)
    for mebibytes in map(int, filter(None, options.large.split(","))):
        title = f"one file of {mebibytes:,} MiB, {'a hole' if options.sparse else 'random bytes'}"
        yield title, partial(on_a_large_file, size=mebibytes << 20, sparse=options.sparse)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/scale.py", description="time, memory and disk at large sizes")
    add: Any = parser.add_argument
    add("--files", default="100000", metavar="N,N", help="sizes of the tree (default: 100000; '' for none)")
    add("--bytes", type=int, default=120, metavar="N", help="bytes of each file (default: 120)")
    add(
        "--large", default="1024", metavar="MIB,MIB", help="sizes of the large file in MiB (default: 1024; '' for none)"
    )
    add("--checkpoints", default="1000", metavar="N,N", help="lengths of a history (default: 1000; '' for none)")
    add("--sparse", action="store_true", help="the large file is all hole: needs no disk, and deflates to nothing")
    add("--json", metavar="OUT", help="also write everything as JSON")
    add("--work", type=Path, metavar="DIR", help="where the throw-away trees go; must be a real disk")
    add("--keep", action="store_true", help="leave the work directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
