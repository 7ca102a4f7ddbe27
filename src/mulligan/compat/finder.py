"""
The finder behind drop-in imports: asked first, it answers for the names of the table and for no others.

A module that it makes holds nothing of its own. Each name is looked up in mulligan's module when it is asked for.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from mulligan.compat.table import UNREMARKABLE, Family


class Finder(MetaPathFinder):
    """Answers for the modules of the known systems."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self.foreign: list[str] = []
        self._sources: dict[str, str] = {}
        for name, family in families.items():
            if original_spec(name) is None:
                self._sources |= {**family.others, **family.checkpoints}
            elif original_spec(family.proof) is not None:
                self._sources |= family.checkpoints
            elif name in UNREMARKABLE:
                # A directory of that name is no surprise, and lacks nothing that it had.
                self._sources |= {each: source for each, source in family.others.items() if each != name}
            else:
                self.foreign.append(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how a module of the table is made, None for any other."""
        del path, target
        if fullname not in self._sources:
            return None
        is_package = any(name.startswith(fullname + ".") for name in self._sources)
        spec = ModuleSpec(fullname, _Loader(self._sources[fullname]), is_package=is_package)
        original = original_spec(fullname)
        if is_package and original is not None and original.submodule_search_locations is not None:
            # What the original has beside the replaced modules is still found there.
            spec.submodule_search_locations = list(original.submodule_search_locations)
        return spec


class _Loader(Loader):
    """Makes a module whose names are those of another one."""

    def __init__(self, source: str) -> None:
        self._source = source

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves the making to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module."""
        if not self._source:
            return
        source = importlib.import_module(self._source)

        def look(name: str) -> Any:
            try:
                return getattr(source, name)
            except AttributeError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        module.__doc__ = source.__doc__
        module.__dict__["__getattr__"] = look
        if hasattr(source, "__all__"):
            module.__dict__["__all__"] = list(source.__all__)


def original_spec(fullname: str) -> ModuleSpec | None:
    """Returns where the files of a module are, found without importing anything; None where there are none."""
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = fullname.split(".")
    for number in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:number]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and number < len(parts):
            return None
    return spec


def imported_originals(families: Mapping[str, Family]) -> list[str]:
    """Returns the originals that this process imported already."""
    return [
        name
        for name, family in families.items()
        if name in sys.modules and name not in UNREMARKABLE and original_spec(family.proof) is not None
    ]
