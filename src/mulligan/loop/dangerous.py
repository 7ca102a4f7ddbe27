"""
The list of what is dangerous, as data: programs, options, subcommands, and words in the names of tools.

Adding a line here is all it takes to make one more command risky; `risk.py` reads it.
"""

from __future__ import annotations

import re

Flags = tuple[str, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Risky however they are called.
ANY_USE = {
    "rm": "deletes files",
    "unlink": "deletes a file",
    "shred": "destroys files",
    "srm": "destroys files",
    "rimraf": "deletes directories",
    "truncate": "cuts files off",
    "dd": "overwrites what it writes to",
    "wipefs": "erases a disk",
    "mv": "may replace what is there",
    "cp": "may replace what is there",
    "patch": "rewrites files",
    "unzip": "may replace what is there",
}

#: Risky with one of these options.
WITH_FLAG: dict[str, tuple[tuple[Flags, str], ...]] = {
    "chmod": ((("-R", "--recursive"), "-R changes the modes of a whole tree"),),
    "chown": ((("-R", "--recursive"), "-R changes the owner of a whole tree"),),
    "chgrp": ((("-R", "--recursive"), "-R changes the group of a whole tree"),),
    "sed": ((("-i", "--in-place"), "-i rewrites files in place"),),
    "perl": ((("-i",), "-i rewrites files in place"),),
    "find": ((("-delete",), "-delete deletes what it finds"),),
    "rsync": ((("--delete", "--delete-after", "--delete-before", "--remove-source-files"), "deletes files"),),
    "tar": ((("-x", "xf", "xzf", "xvf", "--extract"), "may replace what is there"),),
    "ln": ((("-f", "--force"), "-f replaces what is there"),),
    "npx": ((("rimraf",), "rimraf deletes directories"),),
}

_REMOVE = frozenset({"uninstall", "remove", "rm", "purge", "autoremove", "prune", "un"})
#: Risky with one of these subcommands.
SUBCOMMANDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "pip3", "pipx", "npm", "pnpm", "yarn", "bun", "apt", "apt-get", "dnf", "yum"), _REMOVE),
    **dict.fromkeys(("brew", "cargo", "gem", "poetry", "uv", "conda", "mamba", "pacman", "apk", "snap"), _REMOVE),
    **dict.fromkeys(("make", "ninja", "gradle", "mvn", "bazel"), frozenset({"clean", "distclean", "expunge"})),
    **dict.fromkeys(("docker", "podman"), frozenset({"prune", "rm", "rmi", "down"})),
    "kubectl": frozenset({"delete", "drain", "replace"}),
    "terraform": frozenset({"destroy", "apply"}),
    "alembic": frozenset({"downgrade"}),
    "rails": frozenset({"db:drop", "db:reset", "db:rollback"}),
    "rake": frozenset({"db:drop", "db:reset", "db:rollback"}),
    "prisma": frozenset({"reset"}),
    "svn": frozenset({"revert", "delete", "rm"}),
    "hg": frozenset({"revert", "purge", "strip", "update"}),
}

#: They run the rest of their arguments, or words from their input, as a command.
WRAPPERS = _words(
    "sudo doas env nohup time command exec nice ionice stdbuf timeout xargs parallel builtin busybox setsid watch "
    "chroot unshare flock docker podman kubectl uv poetry pipenv npx then do else if while until ! {"
)
#: They run text as a command.
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "eval", "ssh", "su", "script"})

#: Text that is dangerous wherever it stands: in a query, in a one-line program, in a here document.
IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\bdrop\s+(table|database|schema|view|index|collection|column)\b", re.IGNORECASE),
        "DROP removes data",
    ),
    (re.compile(r"\btruncate\s+table\b", re.IGNORECASE), "TRUNCATE removes data"),
    (re.compile(r"\bdelete\s+from\s+[\w.\"`]+\s*(;|$|[\"'])", re.IGNORECASE), "DELETE without WHERE removes data"),
    (re.compile(r"\bshutil\.(rmtree|move)\b"), "the program removes or moves files"),
    (re.compile(r"\bos\.(remove|unlink|rmdir|removedirs|rename|replace|truncate)\b"), "the program removes files"),
    (re.compile(r"\.(unlink|rmdir)\(|\bfs\.(rm|unlink|rmdir|truncate)(Sync)?\("), "the program removes files"),
)

#: Programs that change nothing: True, or the subcommands of which that is true.
READING_PROGRAMS: dict[str, bool | frozenset[str]] = {
    **dict.fromkeys(
        _words(
            "ls cat head tail less more grep egrep rg ag wc sort uniq cut file stat du df pwd echo printf which whoami date "
            "true false test [ diff cmp tree uname id printenv basename dirname realpath readlink jq nl od hexdump cd"
        ),
        True,
    ),
    "git": frozenset(
        {"status", "log", "diff", "show", "blame", "grep", "ls-files", "rev-parse", "describe", "shortlog"}
    ),
}

# Words in the names of tools.
DANGEROUS_WORDS = _words(
    "delete remove rm unlink erase purge wipe drop truncate destroy overwrite move rename mv reset clean uninstall rebase "
    "revert restore checkout rollback discard"
)
CHANGING_WORDS = _words(
    "write edit replace patch create insert update append apply save install mkdir copy format fix set add put upload "
    "generate modify refactor commit merge str"
)
READING_WORDS = _words(
    "read list get view show search find grep glob ls cat head tail stat think fetch query describe inspect diff status "
    "log ask look browse web count check plan todo summarize explain"
)
SHELL_WORDS = _words(
    "bash shell sh terminal exec execute run command cmd powershell python script eval repl process console subprocess sql "
    "query database db ipython code"
)

# -- git ----------------------------------------------------------------------------------------

_GIT_ALWAYS = {
    "rebase": "rewrites commits",
    "filter-branch": "rewrites all commits",
    "filter-repo": "rewrites all commits",
    "rm": "deletes files",
    "mv": "moves files",
    "restore": "overwrites files",
    "apply": "rewrites files",
    "am": "rewrites files",
    "revert": "rewrites files",
    "cherry-pick": "rewrites files",
    "merge": "rewrites files",
    "pull": "rewrites files",
    "prune": "deletes objects",
}
_GIT_WITH: dict[str, tuple[frozenset[str], str]] = {
    "reset": (frozenset({"--hard", "--merge", "--keep"}), "discards uncommitted work"),
    "clean": (frozenset({"-f", "--force"}), "deletes untracked files"),
    "switch": (frozenset({"-f", "-C", "--force", "--discard-changes", "--force-create"}), "discards uncommitted work"),
    "push": (
        frozenset({"-f", "-d", "--force", "--force-with-lease", "--mirror", "--delete", "--prune"}),
        "overwrites a remote",
    ),
    "branch": (frozenset({"-D", "-d", "-f", "-M", "--delete", "--force"}), "removes or moves a branch"),
    "tag": (frozenset({"-d", "-f", "--delete", "--force"}), "removes or moves a tag"),
    "stash": (frozenset({"drop", "clear", "pop", "apply", "push", "-u", "save"}), "moves uncommitted work"),
    "worktree": (frozenset({"remove", "prune"}), "removes a worktree"),
    "reflog": (frozenset({"expire", "delete"}), "removes what could bring commits back"),
    "gc": (frozenset({"--prune", "--aggressive"}), "deletes objects"),
    "update-ref": (frozenset({"-d", "--stdin"}), "removes refs"),
    "commit": (frozenset({"--amend"}), "rewrites a commit"),
    "submodule": (frozenset({"deinit", "update"}), "overwrites a submodule"),
}
_TAKES_A_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})


def risk_of_git(arguments: list[str]) -> str:
    """Returns why a git command is risky, empty where it is not."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _TAKES_A_VALUE else 1
    if at >= len(arguments):
        return ""
    verb, rest = arguments[at], arguments[at + 1 :]
    if verb == "checkout":
        return _risk_of_checkout(rest)
    if verb == "restore" and "--staged" in rest and "--worktree" not in rest:
        return ""
    if verb == "stash" and not rest:
        return "git stash moves uncommitted work"
    if verb in _GIT_ALWAYS:
        return f"git {verb} {_GIT_ALWAYS[verb]}"
    flags, reason = _GIT_WITH.get(verb, (frozenset(), ""))
    if any(_chosen(word, flags) for word in rest):
        return f"git {verb} {reason}"
    if verb == "push" and any(word.startswith(("+", ":")) for word in rest):
        return "git push overwrites a remote"
    return ""


def _chosen(word: str, flags: frozenset[str]) -> bool:
    if word.startswith("--"):
        return word.partition("=")[0] in flags
    together = {f"-{letter}" for letter in word[1:]} if word.startswith("-") else {word}
    return bool(together & flags)


def _risk_of_checkout(rest: list[str]) -> str:
    if any(_chosen(word, frozenset({"-f", "-B", "--force", "--ours", "--theirs"})) for word in rest):
        return "git checkout discards uncommitted work"
    names = [word for word in rest if not word.startswith("-")]
    makes = any(word in {"-b", "--orphan", "--detach", "-t", "--track"} for word in rest)
    if "--" in rest or "." in rest or (len(names) > 1 and not makes):
        return "git checkout overwrites files"
    return ""
