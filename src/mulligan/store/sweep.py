"""
What a crash may leave behind, and how it is put right.

Only for a process that holds the writer's lock: anybody else's temporary would look like a leftover.
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress

from mulligan.safefs.directory import Directory


def sweep_temporaries(directory: Directory, sparing: Container[bytes] = (), *, halves: bool = True) -> None:
    """Empties tmp/ of a store but for some names; with `halves`, completes packs that a crash left without their index."""
    try:
        tmp = directory.child(b"tmp")
    except FileNotFoundError:
        return
    with tmp:
        for name in tmp.names():
            if name in sparing:
                continue
            try:
                tmp.unlink(name, missing_ok=True)
            except (IsADirectoryError, PermissionError):
                tmp.remove_tree(name)
    if halves:
        # A store that has lost this directory is for the doctor.
        with suppress(FileNotFoundError, NotADirectoryError):
            settle_halves(directory)


def settle_halves(directory: Directory) -> None:
    """
    Gives a pack that has no index its index again, so that nothing is lost; the next collection judges its objects.

    An index without its pack is no leftover of ours (the pack comes first and goes last): that is damage, and stays for
    `verify_packs` to report.
    """
    with directory.descend(b"objects/pack") as packs:
        names = set(packs.names())
    for name in names:
        stem, ending = name[:-5], name[-5:]
        if ending == b".pack" and name.startswith(b"pack-") and stem + b".idx" not in names:
            from mulligan.store.verify import rebuild_index  # every save comes here, and hardly any has one to mend

            rebuild_index(directory, stem)
