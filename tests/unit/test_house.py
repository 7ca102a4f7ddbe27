"""
The rules of the house, held by a machine.

Each test reads the source as a syntax tree and names the file and line that breaks a rule, so that a failure is a
to-do list. What is allowed is written in the tables at the head; widening one of them is a decision, not a fix.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

import pytest

import mulligan
from mulligan import errors

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mulligan"
LIMITS = ROOT / "docs" / "explanation" / "limits.md"

FILE_LINES = 500
FUNCTION_LINES = 60

# Who may import whom. A layer is a package or a module directly below `mulligan`; its own modules are always allowed.
_WORDS = {"errors", "model"}
_DISK = _WORDS | {"safefs"}
_HISTORY = _DISK | {"gitformat", "usergit", "watch", "scan", "store", "diff", "timeline", "doctor"}
_ALL = _HISTORY | {
    "history",
    "remotes",
    "restore",
    "state",
    "steps",
    "engine",
    "settings",
    "present",
    "aio",
    "mulligan",
}
ALLOWED = {
    "errors": set(),
    "model": {"errors"},
    "safefs": _WORDS,
    "watch": _DISK,
    "scan": _DISK | {"gitformat", "usergit", "watch"},
    "gitformat": _DISK,
    "usergit": _DISK | {"diff", "gitformat"},
    "committing": _DISK | {"settings", "usergit"},
    "store": _DISK | {"gitformat"},
    "diff": _DISK,
    "settings": _DISK,
    "present": _WORDS | {"diff"},
    "doctor": _DISK | {"gitformat", "scan", "store", "diff", "timeline", "remotes"},
    "timeline": _DISK | {"gitformat", "scan", "store", "diff", "remotes"},
    "history": _DISK | {"scan", "store", "diff", "timeline"},
    "restore": _HISTORY,
    "steps": _HISTORY | {"restore"},
    "state": _HISTORY | {"restore"},
    # Verbs on top of history that start git or talk to a network. The layers below ask `remotes.pulled` and `remotes.tables`,
    # which do neither, and only in a store that has a remote.
    "remotes": _HISTORY | {"engine", "settings"},
    # `forks` from the methods that call it: verbs on top, loaded when they are asked for.
    "engine": _HISTORY | {"forks", "history", "remotes", "restore", "state", "steps", "settings"},
    "aio": _HISTORY | {"restore", "state", "settings", "engine", "mulligan"},
    "environments": _ALL | {"committing"},
    "loop": _ALL | {"committing"},
    "dialects": _ALL | {"committing", "loop", "environments"},
    # Names modules of the dialects as text, and imports them when they are asked for.
    "compat": set(),
    "hooks": _ALL | {"loop"},
    "adapters": _ALL | {"hooks"},
    "install": _DISK,
    "forks": _ALL | {"committing", "loop"},
    # What the servers of `mcp` and `ui` both need to be safe from web sites; it knows nothing of ours.
    "loopback": set(),
    "mcp": _ALL | {"forks", "loopback"},
    "ui": _WORDS | {"loopback", "safefs", "scan", "timeline", "history", "steps", "engine", "forks", "present"},
    "plugin": {"dialects", "errors"},
    "__init__": _ALL,
    "__main__": {"cli"},
    "cli": _ALL | {"loop", "hooks", "install", "dialects", "environments", "forks", "mcp", "ui"},
}
# Doors: they print, exit and read the environment. Everything else is the core.
DOORS = {"cli", "__main__", "plugin"}

# What the core may take from `os` outside safefs: looking, never changing. Constants (O_…, SEEK_…) are free.
HARMLESS_OS = {
    *(
        "stat",
        "lstat",
        "fstat",
        "walk",
        "statvfs",
        "fstatvfs",
        "stat_result",
        "scandir",
        "listdir",
        "DirEntry",
        "readlink",
    ),
    *("fsencode", "fsdecode", "fspath", "PathLike", "path", "sep", "strerror", "major", "minor", "makedev"),
    "kill",  # with signal 0: does this process live?
    *("getpid", "getuid", "geteuid", "getgid", "getegid", "urandom", "uname", "name"),
    *("cpu_count", "read", "pread", "lseek", "dup", "close"),
    *("register_at_fork", "access"),
}
# What a layer that runs the commands of agents needs beyond that: to end all of them.
ENDS_PROCESSES = {"loop": {"killpg"}}
# Modules that write files by path, start processes or reach the network, and the layers that may use them.
FENCED_MODULES: dict[str, set[str]] = {
    "shutil": set(),
    "tempfile": set(),
    "pathlib": {"settings", "dialects", "environments"},
    "fileinput": set(),
    "io": {"present"},
    "mmap": {"safefs"},
    "fcntl": {"safefs"},
    "ctypes": {"safefs"},
    "subprocess": {"committing", "environments", "forks", "loop", "remotes"},
    "multiprocessing": set(),
    "pty": set(),
    "socket": set(),
    "http": set(),
    "urllib": {"ui"},  # only to read addresses
    "ssl": set(),
    "asyncio": {"aio", "loop", "loopback", "dialects", "mcp", "adapters", "ui"},
}
PATH_METHODS = {"write_text", "write_bytes", "read_text", "read_bytes", "touch", "symlink_to", "hardlink_to"}
HOME_AND_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv", "expanduser", "expandvars"}
SPOKEN = {"print", "input", "exit", "quit", "breakpoint", "sys.stdout", "sys.stderr", "sys.stdin", "sys.exit"}
STARTS_A_PROCESS = re.compile(r"(os|posix)\.(exec|spawn|posix_spawn|fork|system|popen)")
# What no other system has, or not every one. `safefs/platform/linux.py` is the place for it.
LINUX_ONLY = re.compile(
    r"os\.(O_(PATH|TMPFILE|NOATIME|DIRECT)|\w*xattr|XATTR_\w+|sched_\w+|posix_fa\w+|POSIX_FADV_\w+|memfd_create|MFD_\w+"
    r"|eventfd\w*|EFD_\w+|pidfd_open|P_PIDFD|timerfd_\w+|splice|copy_file_range|getrandom|GRND_\w+|SEEK_(DATA|HOLE)|unshare|setns"
    r"|CLONE_\w+|fdatasync|pipe2|RWF_\w+|process_cpu_count)|fcntl\.F_(OFD_|ADD_SEALS|SETPIPE)\w*|time\.CLOCK_(BOOTTIME|TAI)|select\.epoll"
)
# A script that runs in a container; and the client of watchers, which only Linux has, and which loads nothing of safefs.
READS_PROC = {"environments/container/execute.py", "cli/client.py"}
BROAD = {"OSError", "IOError", "EnvironmentError", "Exception", "BaseException"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


class Module:
    """One source file: its layer, its lines, its tree."""

    def __init__(self, path: Path, root: Path = SOURCE) -> None:
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.layer = self.name.split("/")[0].removesuffix(".py")
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text, self.name)

    def at(self, node: ast.AST, what: str) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}: {what}"

    def imports(self) -> Iterator[tuple[ast.stmt, str]]:
        """Yields every imported module, absolute (`from x import y` yields both `x` and `x.y`)."""
        package = ["mulligan", *self.name.split("/")[:-1]]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) + 1 - node.level] if node.level else []
                origin = ".".join([*base, *([node.module] if node.module else [])])
                yield node, origin
                yield from ((node, f"{origin}.{alias.name}") for alias in node.names)

    @cached_property
    def uses(self) -> list[tuple[ast.AST, str]]:
        """Every dotted name with its import resolved: `from os import replace as r; r(…)` is here as `os.replace`."""
        known: dict[str, str] = {}
        found: list[tuple[ast.AST, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                known |= {a.asname: a.name for a in node.names if a.asname}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute | ast.Name) and (dotted := _dotted(node)):
                head, _, rest = dotted.partition(".")
                found.append((node, ".".join(filter(None, (known.get(head, head), rest)))))
        return found

    def defines(self, name: str) -> bool:
        return any(
            (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name)
            or (isinstance(node, ast.alias) and (node.asname or node.name) == name)
            for node in ast.walk(self.tree)
        )


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


@cache
def modules() -> tuple[Module, ...]:
    return tuple(Module(path) for path in sorted(SOURCE.rglob("*.py")))


def core() -> list[Module]:
    return [module for module in modules() if module.layer not in DOORS and module.name != "compat/__main__.py"]


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def expect_none(findings: list[str], rule: str) -> None:
    assert not findings, f"{rule}\n  " + "\n  ".join(sorted(set(findings)))


# -- layers -------------------------------------------------------------------------------------


def test_layers_import_only_downward() -> None:
    """A module imports its own layer and those that the table allows, for types too."""
    findings = []
    for module in modules():
        if module.layer not in ALLOWED:
            findings.append(f"{module.name}: the layer {module.layer!r} is not in ALLOWED")
            continue
        for node, name in module.imports():
            parts = name.split(".")
            if parts[0] != "mulligan":
                continue
            layer = parts[1] if len(parts) > 1 else "mulligan"
            known = layer in ALLOWED or layer == "mulligan"
            if isinstance(node, ast.ImportFrom) and not known:
                continue  # `from mulligan import open`: the bare package was yielded as well
            if isinstance(node, ast.ImportFrom) and len(parts) == 1 and _imports_layers_only(node):
                continue  # `from mulligan import errors` is about errors alone
            if layer != module.layer and layer not in ALLOWED[module.layer]:
                findings.append(module.at(node, f"{module.layer} must not import {layer}"))
    expect_none(findings, "Layers import only downward; see docs/explanation/architecture.md.")


def _imports_layers_only(node: ast.ImportFrom) -> bool:
    return all(alias.name in ALLOWED for alias in node.names)


# -- walls --------------------------------------------------------------------------------------


def disk_findings(module: Module) -> Iterator[str]:
    """Yields every place where a module outside safefs opens or changes a file."""
    allowed = HARMLESS_OS | (HOME_AND_ENVIRONMENT if module.layer == "settings" else set())
    allowed |= ENDS_PROCESSES.get(module.layer, set())
    for node, name in module.uses:
        first, _, rest = name.partition(".")
        attribute = rest.partition(".")[0]
        if first in {"os", "posix"} and attribute and not attribute.isupper() and attribute not in allowed:
            yield module.at(node, f"os.{attribute} belongs to safefs")
        if (name == "open" and not module.defines("open")) or name in {"io.open", "builtins.open"}:
            yield module.at(node, f"{name}() belongs to safefs")
    qualified = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in PATH_METHODS:
            yield module.at(node, f".{node.attr} belongs to safefs")
        if isinstance(node, ast.Name) and node.id == "os" and id(node) not in qualified:
            yield module.at(node, "os is handed around whole")


def process_findings(module: Module) -> Iterator[str]:
    """Yields every place where a module could start a process or reach the network."""
    for node, name in module.imports():
        allowed = FENCED_MODULES.get(name.split(".")[0])
        if allowed is not None and module.layer not in allowed:
            yield module.at(node, f"imports {name}")
    for node, name in module.uses:
        if name.endswith("ProcessPoolExecutor") or STARTS_A_PROCESS.match(name):
            yield module.at(node, f"{name} starts a process")


def environment_findings(module: Module) -> Iterator[str]:
    """Yields every place where a module reads the environment, the arguments or the home directory."""
    for node, name in module.uses:
        if name.rpartition(".")[2] in HOME_AND_ENVIRONMENT or name in {"pathlib.Path.home", "sys.argv"}:
            yield module.at(node, name)


def output_findings(module: Module) -> Iterator[str]:
    """Yields every place where a module prints, asks or exits."""
    # `input` is also what subprocess calls the bytes for a program.
    given = {node.arg for node in ast.walk(module.tree) if isinstance(node, ast.arg)} & {"input"}
    for node, name in module.uses:
        if name in SPOKEN - given or name.startswith(("sys.stdout.", "sys.stderr.", "sys.stdin.")):
            yield module.at(node, name)


def linux_findings(module: Module) -> Iterator[str]:
    for node, name in module.uses:
        if LINUX_ONLY.fullmatch(name):
            yield module.at(node, name)
    docstrings = _docstrings(module)
    texts = (node for node in ast.walk(module.tree) if isinstance(node, ast.Constant) and node not in docstrings)
    for node in texts:
        said = node.value.encode("utf-8", "surrogatepass") if isinstance(node.value, str) else node.value
        if isinstance(said, bytes) and b"/proc" in said and module.name not in READS_PROC:
            yield module.at(node, f"the path {node.value!r}")


def _docstrings(module: Module) -> set[ast.AST]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(module.tree) if isinstance(node, kinds) and node.body]
    return {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}


def test_only_the_linux_platform_uses_what_only_linux_has() -> None:
    """Everything else asks `safefs.platform.HERE`, so that the package runs on any UNIX."""
    others = [module for module in modules() if module.name != "safefs/platform/linux.py"]
    expect_none([found for module in others for found in linux_findings(module)], "Ask safefs.platform.HERE instead.")


def test_only_safefs_changes_or_opens_files() -> None:
    """Outside safefs the core looks at files by descriptor; it never opens, writes, renames or removes one itself."""
    findings = [found for module in core() if module.layer != "safefs" for found in disk_findings(module)]
    expect_none(findings, "Only safefs touches disks.")


def test_the_core_starts_no_process_and_reaches_no_network() -> None:
    """Modules that could are fenced, each with the layers that may use it."""
    findings = [found for module in core() for found in process_findings(module)]
    expect_none(findings, "The core starts no process, opens no socket and writes no file by path.")


def test_only_settings_and_the_doors_read_environment_and_home() -> None:
    """The library gets both as values; native code and the platform are chosen once, when they are loaded."""
    known = {"safefs/native.py", "safefs/platform/__init__.py"}
    asked = [module for module in core() if module.layer != "settings" and module.name not in known]
    findings = [found for module in asked for found in environment_findings(module)]
    expect_none(findings, "Only settings and the doors read the environment, the arguments and the home directory.")


def test_the_library_never_prints_asks_or_exits() -> None:
    """Output belongs to the doors."""
    expect_none([found for module in core() for found in output_findings(module)], "The library never speaks.")


@pytest.mark.parametrize(
    ("wall", "source"),
    [
        (disk_findings, "import os\nos.open('x', 0)"),
        (disk_findings, "import os as o\no.replace('a', 'b')"),
        (disk_findings, "from os import unlink as gone\ngone('x')"),
        (disk_findings, "import os\ngetattr(os, 'rem' + 'ove')('x')"),
        (disk_findings, "open('x')"),
        (disk_findings, "Path('x').write_text('y')"),
        (linux_findings, "import os\nflags = os.O_PATH"),
        (linux_findings, "from os import setxattr as mark\nmark('x', 'y', b'')"),
        (linux_findings, "import os\nos.listdir(b'/proc/self/task')"),
        (process_findings, "import subprocess"),
        (process_findings, "def f():\n    from multiprocessing import Pool"),
        (process_findings, "import os\nos.execv('x', [])"),
        (process_findings, "from concurrent.futures import ProcessPoolExecutor as P\nP()"),
        (process_findings, "import shutil"),
        (environment_findings, "import os\nos.environ['HOME']"),
        (environment_findings, "from os.path import expanduser as e\ne('~')"),
        (environment_findings, "from pathlib import Path\nPath.home()"),
        (output_findings, "print('x')"),
        (output_findings, "import sys\nsys.stderr.write('x')"),
    ],
)
def test_the_walls_hold(tmp_path: Path, wall: Callable[[Module], Iterator[str]], source: str) -> None:
    """Each wall catches the code it was built against; else its silence would mean nothing."""
    (tmp_path / "engine.py").write_text(source + "\n", encoding="utf-8")
    assert list(wall(Module(tmp_path / "engine.py", tmp_path)))


# -- shape --------------------------------------------------------------------------------------


def test_every_dependency_is_installed() -> None:
    """A checkout that gained a dependency is installed again before anything else is judged."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[^\w.-]", line)[0] for line in declared]
    missing = [name for name in names if not next(metadata.Distribution.discover(name=name), None)]
    assert not missing, f"Not installed here: {', '.join(missing)}. Run: pip install {' '.join(missing)}"


def test_files_and_functions_stay_small() -> None:
    """A file fits in one head, a function on one screen."""
    findings = []
    for module in modules():
        if len(module.lines) > FILE_LINES:
            findings.append(f"{module.name}: {len(module.lines)} lines, {FILE_LINES} allowed")
        for node in functions(module):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                findings.append(module.at(node, f"{node.name} has {length} lines, {FUNCTION_LINES} allowed"))
    expect_none(findings, "Too long.")


def test_modules_are_named_after_their_subject() -> None:
    """No `utils`: what has no name has no owner."""
    expect_none([m.name for m in modules() if m.path.stem.strip("_") in VAGUE], "Name the subject.")


#: Layers whose names other systems chose; `aio` repeats ours. Two more are exported by a dialect under their own names.
NAMED_BY_OTHERS = {"dialects", "adapters", "aio"}
EXPORTED = {"Checkpoint", "GitState", "LoopConfig"}


def test_a_class_name_exists_once() -> None:
    """A reader who searches for a class finds one."""
    places: dict[str, list[str]] = {}
    for module in modules():
        for node in ast.walk(module.tree) if module.layer not in NAMED_BY_OTHERS else ():
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module.at(node, node.name))
    twice = [", ".join(found) for name, found in places.items() if len(found) > 1 and name not in EXPORTED]
    expect_none(twice, "Give each class a name of its own.")


def test_modules_with_code_postpone_annotations() -> None:
    """Annotations cost nothing at import, so types are imported plainly."""
    findings = [
        module.name
        for module in modules()
        if any(functions(module)) and ("from __future__ import annotations" not in module.lines)
    ]
    expect_none(findings, "Add `from __future__ import annotations`.")


# -- words --------------------------------------------------------------------------------------


def test_everything_public_has_a_docstring() -> None:
    """Modules, classes, functions and methods without a leading underscore say what they are."""
    findings = []
    for module in modules():
        if not ast.get_docstring(module.tree):
            findings.append(f"{module.name}:1: the module")
        findings += [module.at(node, node.name) for node in _public(module.tree) if not ast.get_docstring(node)]
    expect_none(findings, "These have no docstring.")


def _public(parent: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in parent.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        decorators = {_dotted(d).rpartition(".")[2] for d in node.decorator_list}
        if decorators & {"overload", "setter", "override"}:
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            yield from _public(node)


def test_no_error_is_swallowed_in_silence() -> None:
    """No bare `except`; a broad one whose body does nothing has a comment that names the reason."""
    findings = []
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            if node.type is None:
                findings.append(module.at(node, "bare except"))
                continue
            caught = {_dotted(t) for t in (node.type.elts if isinstance(node.type, ast.Tuple) else [node.type])}
            idle = all(isinstance(s, ast.Pass | ast.Continue) for s in node.body)
            around = module.lines[max(node.lineno - 2, 0) : node.end_lineno]
            if caught & BROAD and idle and not any("#" in line for line in around):
                findings.append(module.at(node, f"except {', '.join(sorted(caught))} without a reason"))
    expect_none(findings, "Errors swallowed in silence.")


def test_nothing_is_left_to_do() -> None:
    """Unfinished thoughts belong to the issue tracker."""
    findings = [
        f"{module.name}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.lines, 1)
        if re.search(r"#.*\b(TODO|FIXME|XXX|HACK)\b", line)
    ]
    expect_none(findings, "Left to do.")


# -- confessed limits ---------------------------------------------------------------------------

# A lookahead, since the next marker may stand within the text of this one.
MARKER = re.compile(r"\b(?:RACE|LIMIT): (?=(.{10,400}))", re.DOTALL)
ENTRY = re.compile(r"^- `(?P<file>[\w/]+\.py)`: (?P<text>.*)$", re.MULTILINE)


def _plain(text: str) -> list[str]:
    joined = re.sub(r"\n[ \t]*#?[ \t]*", " ", text)
    return [word for raw in joined.split() if (word := raw.strip(".,;:()`*_\"'").lower())]


def _marked() -> Iterator[tuple[str, str]]:
    for module in modules():
        for found in MARKER.finditer(module.text):
            yield module.name, " ".join(_plain(found[1])[:5])


def test_every_accepted_race_and_limit_is_confessed_to_users() -> None:
    """Each `RACE:` or `LIMIT:` in the source has an entry in limits.md: its file and its first five words."""
    entries = [(e["file"], " ".join(_plain(e["text"]))) for e in ENTRY.finditer(LIMITS.read_text(encoding="utf-8"))]
    findings = [
        f"- `{file}`: {words} …"
        for file, words in _marked()
        if not any(file == entry_file and text.startswith(words) for entry_file, text in entries)
    ]
    expect_none(findings, "Add these to the section 'Marked in the source' of docs/explanation/limits.md:")


def test_every_confession_is_still_true_of_the_source() -> None:
    """An entry in limits.md whose marker is gone is gone too."""
    marked = list(_marked())
    findings = [
        entry[0]
        for entry in ENTRY.finditer(LIMITS.read_text(encoding="utf-8"))
        if not any(
            entry["file"] == file and " ".join(_plain(entry["text"])).startswith(words) for file, words in marked
        )
    ]
    expect_none(findings, "limits.md confesses what the source no longer marks:")


# -- the public surface -------------------------------------------------------------------------


def test_the_public_surface_is_sorted_and_importable() -> None:
    """`__all__` is the whole surface."""
    names = list(mulligan.__all__)
    assert names == sorted(names)
    assert len(names) == len(set(names))
    expect_none([name for name in names if not hasattr(mulligan, name)], "Named in __all__ and missing.")


def test_the_public_surface_holds_every_error_and_every_word() -> None:
    """Whatever a caller can get hold of has a public name."""
    expected = {"open", "Workspace", "Checkpoint", "Diff", "RestorePlan", "RestoreReport", "CheckReport", "GitState"}
    expected |= {"NotCaptured"} | {cls.__name__ for cls in _error_classes()}
    expect_none(sorted(expected - set(mulligan.__all__)), "Missing in mulligan.__all__.")


# -- errors -------------------------------------------------------------------------------------

TREE_LINE = re.compile(r"^(?P<stem>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s+exit (?P<code>\d+))?(?:\s|$)")


def _error_classes() -> list[type[errors.MulliganError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [cls for cls in found if issubclass(cls, errors.MulliganError)]


def _drawn() -> dict[str, tuple[str | None, str | None]]:
    """Returns what the tree at the head of errors.py says: name → (parent, exit code)."""
    drawn: dict[str, tuple[str | None, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if not (found := TREE_LINE.match(line)) or (found["code"] is None and "──" not in line):
            continue
        column = len(found["stem"])
        above = [(c, name) for c, name in above if c < column]
        drawn[found["name"]] = (above[-1][1] if above else None, found["code"])
        above.append((column, found["name"]))
    return drawn


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    """Every class stands in the drawing below its base, with its exit code (a base of others may leave it out)."""
    drawn, findings = _drawn(), []
    for cls in _error_classes():
        if cls.__name__ not in drawn:
            findings.append(f"{cls.__name__} is not drawn")
            continue
        parent, code = drawn[cls.__name__]
        if parent is not None and parent not in {base.__name__ for base in cls.__bases__}:
            findings.append(f"{cls.__name__} is drawn below {parent}")
        if code != str(cls.exit_code) and not (code is None and cls.__subclasses__()):
            findings.append(f"{cls.__name__} is drawn with exit {code}, and has {cls.exit_code}")
    findings += [f"{name} is drawn and does not exist" for name in drawn if not hasattr(errors, name)]
    expect_none(findings, "errors.py and its drawing differ.")
