"""The options that say which part of history a question is about, shared by `log` and `search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

_NAMES = ("since", "until", "agent", "session")


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Adds `--since`, `--until`, `--agent` and `--session`."""
    parser.add_argument("--since", metavar="T", help="only later: yesterday, '1 hour ago', @14:05")
    parser.add_argument("--until", metavar="T", help="only earlier")
    parser.add_argument("--agent", metavar="A", help="only the work of this agent")
    parser.add_argument("--session", metavar="S", help="only this session, or the start of its id")


def given_bounds(args: argparse.Namespace) -> dict[str, Any]:
    """Returns those of the options that were given, by name."""
    return {name: value for name in _NAMES if (value := getattr(args, name))}
