"""
Which store a directory is, and whether all of it is there; `layout` makes one.

Without patterns, here and among the refs: a save needs no others, and `re` takes longer to load than all of this.
"""

from __future__ import annotations

from mulligan.safefs.directory import ABSENT, Directory
from mulligan.store.refs import LETTERS


def store_id(directory: Directory) -> str | None:
    """Returns the id that the store was made with, None when it does not say."""
    for line in (config_of(directory) or "").split("\n"):
        key, _, value = line.partition("=")
        if key.strip() == "storeid" and is_id(value.strip()):
            return value.strip()
    return None


def missing_parts(directory: Directory) -> list[str]:
    """Returns which parts of the repository are gone."""
    missing = [name.decode() for name in (b"HEAD", b"config", b"objects", b"refs") if not directory.exists(name)]
    for parent, path in (("objects", b"objects/pack"), ("refs", b"refs/checkpoints")):
        if parent not in missing:
            try:
                directory.descend(path).close()
            except OSError as error:
                if error.errno not in ABSENT:
                    raise  # it may well be there: do not report it as deleted
                missing.append(path.decode())
    return missing


def is_id(text: str) -> bool:
    """Returns whether a text can be the id of a store."""
    return 0 < len(text) <= 200 and not text.strip(LETTERS + "._-")


def config_of(directory: Directory) -> str | None:
    """Returns the configuration of a store, None where there is none."""
    try:
        return directory.read(b"config", limit=1 << 16).decode("utf-8", "replace") or None
    except FileNotFoundError:
        return None
