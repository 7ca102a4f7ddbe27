"""
`re`, `json`, `datetime` and `UTC` for a process that has little time.

Each is the standard library's own, minus what a save does not need of it: `re` is loaded when somebody first asks it
something (3 ms with what it stands on), `json` writes and reads with the parts of it that are compiled (its Python parts
compile seven patterns that only they use), and `datetime` is the compiled one (Python 3.11 reads the other one first).
A type checker sees the originals, and whatever is not here is asked of them.
"""

from __future__ import annotations

from mulligan.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import json as json
    import re as re
    from datetime import UTC as UTC
    from datetime import datetime as datetime
else:
    try:
        from _datetime import datetime, timezone

        UTC = timezone.utc
    except ImportError:
        from datetime import UTC, datetime

    try:
        from _json import encode_basestring_ascii as _quoted
        from _json import make_encoder, make_scanner
    except ImportError:
        make_encoder = None

    class _Later:
        """Stands for a module until something of it is used."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            found = getattr(__import__(self._name), name)
            setattr(self, name, found)
            return found

    class _Reading:
        """What the compiled reader wants to know: that everything is as `json.loads` has it when it is given no option."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int = float, int
        parse_constant = {"-Infinity": -float("inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__

    def _unknown(value):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")

    def _dumps(value, *, ensure_ascii=True, allow_nan=True, sort_keys=False, indent=None, separators=None):
        """Returns what `json.dumps` does."""
        if value is None or (type(value) is dict and not value):
            return "null" if value is None else "{}"
        if ensure_ascii and make_encoder is not None:
            item, key = separators or (", " if indent is None else ",", ": ")
            encoder = make_encoder({}, _unknown, _quoted, None, key, item, sort_keys, False, allow_nan)
            if indent is None:
                return "".join(encoder(value, 0))
            try:
                return _indented(value, encoder, " " * indent, "\n", (item, key, sort_keys))
            except (_OddNameError, RecursionError):
                pass  # the original knows what to make of it
        options = {"ensure_ascii": ensure_ascii, "allow_nan": allow_nan, "sort_keys": sort_keys}
        return __import__("json").dumps(value, indent=indent, separators=separators, **options)

    _plainly = {} if make_encoder is None else {str: _quoted, int: repr, type(None): lambda _: "null"}

    class _OddNameError(Exception):
        """A name in a mapping that is no text."""

    def _indented(value, encoder, step, line, style):
        """Returns JSON that a person may read; the compiled writer knows one line only."""
        if type(value) is str:
            return _quoted(value)
        item, key, sort_keys = style
        inner = line + step
        if isinstance(value, dict) and value:
            if {*map(type, value)} != {str}:
                raise _OddNameError
            parts = []
            for name in sorted(value) if sort_keys else value:
                each = value[name]
                plain = _plainly.get(type(each))  # a call for each value took half of the time
                said = plain(each) if plain is not None else _indented(each, encoder, step, inner, style)
                parts.append(_quoted(name) + key + said)
            return "{" + inner + (item + inner).join(parts) + line + "}"
        if isinstance(value, (list, tuple)) and value:
            parts = [_indented(each, encoder, step, inner, style) for each in value]
            return "[" + inner + (item + inner).join(parts) + line + "]"
        return "".join(encoder(value, 0))

    def _loads(text):
        """Returns what `json.loads` does; what is no document is told by it."""
        if isinstance(text, bytes) and text.isascii() and b"\0" not in text:
            text = text.decode("ascii")
        if isinstance(text, str) and make_encoder is not None:
            try:
                value, end = make_scanner(_Reading)(text, len(text) - len(text.lstrip(" \t\n\r")))
            except StopIteration:
                end = -1
            if end >= 0 and not text[end:].strip(" \t\n\r"):
                return value
        return __import__("json").loads(text)

    re = _Later("re")
    json = _Later("json")
    json.dumps, json.loads = _dumps, _loads
