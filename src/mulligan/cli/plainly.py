"""
Reads plain words, without argparse.

To load argparse and build a parser takes as long as a third of a save, and nearly every command is typed plainly: options
that are spelled out, their values behind them, and nothing wrong. A command tells its arguments to a `Table` as it tells
them to a parser; whatever is not plain goes to the parser, which alone knows every rule, and what to say of a mistake.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

_ABSENT = {"store_true": False, "store_false": True}


class _Argument:
    """One argument, with the words of `add_argument` for what it is."""

    def __init__(self, names: tuple[str, ...], group: object, about: dict[str, Any]) -> None:
        long = [name for name in names if name.startswith("--")]
        self.names = names
        self.group = group
        self.dest: str = about.get("dest") or (long or names)[0].lstrip("-").replace("-", "_")
        self.action: str = about.get("action", "store")
        self.nargs = about.get("nargs")
        self.const = about.get("const")
        self.default = about.get("default", _ABSENT.get(self.action))
        self.choices = about.get("choices")
        self.type = about.get("type")
        self.required = bool(about.get("required"))

    def read(self, text: str) -> Any:
        """Returns what a word means; raises ValueError where that is for the parser to tell."""
        value = text if self.type is None else self.type(text)
        if self.choices is not None and value not in self.choices:
            raise ValueError(text)
        return value


class Table:
    """The arguments of a command, told as to an `argparse.ArgumentParser`."""

    def __init__(self) -> None:
        self._options: dict[str, _Argument] = {}
        self._places: list[_Argument] = []
        self._all: list[_Argument] = []
        self._group: object = None

    def add_argument(self, *names: str, **about: Any) -> None:
        """Takes note of an argument."""
        argument = _Argument(names, self._group, about)
        self._all.append(argument)
        if names[0].startswith("-"):
            self._options.update(dict.fromkeys(names, argument))
        else:
            self._places.append(argument)

    def add_argument_group(self, *_: str) -> Table:
        """Returns itself: groups are for the help."""
        return self

    def add_mutually_exclusive_group(self) -> _Exclusive:
        """Returns where arguments go of which one may be given."""
        return _Exclusive(self)

    def read(self, words: list[str]) -> SimpleNamespace | None:
        """Returns the values of plain words; None for any others."""
        found: dict[str, Any] = {}
        for argument in self._all:
            if argument.required or (isinstance(argument.default, str) and argument.type is not None):
                return None
            found.setdefault(argument.dest, argument.default)
        try:
            return SimpleNamespace(**self._take_places(self._take_options(words, found), found))
        except (ValueError, TypeError, ArithmeticError, StopIteration):
            return None  # not plain, or wrong: the parser finds out

    def _take_options(self, words: list[str], found: dict[str, Any]) -> list[str]:
        """Notes what the options say and returns the other words."""
        rest, given, coming = [], set[object](), iter(words)
        for word in coming:
            if not word.startswith("-"):
                rest.append(word)
                continue
            option = self._options.get(word)
            if option is None or option.nargs is not None or option.group in given:
                raise ValueError(word)
            if option.group is not None:
                given.add(option.group)
            if option.action == "store":
                value = next(coming)
                if value.startswith("-"):
                    raise ValueError(value)
                found[option.dest] = option.read(value)
            elif option.action == "store_const":
                found[option.dest] = option.const
            elif option.action == "store_true":
                found[option.dest] = True
            else:
                raise ValueError(word)
        return rest

    def _take_places(self, words: list[str], found: dict[str, Any]) -> dict[str, Any]:
        """Notes what stands in its place, and returns all."""
        coming, seen_optional = list(words), False
        for place in self._places:
            if place.nargs == "*" and place is self._places[-1]:
                found[place.dest] = [place.read(word) for word in coming] or place.default or []
                return found
            if place.nargs not in {None, "?"} or (seen_optional and place.nargs is None):
                raise ValueError("for the parser")
            seen_optional = place.nargs == "?"
            if coming:
                found[place.dest] = place.read(coming.pop(0))
            elif place.nargs is None:
                raise ValueError("one is missing")
        if coming:
            raise ValueError(coming[0])
        return found


class _Exclusive:
    """Arguments of which one may be given."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def add_argument(self, *names: str, **about: Any) -> None:
        self._table._group = self  # noqa: SLF001 - a part of it
        self._table.add_argument(*names, **about)
        self._table._group = None  # noqa: SLF001 - as above
