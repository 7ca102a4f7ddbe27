"""
Configuration that makes git harmless: what a repository may say, and what must not start a program.

A repository's own configuration is untrusted: its author wrote it. Git obeys it: filters, hooks, monitors, helpers
and drivers are programs that it names. Here every such setting gets a value that starts nothing, given to git in a way that
wins over every file. Values only; nothing is run and nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

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
