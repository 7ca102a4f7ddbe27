"""
A model that does what a script says, on loopback, in the words of four providers.

A script is a list of replies: `Say("done")` or `Use("Bash", {"command": "ls"})`. The n-th reply of a conversation is the n-th of
its script; which script, is decided by a word in the first thing that the person said. So a subagent, which has a conversation
of its own, has a script of its own. Requests without tools (titles, summaries) get a short answer and count for nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple


class Say(NamedTuple):
    """A reply in words, which ends the turn."""

    text: str


class Use(NamedTuple):
    """
    A call of a tool; `raw` for tools whose input is text and not JSON; in Codex a dot divides a name from its namespace.

    With `after`, it waits until another conversation has only its last words left.
    """

    tool: str
    given: Any
    raw: bool = False
    after: str = ""


Script = Sequence[Say | Use]
_ids = count(1)
_IDLE = Say("Done.")


class Request(NamedTuple):
    """
    What matters of a request: what was said first, how many replies came already, whether tools are offered.

    `people` is all that was not said by the model, what hooks added included, where the client sends it that way.
    """

    first: str
    replies: int
    tools: bool
    people: str = ""


class Model(ThreadingHTTPServer):
    """The server; `asked` holds the requests it understood."""

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts = scripts
        self.asked: list[Request] = []
        self._came = threading.Condition()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Passes over a client that hung up: agents do, when they end."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def reply(self, request: Request) -> Say | Use:
        with self._came:
            self.asked.append(request)
            self._came.notify_all()
        if not request.tools:
            return _IDLE
        script = next((steps for word, steps in self.scripts.items() if word in request.first), ())
        step = script[request.replies] if request.replies < len(script) else _IDLE
        if isinstance(step, Use) and step.after:
            with self._came:
                self._came.wait_for(lambda: self._is_at_its_end(step.after), timeout=60)
        return step

    def _is_at_its_end(self, word: str) -> bool:
        return any(word in one.first and one.replies >= len(self.scripts[word]) - 1 for one in self.asked)


@contextmanager
def scripted(scripts: Mapping[str, Script]) -> Iterator[Model]:
    """A model that answers while the block runs."""
    model = Model(scripts)
    thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        thread.join()
        model.server_close()


def _said(content: Any) -> str:
    """All text in the content of a message, whatever its form."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(
        str(part.get("text", part.get("encrypted_content", ""))) for part in parts if isinstance(part, dict)
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *_: Any) -> None:
        """Says nothing: the tests' output is for failures."""

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        if path.endswith("count_tokens"):
            self._json({"input_tokens": 10})
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif "enerateContent" in path:
            self._gemini(body, stream="stream" in path)
        else:
            self._json({"totalTokens": 10})

    def _body(self) -> dict[str, Any]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        found = json.loads(data) if data else {}
        return found if isinstance(found, dict) else {}

    # -- answering ------------------------------------------------------------------------------

    def _json(self, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {text}\n\n".encode())
        self.wfile.flush()

    # -- Anthropic --------------------------------------------------------------------------------

    def _anthropic(self, body: dict[str, Any]) -> None:
        messages = body.get("messages", [])
        people = [_said(each["content"]) for each in messages if each["role"] == "user"]
        replies = sum(each["role"] == "assistant" for each in messages)
        reply = self.server.reply(Request(" ".join(people[:1]), replies, bool(body.get("tools")), "\n".join(people)))
        uses = isinstance(reply, Use)
        block = (
            {"type": "tool_use", "id": f"toolu_{next(_ids):08}", "name": reply.tool, "input": reply.given}
            if isinstance(reply, Use)
            else {"type": "text", "text": reply.text}
        )
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": f"msg_{next(_ids)}", "type": "message", "role": "assistant", "model": body.get("model")}
        ended = {"stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None}
        if not body.get("stream"):
            self._json({**message, "content": [block], **ended, "usage": usage})
            return

        def events() -> Iterator[tuple[str, Any]]:
            begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            empty = {**block, "input": {}} if uses else {**block, "text": ""}
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if uses
                else {"type": "text_delta", "text": block["text"]}
            )
            yield "message_start", {"type": "message_start", "message": begun}
            yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}
            yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": 0}
            yield "message_delta", {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
            yield "message_stop", {"type": "message_stop"}

        self._stream(events())

    # -- OpenAI: responses ------------------------------------------------------------------------

    def _responses(self, body: dict[str, Any]) -> None:
        items = [each for each in body.get("input", []) if isinstance(each, dict)]
        # A subagent is told what to do by its agent, in a message that a model alone could decipher.
        told = [each for each in items if each.get("role") == "user" or each.get("type") == "agent_message"]
        people = [_said(each.get("content")) for each in told]
        calls = {"function_call", "custom_tool_call"}
        replies = sum(each.get("type") in calls or each.get("role") == "assistant" for each in items)
        # What hooks add comes as a message of the developer.
        heard = [_said(each.get("content")) for each in items if each.get("role") in {"user", "developer"}]
        reply = self.server.reply(Request(" ".join(people), replies, bool(body.get("tools")), "\n".join(heard)))
        item = _response_item(reply)
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        done = {
            "id": f"resp_{next(_ids)}",
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage,
        }

        def events() -> Iterator[tuple[str, Any]]:
            begun = {**done, "status": "in_progress", "output": []}
            for name, more in (
                ("response.created", {"response": begun}),
                ("response.output_item.added", {"output_index": 0, "item": item}),
                ("response.output_item.done", {"output_index": 0, "item": item}),
                ("response.completed", {"response": done}),
            ):
                yield name, {"type": name, **more}

        self._stream(events())

    # -- OpenAI: chat -----------------------------------------------------------------------------

    def _chat(self, body: dict[str, Any]) -> None:
        messages = body.get("messages", [])
        people = [_said(each.get("content")) for each in messages if each["role"] == "user"]
        # aider begins with examples of replies, which are none.
        begun = next((at for at, each in enumerate(messages) if self._scripted(each)), 0)
        replies = sum(each["role"] == "assistant" for each in messages[begun:])
        # aider offers no tools: its edits are text.
        tools = bool(body.get("tools")) or "SEARCH/REPLACE" in _said(messages[0].get("content") if messages else "")
        reply = self.server.reply(Request(" ".join(people), replies, tools))
        base = {"id": f"chatcmpl-{next(_ids)}", "created": 1, "model": body.get("model")}
        if isinstance(reply, Use):
            function = {"name": reply.tool, "arguments": json.dumps(reply.given)}
            call = {"index": 0, "id": f"call_{next(_ids)}", "type": "function", "function": function}
            message, why = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        else:
            message, why = {"role": "assistant", "content": reply.text}, "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": why}
            self._json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return

        def events() -> Iterator[tuple[str, Any]]:
            chunk = {**base, "object": "chat.completion.chunk"}
            yield "", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
            yield "", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]}
            yield "", {**chunk, "choices": [], "usage": usage}
            yield "", "[DONE]"

        self._stream(events())

    def _scripted(self, message: dict[str, Any]) -> bool:
        said = _said(message.get("content"))
        return message["role"] == "user" and any(word in said for word in self.server.scripts)

    # -- Gemini -----------------------------------------------------------------------------------

    def _gemini(self, body: dict[str, Any], *, stream: bool) -> None:
        contents = body.get("contents", [])
        people = [_said(each.get("parts")) for each in contents if each.get("role") == "user"]
        replies = sum(each.get("role") == "model" for each in contents)
        reply = self.server.reply(Request(" ".join(people), replies, bool(body.get("tools")), "\n".join(people)))
        part: dict[str, Any] = (
            {"functionCall": {"name": reply.tool, "args": reply.given, "id": f"call-{next(_ids)}"}}
            if isinstance(reply, Use)
            else {"text": _shaped(body) or reply.text}
        )
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        document = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if stream:
            self._stream(iter([("", document)]))
        else:
            self._json(document)


def _response_item(reply: Say | Use) -> dict[str, Any]:
    if isinstance(reply, Say):
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        return {
            "type": "message",
            "id": f"msg_{next(_ids)}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    space, _, name = reply.tool.rpartition(".")
    call = {"call_id": f"call_{next(_ids)}", "name": name, "status": "completed"}
    if space:
        call["namespace"] = space
    if reply.raw:
        return {"type": "custom_tool_call", "id": f"ctc_{next(_ids)}", **call, "input": reply.given}
    return {"type": "function_call", "id": f"fc_{next(_ids)}", **call, "arguments": json.dumps(reply.given)}


def _shaped(body: dict[str, Any]) -> str:
    """An answer for a request that wants JSON of some shape: Gemini CLI asks itself which model to use."""
    wanted = body.get("generationConfig") or {}
    if not (wanted.get("responseJsonSchema") or wanted.get("responseSchema")):
        return ""
    return json.dumps(
        {
            "reasoning": "-",
            "next_speaker": "user",
            "model_choice": "flash",
            "complexity_reasoning": "-",
            "complexity_score": 1,
        }
    )
