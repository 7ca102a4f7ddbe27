"""Modules out of one file: the same program, from nobody else's hands, and never an old one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from mulligan.safefs import together
from tools import PACKAGE, cli_json

# Runs a command as `process` does, and says in which way each module of ours was found.
PROGRAM = """
import json, os, sys
from mulligan.cli import thin
leave = os._exit
def told(code):
    ways = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items() if name.startswith("mulligan")}
    files = {name: module.__file__ for name, module in sys.modules.items() if name in ways}
    sys.stderr.write(json.dumps({"code": code, "ways": ways, "files": files}))
    sys.stderr.flush()
    leave(code)
os._exit = told
sys.exit(thin.process())
"""


@pytest.fixture
def home(tmp_path):
    """A copy of the package that may be edited, its state directory with the file in it, and a project."""
    source = tmp_path / "source"
    shutil.copytree(PACKAGE / "mulligan", source / "mulligan", ignore=shutil.ignore_patterns("__pycache__"))
    place = tmp_path / "state/mulligan/compiled"
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("1")
    home = Home(tmp_path, source, place, project)
    home.python(f"from mulligan.safefs.gathering import gather; assert gather({str(place)!r}, b'glance-none.so') > 150")
    return home


class Home:
    def __init__(self, top, source, place, project):
        self.top, self.source, self.place, self.project = top, source, place, project

    @property
    def file(self):
        (found,) = self.place.iterdir()
        return found

    def python(self, program, *words, python=sys.executable, **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("MULLIGAN", "PYTHON", "XDG"))}
        env |= {"PYTHONPATH": str(self.source), "XDG_STATE_HOME": str(self.top / "state"), "MULLIGAN_WATCH": "0"}
        env |= {"PYTHONDONTWRITEBYTECODE": "1"} | more
        done = subprocess.run(
            [python, "-c", program, *words], cwd=self.project, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    def save(self, **more):
        """Saves; returns the modules that came out of the file, and those that did not."""
        done = self.python(PROGRAM, "--json", "save", **more)
        assert json.loads(done.stdout)["checkpoint"]["files_changed"] is not None
        told = json.loads(done.stderr[done.stderr.index("{") :])
        for name, file in told["files"].items():
            assert file.startswith(str(self.source)), name
        ours = {name for name, way in told["ways"].items() if way == "Together"}
        return ours, set(told["ways"]) - ours


# What has to be there before it is known where the file is.
BEFORE = {"mulligan", "mulligan.cli", "mulligan.cli.thin", "mulligan.safefs", "mulligan.safefs.together"}


def test_a_command_takes_every_module_from_it(home):
    ours, others = home.save()
    assert others == BEFORE and {"mulligan.engine", "mulligan.scan", "mulligan.cli.commands.save"} <= ours


def test_a_source_that_was_edited_is_what_runs(home):
    edited = home.source / "mulligan/engine.py"
    before = edited.stat()
    edited.write_text(edited.read_text().replace("class Workspace(", "import os as _edited\n\n\nclass Workspace(", 1))
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    _, others = home.save()
    assert others == BEFORE | {"mulligan.engine"}


def test_a_source_of_the_same_size_and_time_under_its_name_is_what_runs(home):
    """As an installer may put it there: times in a wheel are all the same, and an inode is soon used again."""
    edited = home.source / "mulligan/engine.py"
    before = edited.stat()
    text = edited.read_text()
    edited.unlink()
    edited.write_text(text.replace("a", "b", 1))  # a letter of its first sentence
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert edited.stat().st_size == before.st_size
    _, others = home.save()
    assert others == BEFORE | {"mulligan.engine"}


def test_a_source_that_is_gone_is_told_of_by_python(home):
    (home.source / "mulligan/sessions.py").unlink()
    with pytest.raises(AssertionError, match='"code": 70'):
        home.save()


@pytest.mark.parametrize(
    "spoilt", ["empty", "short", "cut", "longer", "noise", "another table", "directory", "link", "fifo"]
)
def test_a_file_that_is_not_whole_is_done_without(home, spoilt):
    file = home.file
    data = file.read_bytes()
    file.unlink()
    if spoilt == "directory":
        file.mkdir()
    elif spoilt == "link":
        (home.top / "real").write_bytes(data)
        (home.top / "real").chmod(0o600)
        file.symlink_to(home.top / "real")
    elif spoilt == "fifo":
        os.mkfifo(file, 0o600)
    else:
        other = {
            "empty": b"",
            "short": data[:5],
            "cut": data[:-1],
            "longer": data + b"x",
            "noise": b"\0" * len(data),
            "another table": (3).to_bytes(8, "big") + b"N\0\0" + data,
        }
        file.write_bytes(other[spoilt])
        file.chmod(0o600)
    ours, _ = home.save()
    assert ours == set()


def test_modules_that_cannot_be_read_from_it_come_from_their_sources(home):
    """The table is whole, and what it leads to is not: a disk that lost some of it."""
    data = home.file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "big")
    home.file.write_bytes(data[:begin] + bytes(len(data) - begin))
    ours, others = home.save()
    assert others == BEFORE and "mulligan.engine" in ours


@pytest.mark.parametrize(
    "loose", ["directory for all", "directory for the group", "file for all", "file for the group"]
)
def test_a_file_that_others_could_have_written_is_not_believed(home, loose):
    file = home.file
    if loose.startswith("directory"):
        home.place.chmod(0o707 if loose.endswith("all") else 0o770)
    else:
        file.chmod(0o606 if loose.endswith("all") else 0o660)
    ours, _ = home.save()
    assert ours == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_file_of_somebody_else_is_not_believed(home, what):
    os.chown(home.place if what == "directory" else home.file, 65534, -1)
    ours, _ = home.save()
    assert ours == set()


def test_it_can_be_switched_off(home):
    ours, _ = home.save(MULLIGAN_COMPILED="0")
    assert ours == set()


def test_another_copy_of_the_package_has_another_file(home):
    other = home.top / "other"
    home.source.rename(other)
    home.source = other
    ours, _ = home.save()
    assert ours == set()


def test_an_error_tells_file_and_line(home):
    program = PROGRAM.replace(
        "sys.exit(thin.process())",
        "from mulligan.safefs.together import use; use(os.environ['PLACE'])\n"
        "import traceback\n"
        "from mulligan.model import paths\n"
        "try: paths.parse_path(3)\n"
        "except Exception: traceback.print_exc(file=sys.stdout)\n",
    )
    said = home.python(program, PLACE=str(home.place)).stdout
    assert f'File "{home.source}/mulligan/model/paths.py", line ' in said and "in parse_path" in said


def test_nothing_is_left_out_that_an_everyday_command_loads(home):
    for words in (
        ["log"],
        ["diff"],
        ["status"],
        ["restore", "@", "-y"],
        ["show", "@"],
        ["save", "-m", "x", "--kind", "step"],
    ):
        home.save()
        (home.project / "a").write_text(f"{words}")
        told = home.python(PROGRAM, "--json", *words).stderr
        ways = json.loads(told[told.index("{") :])["ways"]
        assert {name for name, way in ways.items() if way != "Together"} == BEFORE, words


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_name_of_the_compiled_part_is_known_until_its_source_changes(home):
    program = """
import os
from mulligan.cli.commands.compile import build
from mulligan.safefs import compiled, together
from mulligan.safefs.gathering import gather
place = os.environ["PLACE"]
build(place, "cc")
name = compiled.library_name()
gather(place, name)
together.use(place)
assert together.known_library() == name == compiled.library_name()
source = os.path.join(os.path.dirname(compiled.__file__), "glance.c")
with open(source, "a") as file:
    file.write("/* another */")
assert together.known_library() is None
assert compiled.library_name() != name and compiled.load(place) is None
os.unlink(source)
assert together.known_library() is None
"""
    home.python(program, PLACE=str(home.place))


def test_names_differ_by_place_python_and_machine(monkeypatch):
    names = {together.file_name()}
    monkeypatch.setattr(together, "_HOME", "/elsewhere")
    names.add(together.file_name())
    monkeypatch.setattr(sys, "version", "3.99")
    names.add(together.file_name())
    assert len(names) == 3 and all(name.startswith(together.PREFIX) for name in names)


def test_compile_writes_it_and_removes_it(project, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    cli_json("compile", cwd=project, **state)
    place = tmp_path / "state/mulligan/compiled"
    assert together.file_name().decode() in os.listdir(place)
    assert (place / together.file_name().decode()).stat().st_mode & 0o777 == 0o600
    cli_json("compile", "--remove", cwd=project, **state)
    assert os.listdir(place) == []
