"""
The picker: a list of prompts and checkpoints on the whole terminal, with a preview beside or below it.

Drawn by prompt_toolkit, which is imported only here: docs/decisions/0050-prompt-toolkit.md. Without it there is a numbered list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mulligan.cli.choices import Choice, choices, list_choices, preview
from mulligan.errors import UserError
from mulligan.present.text import ago
from mulligan.present.visible import clipped

if TYPE_CHECKING:
    from datetime import datetime

    from mulligan.cli.context import Context

_WIDE = 110
_MOST_LISTED = 20
_HELP = (
    "up, down, j, k     move            PgUp, PgDn, g, G   move further",
    "J, K               scroll preview  /                  search, Enter ends it",
    "Enter              choose          q, Esc             leave, nothing changes",
    "?                  this help",
)
_STYLE = {
    "head": "bold", "at": "reverse", "kind": "ansicyan", "age": "ansibrightblack", "keys": "ansibrightblack",
    "plus": "ansigreen", "minus": "ansired", "hunk": "ansicyan", "line": "ansibrightblack",
}  # fmt: skip


def pick(context: Context, *, question: str, steps: bool) -> str:
    """Lets a person choose; returns the reference, raises UserError where nothing was chosen."""
    workspace = context.saved
    rows = choices(workspace, steps=steps)
    if not rows:
        raise UserError("There is nothing to choose from yet.", hint="mulligan log")
    context.quiet()
    try:
        chosen = _Picker(rows, question, lambda row: preview(workspace, row, steps=steps), context.now()).run()
    except ImportError:
        chosen = _from_list(context, rows, question)
    if chosen is None:
        raise UserError("Cancelled; nothing changed.")
    return chosen.ref


def _from_list(context: Context, rows: list[Choice], question: str) -> Choice | None:
    """Lets a person type the number of a row."""
    err = context.err
    err.lines([clipped(line, (err.width or 80) - 1) for line in list_choices(rows, context.now(), _MOST_LISTED)])
    if len(rows) > _MOST_LISTED:
        err.line(f"      {len(rows) - _MOST_LISTED:,} older ones: mulligan log")
    err.stream.write(f"{question} Number, or Enter to leave: ")
    err.stream.flush()
    typed = sys.stdin.readline().strip()
    return rows[int(typed) - 1] if typed.isdigit() and 0 < int(typed) <= len(rows) else None


class _Picker:
    """The state of one run: the rows that match, where the person is, what the preview shows."""

    def __init__(self, rows: list[Choice], question: str, look: Callable[[Choice], list[str]], now: datetime) -> None:
        self._all, self._rows, self._question, self._look, self._now = rows, rows, question, look, now
        self._at = self._top = self._scrolled = 0
        self._search, self._typing, self._helping = "", False, False
        self._seen: dict[str, list[str]] = {}
        self._size: Callable[[], Any] = lambda: None

    def run(self) -> Choice | None:
        """Shows the list until a row is chosen, or none."""
        from prompt_toolkit.application import Application
        from prompt_toolkit.layout import FormattedTextControl, Layout, Window
        from prompt_toolkit.output import create_output
        from prompt_toolkit.styles import Style

        draw: Any = self._screen
        control = FormattedTextControl(draw, focusable=True, show_cursor=False)
        application: Any = Application(
            layout=Layout(Window(control, wrap_lines=False)),
            key_bindings=self._bindings(),
            style=Style.from_dict(_STYLE),
            full_screen=True,
            output=create_output(stdout=sys.stderr),
        )
        application.ttimeoutlen = 0.05  # Esc leaves at once
        self._size = application.output.get_size
        found: Choice | None = application.run()
        return found

    # -- keys -------------------------------------------------------------------------------------

    def _bindings(self) -> Any:
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()
        typing = Condition(lambda: self._typing)

        def on(*names: str, when: Any) -> Callable[[Callable[[Any], None]], None]:
            def register(act: Callable[[Any], None]) -> None:
                for name in names:
                    keys.add(name, filter=when, eager=True)(act)

            return register

        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -8, "pagedown": 8, "g": -(10**9), "G": 10**9}
        for name, by in {**steps, "home": -(10**9), "end": 10**9}.items():
            on(name, when=~typing if len(name) == 1 else True)(self._mover(by))
        for name, by in {"J": 4, "K": -4}.items():
            on(name, when=~typing)(self._scroller(by))
        on("/", when=~typing)(lambda _event: self._begin())
        on("?", when=~typing)(lambda _event: self._help())
        on("enter", when=~typing)(lambda event: event.app.exit(result=self._rows[self._at]) if self._rows else None)
        on("q", "escape", when=~typing)(lambda event: event.app.exit(result=None))
        on("c-c", "c-d", when=True)(lambda event: event.app.exit(result=None))
        on("enter", when=typing)(lambda _event: self._end(keep=True))
        on("escape", when=typing)(lambda _event: self._end(keep=False))
        on("backspace", when=typing)(lambda _event: self._type(self._search[:-1]))
        on("<any>", when=typing)(lambda event: self._type(self._search + event.data))
        return keys

    def _mover(self, by: int) -> Callable[[Any], None]:
        def move(_event: Any) -> None:
            self._helping = False
            self._at = min(max(self._at + by, 0), max(len(self._rows) - 1, 0))
            self._scrolled = 0

        return move

    def _scroller(self, by: int) -> Callable[[Any], None]:
        def scroll(_event: Any) -> None:
            self._scrolled = max(self._scrolled + by, 0)

        return scroll

    def _help(self) -> None:
        self._helping = not self._helping

    def _begin(self) -> None:
        self._typing, self._helping = True, False

    def _end(self, *, keep: bool) -> None:
        self._typing = False
        if not keep:
            self._type("")

    def _type(self, text: str) -> None:
        self._search = "".join(letter for letter in text if letter.isprintable())
        self._rows = [row for row in self._all if self._search.casefold() in row.words()]
        self._at = self._top = self._scrolled = 0

    # -- drawing ----------------------------------------------------------------------------------

    def _screen(self) -> list[tuple[str, str]]:
        size = self._size()
        width, height = size.columns, size.rows
        wide = width >= _WIDE
        room = height - 2
        list_height = room if wide else max(room * 2 // 5, 3)
        list_width = width * 45 // 100 if wide else width
        left = self._list(list_width, list_height)
        right_width = width - list_width - 3 if wide else width
        right = self._preview(right_width, room if wide else room - list_height - 1)
        parts = [*self._line("class:head", self._question, width)]
        if wide:
            for one, two in zip(left, right, strict=True):
                parts += [*one, ("class:line", " │ "), *two, ("", "\n")]
        else:
            for row in [*left, [("class:line", "─" * width)], *right]:
                parts += [*row, ("", "\n")]
        return [*parts, *self._line("class:keys", self._keys(), width)[:1]]

    def _line(self, style: str, text: str, width: int) -> list[tuple[str, str]]:
        return [(style, clipped(text, width)), ("", "\n")]

    def _keys(self) -> str:
        if self._typing:
            return f"/{self._search}▏  Enter: keep   Esc: all rows"
        found = f"  ({len(self._rows):,} of {len(self._all):,} match {self._search!r})" if self._search else ""
        return f"Enter choose   / search   J K scroll   ? help   q leave{found}"

    def _list(self, width: int, height: int) -> list[list[tuple[str, str]]]:
        """Returns the rows around the chosen one, padded to the width."""
        self._top = min(max(self._top, self._at - height + 1), self._at)
        shown = []
        for at, row in list(enumerate(self._rows))[self._top : self._top + height]:
            mark = "class:at" if at == self._at else ""
            indent = "  " if row.kind == "command" else ""
            text = clipped(indent + row.title, max(width - 24, 8))
            about = f" {ago(row.at, self._now):>11} "
            pad = " " * max(width - 23 - _columns(text), 0)
            shown.append([(mark or "class:age", about), (mark or "class:kind", f"{row.kind:<9} "), (mark, text + pad)])
        blank = [("", " " * width)]
        none = [[("", "Nothing matches.".ljust(width))]] if not self._rows else []
        return [*(none or shown), *([blank] * height)][:height]

    def _preview(self, width: int, height: int) -> list[list[tuple[str, str]]]:
        lines = list(_HELP) if self._helping else self._looked()
        self._scrolled = min(self._scrolled, max(len(lines) - height, 0))
        part = lines[self._scrolled : self._scrolled + height]
        shown = [[(_paint(line), clipped(line, width))] for line in part]
        return [*shown, *([[("", "")]] * height)][:height]

    def _looked(self) -> list[str]:
        if not self._rows:
            return []
        row = self._rows[self._at]
        if row.ref not in self._seen:
            self._seen[row.ref] = self._look(row)
        return self._seen[row.ref]


def _columns(text: str) -> int:
    from mulligan.present.visible import columns

    return columns(text)


def _paint(line: str) -> str:
    """Returns the style of a line of a patch or of a list of files."""
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "class:line"
    return {"+": "class:plus", "-": "class:minus", "@": "class:hunk"}.get(line[:1], "")
