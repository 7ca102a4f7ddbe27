"""
Conversations as agent state: the messages that belong to the files of a checkpoint.

Whatever holds a conversation becomes a provider by `conversation_of`: a list of messages, a JSONL transcript, a pair of
functions, a session store in PraisonAI's style. Registered with `Workspace.provide`, it is captured at each save and
handed back by a restore of state. Promised: a value that cannot be taken is refused before anything changed; what a
restore drops is in the safety checkpoint, so `undo` brings it back. Not promised: more than the holder can do; a session
store that can only cut, and not append, keeps what it has.

A transcript has one message per line, in a file that an agent appends to. Going back cuts the file in place and going forward
appends to it, so that a program that holds it open goes on writing at its end; only where the two have nothing to do with each
other is the file replaced, whole or not at all. What is cut is in the checkpoint that is made before every restore, and what was
appended after that is put aside beside the file. A last line that was being written is not captured.
LIMIT: each checkpoint holds the transcript whole; unchanged, it is stored once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from mulligan.errors import UserError
from mulligan.safefs.directory import Directory, append_at, random_name
from mulligan.safefs.durable import sync, write_durably
from mulligan.state.providers import Provider

Encode = Callable[[Any], Any]
NAME = "conversation"
_READ = ("get_messages", "get_extended_session", "get_session")
_CLEAR = ("clear_messages", "clear_history", "clear", "clear_session")
_REBUILD = ("set_messages", "set_chat_history")


@runtime_checkable
class Conversation(Protocol):
    """A provider that can also say how many messages it holds."""

    def capture(self) -> Any:
        """Returns the conversation as JSON can hold it."""

    def stage(self, value: Any) -> Callable[[], None]:
        """Checks a value from a checkpoint and returns the call that makes it current; raises if it cannot."""

    def count(self) -> int | None:
        """Returns how many messages there are now, None where that cannot be known."""


def conversation_of(source: Any, session_id: str | None = None) -> Conversation:
    """Returns a provider for whatever holds a conversation; raises TypeError, naming what is accepted, for the rest."""
    if isinstance(source, Conversation):
        return source
    if isinstance(source, list):
        return MessageList(source)
    if isinstance(source, str | os.PathLike):
        return Transcript(os.fspath(source))
    if isinstance(source, tuple) and len(source) == 2 and all(callable(part) for part in source):
        return GetAndSet(*source)
    if callable(getattr(source, "capture", None)) and callable(getattr(source, "stage", None)):
        return CountedProvider(source)
    if session_id and any(callable(getattr(source, name, None)) for name in _READ):
        return SessionMessages(source, session_id)
    raise TypeError(
        "a conversation is a list of messages, the path of a JSONL transcript, a (get, set) pair, a provider "
        f"with capture and stage, or a session store with a session_id; not {type(source).__name__}"
    )


def messages_in(value: Any) -> int | None:
    """Returns how many messages a captured conversation holds, None where it does not say."""
    count = value.get("count") if isinstance(value, Mapping) else None
    return count if isinstance(count, int) else None


def _captured(messages: list[Any]) -> dict[str, Any]:
    return {"count": len(messages), "messages": messages}


def _is_object(message: Any) -> bool:
    return any(callable(getattr(message, name, None)) for name in ("to_dict", "model_dump"))


def _messages_of(value: Any) -> list[Any]:
    messages = value.get("messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list):
        raise UserError(
            "This checkpoint holds no list of messages for the conversation. Nothing was changed.",
            hint="Restore the files alone: mulligan restore REF",
        )
    return messages


def plain(message: Any) -> Any:
    """Returns a message as JSON can hold it: itself, or what its `to_dict` or `model_dump` gives; raises TypeError."""
    for name in ("to_dict", "model_dump"):
        if callable(give := getattr(message, name, None)):
            message = give()
            break
    try:
        return json.loads(json.dumps(message, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"a message of the conversation cannot be saved as JSON: {error}") from None


def _common(one: list[Any], other: list[Any]) -> int:
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at


class MessageList:
    """
    A list of messages, changed in place, so that every holder of the list sees it.

    Messages that stay are the same objects as before. Messages that are not JSON themselves come back through `decode`.
    """

    def __init__(self, messages: list[Any], *, encode: Encode = plain, decode: Encode | None = None) -> None:
        self.messages = messages
        self._encode = encode
        self._decode = decode

    def count(self) -> int | None:
        """Returns how many messages there are now."""
        return len(self.messages)

    def capture(self) -> Any:
        """Returns the messages as JSON can hold them."""
        held = list(self.messages)
        found = _captured([self._encode(message) for message in held])
        return {**found, "objects": True} if any(map(_is_object, held)) else found

    def stage(self, value: Any) -> Callable[[], None]:
        """Decodes what is missing now, so that making it current cannot fail."""
        wanted = _messages_of(value)
        present = [self._encode(message) for message in self.messages]
        same = _common(present, wanted)
        missing = wanted[same:]
        if self._decode is not None:
            missing = [self._decode(message) for message in missing]
        elif missing and value.get("objects"):
            raise UserError(
                "The messages of this conversation are objects, and no decoder was given for them. Nothing was changed.",
                hint="Give MessageList(messages, decode=...) a function that makes one from its JSON form.",
            )

        def make_current() -> None:
            self.messages[same:] = missing

        return make_current


class GetAndSet:
    """A conversation behind two functions: one returns all messages, the other takes all messages."""

    def __init__(self, get: Callable[[], Any], set: Callable[[Any], object]) -> None:  # noqa: A002 - the pair's own name
        self._get = get
        self._set = set

    def count(self) -> int | None:
        """Returns how many messages there are now."""
        found = self._get()
        return len(found) if hasattr(found, "__len__") else None

    def capture(self) -> Any:
        """Returns what the first function returns."""
        found = self._get()
        return _captured([plain(message) for message in found]) if isinstance(found, list | tuple) else {"value": found}

    def stage(self, value: Any) -> Callable[[], None]:
        """Returns the call that hands the value to the second function."""
        wanted = value["value"] if isinstance(value, Mapping) and "value" in value else _messages_of(value)
        return lambda: void(self._set(wanted))


class CountedProvider:
    """Any provider, with a count where its value says one."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def count(self) -> int | None:
        """Returns how many messages there are now, None where the value does not say."""
        value = self._provider.capture()
        return len(value) if isinstance(value, list) else messages_in(value)

    def capture(self) -> Any:
        """Returns what the provider returns."""
        return self._provider.capture()

    def stage(self, value: Any) -> Callable[[], None]:
        """Returns what the provider returns."""
        return self._provider.stage(value)


class SessionMessages:
    """
    One session of a store in PraisonAI's style.

    Reads by `get_messages`, `get_extended_session` or `get_session`. Goes back by `revert_to_message`, to nothing by
    `clear_messages`, `clear_history`, `clear` or `clear_session`; goes forward by `add_message`; does either by
    `set_messages` or `set_chat_history`. What the store cannot do is left as it is, and `left` says so.
    """

    def __init__(self, store: Any, session_id: str) -> None:
        self.store = store
        self.session_id = session_id
        self.left = ""

    def count(self) -> int | None:
        """Returns how many messages there are now."""
        found = self._messages()
        return len(found) if found is not None else None

    def capture(self) -> Any:
        """Returns the session's messages; a store that cannot be read has none to give."""
        found = self._messages()
        return _captured([plain(message) for message in found]) if found is not None else {"count": None}

    def stage(self, value: Any) -> Callable[[], None]:
        """Returns the call that cuts the session to the messages of the checkpoint, or appends those it lost."""
        self.left = ""
        if messages_in(value) is None:
            return lambda: None  # the store could not be read when this was saved
        wanted = _messages_of(value)
        return lambda: self._become(wanted)

    def _messages(self) -> list[Any] | None:
        for name in _READ:
            read = getattr(self.store, name, None)
            if callable(read):
                found = read(self.session_id)
                found = getattr(found, "messages", found)
                if found is not None:
                    return list(found)
        return None

    def _become(self, wanted: list[Any]) -> None:
        now = [plain(message) for message in self._messages() or []]
        same = _common(now, wanted)
        if same < len(now) and not self._cut(same) and not self._put(wanted):
            self.left = "the session store has no way to drop messages"
        elif same < len(wanted) and not self._put(wanted) and not self._add(wanted[same:]):
            self.left = "the session store has no way to take messages back"

    def _cut(self, keep: int) -> bool:
        if keep:
            revert = getattr(self.store, "revert_to_message", None)
            if not callable(revert):
                return False
            # It keeps the message of that index too.
            if revert(self.session_id, keep - 1) is False:
                raise UserError("The session store refused to go back; the conversation is as it was.")
            return True
        for name in _CLEAR:
            if callable(clear := getattr(self.store, name, None)):
                clear(self.session_id)
                return True
        return False

    def _put(self, wanted: list[Any]) -> bool:
        for name in _REBUILD:
            if callable(put := getattr(self.store, name, None)):
                put(self.session_id, wanted)
                return True
        return False

    def _add(self, missing: list[Any]) -> bool:
        add = getattr(self.store, "add_message", None)
        if not callable(add) or not all(isinstance(message, dict) and "role" in message for message in missing):
            return False
        for message in missing:
            add(self.session_id, message["role"], message.get("content", ""))
        return True


def void(_: object) -> None:
    """Takes a value and returns none."""


MIB = 1 << 20
LARGEST = 64 * MIB


class Transcript:
    """A JSONL file as a conversation. A link is followed; the file may be missing."""

    def __init__(self, path: str | os.PathLike[str], *, largest: int = LARGEST) -> None:
        self.path = os.path.realpath(path)
        self._largest = largest
        self._seen: bytes | None = None

    def count(self) -> int | None:
        """Returns how many lines there are now."""
        return _lines(_whole_lines(self._read() or b""))

    def capture(self) -> Any:
        """Returns the lines."""
        data = self._read()
        self._seen = lines = _whole_lines(data or b"")
        return {"count": _lines(lines), "text": lines.decode("utf-8", "surrogateescape")}

    def stage(self, value: Any) -> Callable[[], None]:
        """Returns the call that gives the file these lines; raises when it could not be written."""
        text = value.get("text") if isinstance(value, Mapping) else None
        if not isinstance(text, str):
            raise UserError(
                f"This checkpoint holds no transcript for {self.path}. Nothing was changed.",
                hint="Restore the files alone: mulligan restore REF",
            )
        wanted = text.encode("utf-8", "surrogateescape")
        present = self._read()
        if present is not None and not os.access(self.path, os.W_OK, effective_ids=True):
            raise UserError(f"Can't write to the transcript {self.path}. Nothing was changed.")
        return lambda: self._become(wanted)

    def _read(self) -> bytes | None:
        try:
            with self._directory() as directory:
                data = directory.read(self._name, limit=self._largest + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(data) > self._largest:
            raise UserError(
                f"The transcript {self.path} is larger than {self._largest // MIB} MiB. Nothing was changed.",
                hint="Give Transcript(path, largest=...) a larger limit, or begin a new transcript.",
            )
        return data

    def _become(self, wanted: bytes) -> None:
        with self._directory() as directory:
            try:
                present = directory.read(self._name)
            except FileNotFoundError:
                present = b""
                if not wanted:
                    return
            self._put_aside(directory, present)
            if present == wanted:
                return
            same = min(len(present), len(wanted))
            if present and present[:same] == wanted[:same]:
                append_at(directory, self._name, same, wanted[same:])
                with directory.reading(self._name) as fd:
                    sync(fd, "the transcript")
            else:
                way = b".mulligan-%s" % random_name(6).encode()
                write_durably(directory, self._name, [wanted], temporary=way, what="the transcript")

    def _put_aside(self, directory: Directory, present: bytes) -> None:
        """Keeps, beside the file, what was appended after the checkpoint before this restore was made."""
        seen = self._seen
        if seen is None or seen.startswith(present):
            return
        rest = present.removeprefix(seen)
        name = b"%s.kept-%s" % (self._name, random_name(4).encode())
        way = b".mulligan-%s" % random_name(6).encode()
        write_durably(directory, name, [rest], temporary=way, what="the end of the transcript")

    @property
    def _name(self) -> bytes:
        return os.fsencode(os.path.basename(self.path))

    def _directory(self) -> Directory:
        return Directory.open(os.path.dirname(self.path))


def _whole_lines(data: bytes) -> bytes:
    """Returns a transcript without its unfinished last line."""
    end = data.rfind(b"\n") + 1
    if end < len(data):
        try:
            json.loads(data[end:])
        except ValueError:
            return data[:end]
    return data


def _lines(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip())
