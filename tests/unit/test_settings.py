"""The user's choices are resolved once, and a workspace can only ever narrow them."""

from __future__ import annotations

import hashlib
import os

import pytest

from mulligan import settings
from mulligan.model.policy import CapturePolicy
from mulligan.settings import locations

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path):
    """A user with an empty home and a workspace."""
    return Machine(tmp_path)


class Machine:
    def __init__(self, base) -> None:
        self.home = base / "home"
        self.workspace = base / "proj"
        self.home.mkdir()
        self.workspace.mkdir()
        self.environ = {"HOME": str(self.home)}

    def user(self, text: str) -> None:
        file = self.home / ".config/mulligan/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def project(self, text: str, name: str = "mulligan.toml") -> None:
        (self.workspace / name).write_text(text)

    def resolve(self, **options):
        return settings.resolve(str(self.workspace), environ=self.environ, **options)


# -- places -------------------------------------------------------------------------------------


def test_the_default_store_is_keyed_by_the_real_path_under_the_state_directory(machine):
    digest = hashlib.sha256(os.fsencode(str(machine.workspace))).hexdigest()[:16]
    assert machine.resolve().store == str(machine.home / ".local/state/mulligan/stores" / f"proj-{digest}")


def test_a_workspace_reached_through_a_link_has_the_same_store(machine):
    (machine.home / "link").symlink_to(machine.workspace)
    linked = settings.resolve(str(machine.home / "link"), environ=machine.environ)
    assert (linked.workspace, linked.store) == (str(machine.workspace), machine.resolve().store)


def test_the_option_wins_over_the_environment_and_that_over_the_default(machine, tmp_path):
    machine.environ["MULLIGAN_STORE"] = str(tmp_path / "from-env")
    assert machine.resolve().store == str(tmp_path / "from-env")
    assert machine.resolve(store=tmp_path / "from-option").store == str(tmp_path / "from-option")


def test_xdg_directories_are_used_and_relative_ones_count_as_unset(machine, tmp_path):
    machine.environ["XDG_STATE_HOME"] = str(tmp_path / "state")
    assert machine.resolve().stores == str(tmp_path / "state/mulligan/stores")
    machine.environ["XDG_STATE_HOME"] = "relative"
    assert machine.resolve().stores == str(machine.home / ".local/state/mulligan/stores")


def test_without_home_the_password_database_is_asked(machine):
    machine.environ.clear()
    assert os.path.isabs(machine.resolve().home)


@pytest.mark.parametrize("name", ["a" * 250, "new\nline", "-dash", ".dot", "ü\u202e", "\udcff", "…"])
def test_an_odd_directory_name_gives_a_plain_store_name(machine, name):
    store = os.path.basename(locations.store_for("/work/" + name, settings.places(machine.environ)))
    assert len(os.fsencode(store)) <= 255 and store.isprintable() and store[0] not in ".-"


def test_a_subdirectory_belongs_to_the_nearest_directory_with_a_store(machine):
    deep = machine.workspace / "src/deep"
    deep.mkdir(parents=True)
    assert settings.find_workspace(str(deep), machine.environ) == str(deep)
    os.makedirs(machine.resolve().store)
    assert settings.find_workspace(str(deep), machine.environ) == str(machine.workspace)
    os.makedirs(locations.store_for(str(deep), settings.places(machine.environ)))
    assert settings.find_workspace(str(deep), machine.environ) == str(deep)


def test_the_wait_is_two_seconds_unless_told(machine):
    assert (machine.resolve().wait, machine.resolve(wait=0).wait) == (2.0, 0)


# -- the user's own configuration ---------------------------------------------------------------


def test_every_setting_of_the_user_arrives(machine):
    machine.user("""
        [capture]
        include = [".env"]
        exclude = ["*.log", "!keep.log"]
        max_file_size = "1 GiB"
        [retention]
        automatic = 1
        session = 2
        step = 3
        safety = 4
        step_days = 5
        budget = "2GB"
        [checkpoints]
        enabled = true
        every_n_steps = 50
    """)
    found = machine.resolve()
    assert found.capture == CapturePolicy(include=(".env",), exclude=("*.log", "!keep.log"), max_file_size=1 << 30)
    kept = found.retention
    assert (kept.automatic, kept.session, kept.step, kept.safety, kept.step_days, kept.budget) == (
        1,
        2,
        3,
        4,
        5,
        2_000_000_000,
    )
    assert (found.loop.enabled, found.loop.every_n_steps) == (True, 50)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[retention]\nbudgett = 1", "retention.budgett"),
        ("[retention]\nautomatic = -1", "retention.automatic"),
        ("[retention]\nautomatic = true", "retention.automatic"),
        ("[retention]\nbudget = 'much'", "retention.budget"),
        ("[retention]\nbudget = 0", "retention.budget"),
        ("[retention]\nsafety = 0", "retention.safety"),
        ("[checkpoints]\nevery_n_steps = 51", "checkpoints.every_n_steps"),
        ("[checkpoints]\nenabled = 'yes'", "checkpoints.enabled"),
        ("[capture]\ninclude = '.env'", "capture.include"),
        ("[capture]\ninclude = ['!x']", "capture.include"),
        ("[capture]\nexclude = [1]", "capture.exclude"),
        ('[capture]\nexclude = ["a\\nb"]', "capture.exclude"),
        ("[hooks]\nrun = 'x'", "hooks"),
        ("capture = 1", "capture"),
        ("[capture", "config.toml"),
        ("x = " + "[" * 5000, "nested"),
    ],
)
def test_a_mistake_of_the_user_is_a_warning_that_names_file_and_key(machine, text, named):
    machine.user(text)
    (warning,) = machine.resolve().warnings
    assert "config.toml" in warning and named in warning and "default" in warning


def test_the_warning_says_what_is_allowed_and_the_other_keys_count(machine):
    machine.user("[retention]\nbudgett = 1\nstep = 7")
    found = machine.resolve()
    assert "automatic, session, step, safety, step_days, budget" in found.warnings[0]
    assert found.retention.step == 7


def test_a_user_configuration_may_be_a_link_and_must_be_a_file(machine, tmp_path):
    (tmp_path / "dotfiles.toml").write_text("[retention]\nstep = 7")
    folder = machine.home / ".config/mulligan"
    folder.mkdir(parents=True)
    (folder / "config.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert machine.resolve().retention.step == 7
    (folder / "config.toml").unlink()
    os.mkfifo(folder / "config.toml")
    assert "regular file" in machine.resolve().warnings[0]


# -- the workspace's file -----------------------------------------------------------------------


def test_a_workspace_narrows_and_switches_the_loop(machine):
    machine.user("[capture]\nexclude = ['a']\n[checkpoints]\nevery_n_steps = 9")
    machine.project("[capture]\nexclude = ['b']\nmax_file_size = '1 MiB'\n[checkpoints]\nenabled = true")
    found = machine.resolve()
    assert found.capture == CapturePolicy(exclude=("a", "b"), max_file_size=MIB)
    assert (found.loop.enabled, found.loop.every_n_steps, found.warnings) == (True, 9, ())


def test_a_workspace_never_widens(machine):
    machine.user("[capture]\nexclude = ['private/']\nmax_file_size = '1 MiB'\n[retention]\nbudget = '1 GiB'")
    machine.project(
        "[capture]\nexclude = ['!private/', 'x']\nmax_file_size = '9 GiB'\n[retention]\nbudget = '1 TiB'\nautomatic = 0"
    )
    found = machine.resolve()
    assert (found.capture.exclude, found.capture.max_file_size) == (("private/", "x"), MIB)
    assert (found.retention.budget, found.retention.automatic) == (1 << 30, 5)
    assert [w for w in found.warnings if "retention.budget" in w] and [
        w for w in found.warnings if "capture.exclude" in w
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[capture",
        "x = " + "[" * 5000,
        "[capture]\nexclude = 3",
        "[run]\ncommand = 'rm -rf /'",
        "capture = 1",
        "\0",
        "n = " + "9" * 5000,
    ],
)
def test_a_malformed_workspace_file_is_ignored_with_a_warning(machine, text):
    machine.project(text)
    found = machine.resolve()
    assert (found.capture, len(found.warnings)) == (CapturePolicy(), 1)


def test_a_workspace_file_that_is_not_utf8_or_too_large_is_ignored_with_a_warning(machine):
    (machine.workspace / "mulligan.toml").write_bytes(b"# \xff\n")
    assert machine.resolve().warnings
    (machine.workspace / "mulligan.toml").write_bytes(b"#" * (settings.CONFIG_LIMIT + 1))
    assert "larger" in machine.resolve().warnings[0]


def test_a_workspace_file_is_never_read_through_a_link_nor_from_a_pipe(machine, tmp_path):
    (tmp_path / "outside.toml").write_text("[capture]\nexclude = ['*']")
    (machine.workspace / "mulligan.toml").symlink_to(tmp_path / "outside.toml")
    found = machine.resolve()
    assert found.capture.exclude == () and "not a regular file" in found.warnings[0]
    (machine.workspace / "mulligan.toml").unlink()
    os.mkfifo(machine.workspace / "mulligan.toml")
    assert "not a regular file" in machine.resolve().warnings[0]


def test_pyproject_is_read_where_there_is_no_mulligan_toml(machine):
    machine.project("[tool.mulligan.capture]\nexclude = ['p']", "pyproject.toml")
    assert machine.resolve().capture.exclude == ("p",)
    machine.project("[capture]\nexclude = ['m']")
    assert machine.resolve().capture.exclude == ("m",)


@pytest.mark.parametrize(
    "text", ["[project]\nname = 'x'", "# mulligan\n[tool", "tool = 1 # mulligan", "[tool]\nmulligan = 1", "\0"]
)
def test_a_pyproject_that_says_nothing_to_us_says_nothing(machine, text):
    machine.project(text, "pyproject.toml")
    found = machine.resolve()
    assert (found.capture, found.warnings) == (CapturePolicy(), ())


def test_a_workspace_that_does_not_exist_resolves_all_the_same(machine):
    assert settings.resolve(str(machine.workspace / "nope"), environ=machine.environ).warnings == ()


# -- git's global excludes ----------------------------------------------------------------------


def test_the_default_global_excludes_are_read(machine):
    (machine.home / ".config/git").mkdir(parents=True)
    (machine.home / ".config/git/ignore").write_bytes(b"*.swp\n")
    assert machine.resolve().capture.global_excludes == b"*.swp\n"


@pytest.mark.parametrize(
    "line",
    ["excludesFile = ~/mine", "EXCLUDESFILE=~/mine ; comment", 'excludesfile = "~/mine"', "excludesfile = {home}/mine"],
)
def test_the_configured_global_excludes_win(machine, line):
    (machine.home / "mine").write_bytes(b"*.bak\n")
    (machine.home / ".gitconfig").write_text("[core]\n\t" + line.format(home=machine.home) + "\n")
    assert machine.resolve().capture.global_excludes == b"*.bak\n"


def test_the_later_configuration_wins_and_an_include_is_followed(machine):
    (machine.home / ".config/git").mkdir(parents=True)
    (machine.home / ".config/git/config").write_text("[core]\nexcludesfile=~/first\n")
    (machine.home / ".gitconfig").write_text("[include]\npath = more.inc\n")
    (machine.home / "more.inc").write_text("[core]\nexcludesfile=~/second\n[include]\npath=more.inc\n")
    (machine.home / "first").write_bytes(b"1")
    (machine.home / "second").write_bytes(b"2")
    assert machine.resolve().capture.global_excludes == b"2"


@pytest.mark.parametrize("value", ["", "relative/path", "~/missing", "~/pipe", "~nobody-at-all/x", "~/folder"])
def test_global_excludes_that_cannot_be_read_are_none(machine, value):
    os.mkfifo(machine.home / "pipe")
    (machine.home / "folder").mkdir()
    (machine.home / ".gitconfig").write_text(f"[core]\nexcludesfile = {value}\n")
    assert machine.resolve().capture.global_excludes == b""
