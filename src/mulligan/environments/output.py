"""What a command printed, as much of it as is kept."""

from __future__ import annotations

#: What is kept of each stream; a program that prints without end must not fill the memory.
OUTPUT_LIMIT = 16 << 20
_HALF = OUTPUT_LIMIT // 2


class Output:
    """The output so far: all of it, or its beginning and its end."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.cut = 0

    def add(self, part: bytes) -> None:
        """Takes the next bytes."""
        self.data += part
        if len(self.data) > 2 * OUTPUT_LIMIT:
            self._shorten()

    def text(self) -> str:
        """Returns the output as text; bytes that are not UTF-8 are replaced."""
        if len(self.data) > OUTPUT_LIMIT:
            self._shorten()
        head, tail = (self.data, b"") if not self.cut else (self.data[:_HALF], self.data[_HALF:])
        left_out = f"\n[{self.cut} bytes left out]\n" if self.cut else ""
        return head.decode("utf-8", "replace") + left_out + tail.decode("utf-8", "replace")

    def _shorten(self) -> None:
        self.cut += len(self.data) - OUTPUT_LIMIT
        del self.data[_HALF : len(self.data) - _HALF]


def timed_out_note(said: str, timeout: float | None, also: str = "") -> str:
    """Returns what a command said on its error output, and that its time was up."""
    newline = "\n" if said and not said.endswith("\n") else ""
    return f"{said}{newline}Command timed out after {timeout:g} s. {also}".rstrip()
