"""
Drop-in imports: the checkpoint modules of Chimera, PraisonAI and architect, by their own names.

    import mulligan.compat

    mulligan.compat.install()  # the first line of a program

    from chimera.checkpoints import CheckpointManager  # is mulligan's

Or around a program that stays as it is: `python -m mulligan.compat [-m MODULE | script.py] …`. Nothing happens before
`install` is called. Where the original is installed, only its checkpoint modules are replaced; its agents, loops and command
line stay its own. Where it is not, the other modules that its document names are provided too.
"""

from __future__ import annotations

import sys
import warnings

from mulligan.compat.finder import Finder, imported_originals
from mulligan.compat.table import FAMILIES

__all__ = ["ForeignPackageWarning", "install", "uninstall"]


class ForeignPackageWarning(UserWarning):
    """A package has the name of a known system and belongs to another project."""


def install() -> None:
    """
    Makes the documented imports of the known systems mean mulligan's modules; a second call does nothing.

    Raises RuntimeError, with nothing changed, where an original was imported already: parts of the program may hold its
    classes. A package of such a name that lacks the checkpoint modules is another project's: it is left alone, with a warning.
    """
    if any(isinstance(each, Finder) for each in sys.meta_path):
        return
    early = imported_originals(FAMILIES)
    if early:
        raise RuntimeError(
            f"{early[0]} was imported before mulligan.compat.install(). Nothing was changed. Call install() first:"
            " its place is the first line of the program, or use python -m mulligan.compat."
        )
    finder = Finder(FAMILIES)
    for name in finder.foreign:
        warnings.warn(
            f"The package {name!r} that is installed here has no {FAMILIES[name].proof}: it belongs to another project,"
            " and is left alone.",
            ForeignPackageWarning,
            stacklevel=2,
        )
    sys.meta_path.insert(0, finder)


def uninstall() -> None:
    """Takes the finder away again; modules that were imported stay."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, Finder)]
