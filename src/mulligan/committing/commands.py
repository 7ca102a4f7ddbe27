"""
The one place that runs git, for those who promise commits on the user's own branch.

Promise: nothing but git itself is started. Hooks, monitors, filters, signing, external diffs, editors, pagers, prompts,
credential helpers, aliases and transports are off, whatever the repository's configuration says; neither `GIT_*` variables
nor the user's and the system's configuration reach the command, except what cannot start a program (identity, excludes,
line endings, safe directories). The repository is the one that mulligan itself sees, never one that git would find
elsewhere. Arguments are a list and never pass a shell. Everything else in mulligan reads repositories as data.

A repository's own configuration is untrusted, and git obeys it: it names programs. Every such setting gets a value that
starts nothing, given to git in a way that wins over every file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mulligan.errors import GitFailed, GitMissing
from mulligan.settings.variables import Tools, tools
from mulligan.usergit.position import points_back
from mulligan.usergit.repository import Repository

# A program that certainly fails: where git has no way to unset a setting, it fails closed instead of obeying.
_REFUSE = "false"

# Switched off for every command, whether or not they are set.
SWITCHED_OFF: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", _REFUSE),
    ("core.askPass", ""),
    ("core.editor", _REFUSE),
    ("sequence.editor", _REFUSE),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", _REFUSE),
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("tag.forceSignAnnotated", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", _REFUSE),
    ("gpg.openpgp.program", _REFUSE),
    ("gpg.x509.program", _REFUSE),
    ("gpg.ssh.program", _REFUSE),
    ("gpg.ssh.defaultKeyCommand", _REFUSE),
    ("credential.helper", ""),
    ("init.templateDir", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("safe.bareRepository", "explicit"),
    ("advice.detachedHead", "false"),
)

# The last part of a name, and the value that starts nothing: `filter.lfs.clean`, `diff.pdf.textconv`, `merge.npm.driver`, …
_NAMED_BY_A_REPOSITORY: dict[str, str] = {
    "clean": "",
    "smudge": "",
    "process": "",
    "required": "false",
    "helper": "",
    "update": "none",
    "ignore": "all",
    "textconv": _REFUSE,
    "command": _REFUSE,
    "cmd": _REFUSE,
    "program": _REFUSE,
    "driver": _REFUSE,
    "external": _REFUSE,
    "difffilter": _REFUSE,
    "packobjectshook": _REFUSE,
    "uploadpack": _REFUSE,
    "receivepack": _REFUSE,
    "vcs": "",
    "tunnel": _REFUSE,
}
# Settings of the user's own configuration that stay in force; none of them can start a program.
_KEPT = frozenset(
    {
        *("user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email"),
        *("core.excludesfile", "core.attributesfile", "core.autocrlf", "core.eol", "core.ignorecase"),
        *("core.precomposeunicode", "core.filemode", "core.symlinks", "init.defaultbranch", "safe.directory"),
    }
)
IDENTITY = (("user.name", "mulligan"), ("user.email", "mulligan@localhost"))


class Setting(NamedTuple):
    """One line of configuration and whose it is: `system`, `global`, `local`, `worktree` or `command`."""

    scope: str
    key: str
    value: str


def parse_settings(listed: bytes) -> list[Setting]:
    """Returns what `git config --list -z --show-scope` printed."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, rest in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = rest.partition("\n")
        found.append(Setting(scope, key, value))
    return found


def overrides(settings: Iterable[Setting]) -> list[tuple[str, str]]:
    """Returns the settings that win over every file: the user's harmless ones, then what makes the rest harmless."""
    known = list(settings)
    chosen = [(s.key, s.value) for s in known if s.scope in {"system", "global"} and s.key.lower() in _KEPT]
    # A repository's own word comes after its user's, as git itself has it.
    chosen += [(s.key, s.value) for s in known if s.scope in {"local", "worktree"} and _weighs(s.key, chosen)]
    named = {key.lower() for key, _ in chosen} | {s.key.lower() for s in known}
    chosen += [(key, value) for key, value in IDENTITY if key not in named]
    return [*chosen, *SWITCHED_OFF, *dict.fromkeys(_disarmed(known))]


def filters(settings: Iterable[Setting]) -> frozenset[str]:
    """Returns the names of the filters that are defined anywhere: their files cannot be converted without a program."""
    keys = (setting.key.split(".") for setting in settings if setting.value)
    return frozenset(
        ".".join(parts[1:-1]) for parts in keys if parts[0].lower() == "filter" and parts[-1].lower() in _FILTERING
    )


_FILTERING = {"clean", "smudge", "process"}


def _weighs(key: str, chosen: list[tuple[str, str]]) -> bool:
    return key.lower() in _KEPT and any(key.lower() == other.lower() for other, _ in chosen)


def _disarmed(settings: Iterable[Setting]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        section, _, rest = setting.key.partition(".")
        last = rest.rpartition(".")[2].lower()
        if section.lower() == "alias":
            yield setting.key, "mulligan-obeys-no-alias"
        elif section.lower() == "hook":
            yield f"{setting.key.rpartition('.')[0]}.enabled", "false"
        elif section.lower() == "pager":
            yield setting.key, "false"
        elif last in _NAMED_BY_A_REPOSITORY and "." in rest:
            yield setting.key, _NAMED_BY_A_REPOSITORY[last]


TIMEOUT = 300.0
_GRACE = 5.0
# Commands that would consult external diff programs or converters to text.
_SHOWS_DIFFERENCES = frozenset({"diff", "log", "show", "format-patch", "diff-tree", "diff-index", "diff-files"})
# Commands that would look into submodules, whose configuration is not overruled here.
_LOOKS_INTO_SUBMODULES = frozenset({"status", "diff", "diff-index", "diff-files"})
# Commands that make a repository: they must not be pointed at the one above.
_MAKES_A_REPOSITORY = frozenset({"init", "clone"})


class GitRun(NamedTuple):
    """What a command of git left: its exit code and what it said."""

    code: int
    out: bytes
    err: bytes

    @property
    def complaint(self) -> str:
        """The first line of what it said on standard error."""
        said = self.err.decode("utf-8", "replace").strip()
        return said.splitlines()[0] if said else f"exit code {self.code}"


def run(
    root: str,
    args: Sequence[str],
    *,
    input: bytes = b"",  # noqa: A002 - the name subprocess has for it
    check: bool = False,
    timeout: float = TIMEOUT,
) -> GitRun:
    """Runs one command of git for a workspace; with `check`, a failure raises GitFailed."""
    return Git(root).run(args, input=input, check=check, timeout=timeout)


class Git:
    """Git for one workspace, with its configuration read once. Use it for one operation, then let it go."""

    def __init__(self, root: str, *, where: Tools | None = None) -> None:
        self.root = os.path.realpath(root)
        self._tools = where or tools()
        found = Repository.find(self.root, home=self._tools.home)
        self.prefix: bytes | None = None
        self.top = self.root
        #: Where git keeps what belongs to this work tree alone, and what all work trees share; "" without a repository.
        self.directory = self.shared = ""
        #: Whether the repository itself says that this is its work tree; without that, nothing is committed to it.
        self.is_own = False
        if found is not None:
            with found:
                self.is_own = points_back(found)
                self.prefix = found.prefix
                self.directory, self.shared = os.fsdecode(found.git_path), os.fsdecode(found.common_path)
            self.top = self.root[: -len(os.fsdecode(found.prefix)) - 1] if found.prefix else self.root
        self._settings: list[Setting] | None = None

    @cached_property
    def _program(self) -> str:
        return _find(self._tools.path, self.root)

    @property
    def is_repository(self) -> bool:
        """Whether the workspace lies in a repository."""
        return self.prefix is not None

    @property
    def settings(self) -> list[Setting]:
        """The configuration of the user and of the repository."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    @property
    def filters(self) -> frozenset[str]:
        """The names of all filters in the configuration; they are never run."""
        return filters(self.settings)

    def run(self, args: Sequence[str], *, input: bytes = b"", check: bool = False, timeout: float = TIMEOUT) -> GitRun:  # noqa: A002
        """Runs one command; with `check`, a failure raises GitFailed."""
        words = [str(word) for word in args]
        if not words or words[0].startswith("-") or any("\0" in word for word in words):
            raise ValueError("the first argument is a command of git, and none holds a NUL")
        environment = self._environment(makes=words[0] in _MAKES_A_REPOSITORY)
        environment |= _as_variables(overrides(self.settings))
        if words[0] == "clone":
            # From a directory of this machine alone; of what configures the source, nothing is started for that.
            environment["GIT_ALLOW_PROTOCOL"] = "file"
        if words[0] in _SHOWS_DIFFERENCES:
            words[1:1] = ["--no-ext-diff", "--no-textconv"]
        if words[0] in _LOOKS_INTO_SUBMODULES:
            words[1:1] = ["--ignore-submodules=dirty"]
        ran = self._start(words, environment, input, timeout)
        if check and ran.code:
            raise GitFailed(
                f"git {words[0]} failed: {ran.complaint}. What git could not do was not done.", hint="git status"
            )
        return ran

    def _read_settings(self) -> list[Setting]:
        environment = self._environment(makes=False)
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
            environment.pop(name, None)
        environment |= _as_variables([("mulligan.heard", "true")])
        ran = self._start(["config", "--list", "-z", "--show-scope", "--includes"], environment, b"", TIMEOUT)
        settings = parse_settings(ran.out)
        if ran.code:
            raise GitFailed(f"git cannot read its configuration: {ran.complaint}. Nothing was changed.")
        if not any(setting.key == "mulligan.heard" for setting in settings):
            # Without these variables what a repository configures could not be overruled.
            raise GitFailed(
                f"{self._program} is older than git 2.31. Nothing was changed.", hint="Install a newer git."
            )
        return [setting for setting in settings if setting.scope != "command"]

    def _environment(self, *, makes: bool) -> dict[str, str]:
        environment = {
            "PATH": self._tools.path,
            "HOME": self._tools.home,
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.root),
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": "false",
            "GIT_EDITOR": "false",
            "GIT_SEQUENCE_EDITOR": "false",
            "GIT_PAGER": "cat",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        if self._tools.config:
            environment["XDG_CONFIG_HOME"] = self._tools.config
        if self.is_repository and not makes:
            environment |= {"GIT_DIR": os.path.join(self.top, ".git"), "GIT_WORK_TREE": self.top}
        return environment

    def _start(self, words: Sequence[str], environment: Mapping[str, str], given: bytes, timeout: float) -> GitRun:
        switched_off = [word for key, value in SWITCHED_OFF for word in ("-c", f"{key}={value}")]
        line = [self._program, "--no-pager", "--literal-pathspecs", *switched_off, *words]
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of words, the first one git itself
                line,
                cwd=self.root,
                env=dict(environment),
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror}. Nothing was changed.") from error
        with process:
            try:
                out, err = process.communicate(given or None, timeout=timeout)
            except BaseException as error:
                _end(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(
                        f"git {words[0]} took longer than {timeout:g} seconds and was stopped.", hint="git status"
                    ) from None
                raise
        return GitRun(process.returncode, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command gently, so that git takes its lock files away; then for certain."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _as_variables(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns configuration as variables: a name that holds `=` or a newline cannot become another setting."""
    rows = list(settings)
    named = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(rows)}
    valued = {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(rows)}
    return {"GIT_CONFIG_COUNT": str(len(rows)), **named, **valued}


def _find(path: str, root: str) -> str:
    """Returns git's program; skips relative directories and those in the workspace."""
    for directory in path.split(":"):
        candidate = os.path.join(directory, "git")
        inside = os.path.realpath(candidate).startswith(root.rstrip("/") + "/")
        if os.path.isabs(directory) and not inside and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise GitMissing(
        "git is not installed, or not in a directory of PATH. Nothing was changed; mulligan's own checkpoints need no git.",
        hint="Install git, or use: mulligan save",
    )
