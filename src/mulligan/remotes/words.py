"""Errors of git and of object stores, in plain words: what happened, what is safe, what to do."""

from __future__ import annotations

import re

from mulligan.errors import RemoteFailed
from mulligan.remotes.records import RemoteNote
from mulligan.remotes.urls import shown

SAFE = "Your checkpoints here are untouched."
_FULL = r"no space left|quota|disk full|insufficient storage|insufficientstorage|nospace|error: 507|507 insufficient"
_DECLINED = r"funny refname|deny updating a hidden ref|remote rejected|pre-receive hook declined|not allowed to (create|push)|prohibited"
# What git or its transports say, and what it means.
_GIT = (
    (r"could not resolve host(name)?|name or service not known|temporary failure in name", "{url} cannot be found: there is no network, or no such host.", "Check the network and the address: mulligan remote list"),
    (r"connection refused|failed to connect|could(n't| not) connect|unable to connect|network is unreachable|connection timed out|timed out", "{url} does not answer.", "Check the network, or try again later."),
    (r"authentication failed|could not read (username|password)|invalid (username|credentials)|terminal prompts disabled|http basic: access denied|returned error: 401", "{url} wants a user name and password that git did not have.", "Let git remember them: git config --global credential.helper store; or use an ssh address."),
    (r"permission denied \(publickey|host key verification failed", "The ssh server of {url} did not accept your key.", "Try: ssh -T HOST; then ssh-add, or accept the host's key once."),
    (r"service not enabled|access denied|repository not exported|returned error: 403|permission to .* denied|not allowed|write access|insufficient permission|temporary object directory", "{url} does not let you write (or read) there.", "Ask for permission to push, or use another address."),
    (r"does not appear to be a git repository|repository\b.{0,300}\bnot found|returned error: 404", "There is no repository at {url}.", "Make an empty one there first (git init --bare), or correct the address."),
    (r"early eof|unexpected disconnect|the remote end hung up|index-pack failed|unpack-objects|rpc failed|connection reset|invalid index-pack|broken pipe|expected flush|protocol error|bad line length|could not read from remote|remote unpack failed", "The connection to {url} broke off.", "Run the same command again: nothing is half done, and what is missing is sent again."),
    (r"certificate|ssl|tls", "The certificate of {url} is not trusted here, or this machine's clock is wrong.", "Check the clock (date) and the certificate."),
    (r"is not a commit|bad object|missing (blob|tree|commit)|unable to read", "An object that was to be sent is missing here; another process may have removed it.", "Run the same command again; if it stays: mulligan check"),
)  # fmt: skip


class RefDeclined(RemoteFailed):
    """The server does not take a ref of this name."""


class Incomplete(RemoteFailed):
    """The server sent a difference from an object that is not here."""


class NotServed(RemoteFailed):
    """The server does not have an object, or gives out whole refs only."""


class RefBehind(RemoteFailed):
    """The ref on the server is not what this store thinks."""


def git_trouble(remote: RemoteNote, said: str, out: str = "") -> RemoteFailed:
    """Returns what git complained about as an error in plain words."""
    text = f"{said}\n{out}"
    low = text.lower().replace(remote.url.lower(), "")
    if re.search(_FULL, low):
        return RemoteFailed(
            f"{shown(remote.url)} has no room left (quota or disk): {_first(text)} {SAFE}",
            hint="Free some there, then run the same command again. Deleted checkpoints go with: mulligan push --prune",
        )
    if re.search(
        r"unresolved delta|send all necessary objects|missing necessary objects|bad object refs/chains|loose object .* is corrupt|object file .* is empty|could not read [0-9a-f]{40}|revision walk setup failed|object [0-9a-f]{40} not found",
        low,
    ):
        return Incomplete(
            f"{shown(remote.url)} and this store do not agree on what each has. {SAFE}",
            hint="Run the command again; if it stays: mulligan check",
        )
    if re.search(r"unadvertised object|not our ref", low):
        return NotServed(f"{shown(remote.url)} did not send what was asked for. {SAFE}", hint="mulligan pull")
    if re.search(
        r"non-fast-forward|fetch first|stale info|failed to update ref|reference already exists|cannot lock ref", low
    ):
        return RefBehind(f"{remote.name} has other segments of this machine than this store wrote. {SAFE}")
    if re.search(_DECLINED, low) and not re.search(r"unpacker error|failed to store", low):
        return RefDeclined(
            f"{shown(remote.url)} refused the push: {_first(text)} {SAFE}",
            hint="Ask who runs the server, or use another repository.",
        )
    for pattern, sentence, hint in _GIT:
        if re.search(pattern, low):
            return RemoteFailed(f"{sentence.format(url=shown(remote.url))} {SAFE}", hint=hint)
    return RemoteFailed(f"git could not do it: {_first(said)} {SAFE}", hint="mulligan check --remote NAME")


# What an object store says, and what it means.
_BUCKET = (
    (_FULL, "{url} has no room left (quota).", "Free some there: mulligan push --prune, then mulligan gc --remote NAME; or ask for more room. Then run the same command again."),
    (r"entitytoolarge", "{url} does not take an object of this size.", "Ask who runs the server, or use another one."),
    (r"nosuchbucket", "There is no bucket {url}.", "Make it first, or correct the address."),
    (r"invalidaccesskeyid|signaturedoesnotmatch|invalidtoken|expiredtoken|unauthenticated|401 unauthorized", "{url} does not accept your access key, or it has expired.", "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where needed, AWS_SESSION_TOKEN."),
    (r"requesttimetooskewed|clock", "{url} refuses this machine's clock: it is wrong by more than a few minutes.", "Set the clock (date), then try again."),
    (r"accessdenied|permissiondenied|403 forbidden", "Your access key may not do that at {url}.", "It needs to read, list and write below the prefix; gc needs to delete too."),
    (r"dns error|failed to lookup|name or service not known", "{url} cannot be found: there is no network, or no such host.", "Check the network and AWS_ENDPOINT_URL."),
    (r"169\.254\.169\.254|no credentials|credential", "No access key for {url} was found.", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for a server of your own."),
    (r"slowdown|internalerror|serviceunavailable|50[0234] ", "{url} is overloaded, or has a problem of its own.", "Run the same command again later: it goes on where it stopped."),
    (r"incompletebody|connection refused|connect error|timed out|timeout|connection reset|error sending request|incomplete message|broken pipe|error decoding response body", "{url} does not answer, or the connection broke off.", "Check the network and AWS_ENDPOINT_URL, then run the same command again: it goes on where it stopped."),
    (r"notfound|404 not found", "An object at {url} is missing.", "mulligan check --remote NAME"),
)  # fmt: skip


def code_of(error: BaseException) -> str:
    """Returns the code by which S3 calls an error, empty where there is none."""
    found = re.search(r"<Code>(\w+)</Code>", str(error))
    return found[1] if found else ""


def bucket_trouble(remote: RemoteNote, error: BaseException) -> RemoteFailed:
    """Returns what an object store complained about, as an error in plain words."""
    # Without addresses and keys: a bucket may be called after any of these words.
    text = re.sub(r"https?://\S+|at location \S+", "", str(error))
    low = (code_of(error) or f"{type(error).__name__} {text}").lower()
    for pattern, sentence, hint in _BUCKET:
        if re.search(pattern, low):
            return RemoteFailed(f"{sentence.format(url=shown(remote.url))} {SAFE}", hint=hint)
    return RemoteFailed(f"{shown(remote.url)} answered: {_first(str(error))} {SAFE}", hint="Try again later.")


def _first(text: str) -> str:
    """Returns the line of git's output that says what is wrong."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    telling = [line for line in lines if re.match(r"(remote: )?(fatal|error|!)|remote:", line)]
    line = (telling or lines or ["it said nothing"])[0]
    return "".join(letter if letter.isprintable() else " " for letter in line)[:300].rstrip(". ") + "."
