"""The modules of a command in one file: the very code that Python would take, or none of it."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import PACKAGE, plain_environment

# Runs a command as `python -m mulligan` does, and then tells where its modules came from.
PROBE = """
import json, sys
from mulligan.cli.thin import main
code = main(last=True)
found = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items() if name.startswith("mulligan.")}
json.dump({"code": code, "found": found, "file": getattr(sys.modules.get("mulligan.engine"), "__file__", "")}, sys.stderr)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A copy of the package that is old enough to be believed not to change within this tick of the clock."""
    place = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE / "mulligan", place / "mulligan", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(
        place, quiet=2
    )  # Python would make its directories of byte code in these, which are looked at
    time.sleep(2.1)
    return place


class Machine:
    """A user with a project and an installation."""

    def __init__(self, package: Path, project: Path, home: Path) -> None:
        self.package, self.project, self.home = package, project, home
        self.kept = home / ".local/state/mulligan/modules"
        home.mkdir()

    def run(self, *words: str, **more: str) -> dict:
        """Runs a command; returns what its process told."""
        env = plain_environment(HOME=str(self.home), PYTHONPATH=str(self.package), **more)
        for name in ("XDG_STATE_HOME", *(["PYTHONDONTWRITEBYTECODE"] if "PYTHONDONTWRITEBYTECODE" not in more else [])):
            env.pop(name, None)
        given = {"cwd": self.project, "env": env, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run([sys.executable, "-c", PROBE, *words], **given, check=True, timeout=60)
        told = json.loads(done.stderr.splitlines()[-1])
        told["gathered"] = {name for name, loader in told["found"].items() if loader == "_Loader"}
        return told

    def save(self, **more: str) -> dict:
        """Edits a file and saves."""
        (self.project / "a").write_text(os.urandom(8).hex())
        return self.run("save", **more)

    def file(self) -> Path:
        """The one file that is kept."""
        (found,) = self.kept.iterdir()
        return found


@pytest.fixture
def machine(installed, project, tmp_path) -> Machine:
    return Machine(installed, project, tmp_path / "home")


@pytest.fixture
def kept(machine) -> Machine:
    """The same, after two saves."""
    machine.save()
    machine.save()
    return machine


def test_a_second_save_keeps_the_modules_and_a_third_takes_them(machine):
    assert machine.save()["gathered"] == set()
    assert not machine.kept.exists()  # who saves once has nothing of it
    assert machine.save()["gathered"] == set()
    assert machine.file().stat().st_mode & 0o777 == 0o600
    assert machine.kept.stat().st_mode & 0o777 == 0o700
    told = machine.save()
    assert {"mulligan.engine", "mulligan.scan.early", "mulligan.timeline.vault"} <= told["gathered"]
    assert set(told["found"]) - told["gathered"] <= {
        *("mulligan.cli", "mulligan.cli.thin", "mulligan.safefs", "mulligan.safefs.gathered"),
    }
    assert told["file"] == str(machine.package / "mulligan/engine.py")


def test_other_commands_take_what_is_kept_and_find_the_rest_themselves(kept):
    told = kept.run("log")
    assert "mulligan.engine" in told["gathered"]
    assert told["found"]["mulligan.cli.commands.log"] == "SourceFileLoader"


@pytest.mark.parametrize("how", ["edited", "edited in place", "replaced by an older one", "package beside it"])
def test_what_is_kept_is_never_stale(kept, tmp_path, how):
    """Every source and every directory counts: no edit is too small, and none too old."""
    kept.package = Path(shutil.copytree(kept.package, tmp_path / "own"))
    time.sleep(2.1)
    kept.save()
    assert kept.save()["gathered"]
    source = kept.package / "mulligan/scan/early.py"
    was = source.stat()
    if how == "edited":
        source.write_text(source.read_text() + "\nEDITED = 1\n")
    elif how == "edited in place":  # by as many bytes, and with the time it had
        source.write_text(source.read_text().replace("_RECENT = 1.0", "_RECENT = 1.1", 1))
        os.utime(source, ns=(was.st_atime_ns, was.st_mtime_ns))
    elif how == "replaced by an older one":
        shutil.copy2(source, other := tmp_path / "early.py")
        os.utime(other, (1, 1))
        os.replace(other, source)
    else:
        (source.parent / "early").mkdir()
        shutil.move(source, source.parent / "early/__init__.py")
    told = kept.save()
    assert (told["code"], told["gathered"]) == (0, set())
    time.sleep(2.1)
    kept.save()
    assert kept.save()["gathered"]  # it was kept anew


def test_young_sources_are_not_kept(kept, tmp_path):
    shutil.rmtree(kept.kept)
    kept.package = Path(shutil.copytree(kept.package, tmp_path / "own"))
    kept.save()
    assert not kept.kept.exists() or not list(kept.kept.iterdir())


@pytest.mark.parametrize("whose", ["file", "directory"])
def test_what_others_may_write_to_is_not_run(kept, whose):
    (kept.file() if whose == "file" else kept.kept).chmod(0o770)
    assert kept.save()["gathered"] == set()


@pytest.mark.parametrize("what", ["link to a file", "link to a directory", "directory", "fifo"])
def test_only_a_plain_file_in_its_place_is_run(kept, tmp_path, what):
    file = kept.file()
    if what == "link to a directory":
        kept.kept.rename(tmp_path / "elsewhere")
        kept.kept.symlink_to(tmp_path / "elsewhere")
    else:
        file.rename(tmp_path / "elsewhere")
        {
            "link to a file": lambda: file.symlink_to(tmp_path / "elsewhere"),
            "directory": file.mkdir,
            "fifo": lambda: os.mkfifo(file, 0o600),
        }[what]()
    assert kept.save()["gathered"] == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_not_run_and_nothing_is_left_in_his_home(kept):
    os.chown(kept.file(), 1234, -1)
    assert kept.save()["gathered"] == set()
    shutil.rmtree(kept.kept)
    os.chown(kept.kept.parent, 1234, -1)
    kept.save()
    assert not kept.kept.exists()


def test_what_was_made_for_another_interpreter_or_place_is_not_run(kept, tmp_path):
    file = kept.file()
    data = file.read_bytes()
    for place in (b"mulligan-modules-1", f"{sys.hexversion:x}".encode(), str(kept.package).encode()):
        assert data.count(place)
        file.write_bytes(data.replace(place, place[::-1], 1))
        assert kept.save()["gathered"] == set()


def test_an_empty_or_cut_head_is_not_run(kept):
    file = kept.file()
    for data in (b"", file.read_bytes()[:30]):
        file.write_bytes(data)
        assert kept.save()["gathered"] == set()
        assert kept.save()["gathered"]  # it was written anew


def test_who_wants_no_byte_code_written_gets_none(machine):
    for _ in range(3):
        machine.save(PYTHONDONTWRITEBYTECODE="1")
    assert not machine.kept.exists()


def test_a_place_that_cannot_be_written_to_is_no_trouble(machine):
    machine.save()
    machine.kept.write_text("in the way")
    assert machine.save()["code"] == 0


def test_nobody_keeps_more_than_a_few(kept):
    for number in range(12):
        old = kept.kept / f"modules-old-{number}"
        old.write_text("")
        os.utime(old, (number, number))
    mine = [name for name in kept.kept.iterdir() if "old" not in name.name]
    mine[0].unlink()
    kept.save()
    assert len(list(kept.kept.iterdir())) == 8
    assert mine[0].exists()


def test_compiling_lets_the_next_save_keep_what_it_needs_then(kept):
    kept.run("compile", "--remove")
    assert not list(kept.kept.iterdir())


def test_a_report_shows_the_lines_of_the_sources(kept):
    program = PROBE.split("code =", maxsplit=1)[0] + (
        "import traceback, mulligan.cli.thin as thin\n"
        "main(last=True)\n"
        "import mulligan.engine\n"
        "try:\n    mulligan.engine._refuse_unknown_kind('odd')\n"
        "except Exception:\n    print(traceback.format_exc(), file=sys.stderr)\n"
    )
    env = plain_environment(HOME=str(kept.home), PYTHONPATH=str(kept.package))
    env.pop("XDG_STATE_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", program, "status"], cwd=kept.project, env=env, capture_output=True, text=True, check=True
    )
    assert "engine.py" in done.stderr
    assert "raise " in done.stderr
