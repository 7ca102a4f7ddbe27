"""
The plain files of a restore, many at a time, where the compiled part is there to see to them.

Plain is a regular file of moderate size, with none but the usual permission bits, that the scan remembers (or nothing where
a new one comes): most files of most restores. What is not plain, and each file that turns out not to be as it should, is
for `Stager` and `Executor` to deal with one by one; they say what must hold, and this only takes the same steps faster, in
the directories that they have open. After a crash nothing is remembered, so nothing is plain.
"""

from __future__ import annotations

from stat import S_IFREG

from mulligan.model.objects import MODE_DIR, MODE_LINK
from mulligan.model.plan import Action
from mulligan.model.small import Callable, Collection, Iterable, Sequence
from mulligan.model.typed import NamedTuple, Protocol
from mulligan.restore.layout import Layout, temporary_name
from mulligan.restore.place import Handles
from mulligan.safefs.compiled import load
from mulligan.safefs.placing import (
    LARGEST,
    MOST,
    NO_OID,
    NOTHING,
    PUT,
    REMOVE,
    SWAP,
    NewFile,
    Placer,
    Placing,
    Run,
    given,
    pack,
)
from mulligan.scan.record import STAT, Stat

# For fewer it is not worth while to load the compiled part.
_WORTH = 64
_USUAL = 0o777
_NO_FILES = (MODE_DIR, MODE_LINK)

Step = tuple[int, Action]
MemoryOf = Callable[[bytes], tuple[Stat | None, Stat | None]]
# The name of a pack that holds an object, the pack, open, the object's place in it, and where what counts of the pack ends.
PlaceOf = Callable[[bytes], tuple[bytes, int, int, int] | None]


class Bin(Protocol):
    """Where displaced files go."""

    def names_for(self, sizes: Sequence[int]) -> tuple[int, list[bytes]]:
        """Returns an open directory for files of these sizes, and a name for each; -1 where they are to be removed."""


class _Row(NamedTuple):
    """What is known of a plain step; `size` is that of the file it displaces."""

    above: bytes
    name: bytes
    stage: bytes
    temporary: bytes
    packed: bytes
    size: int


class Many:
    """The plain files of one plan."""

    def __init__(self, placer: Placer, token: str, layout: Layout, trash: Bin) -> None:
        self._placer = placer
        self._token = token
        self._layout = layout
        self._trash = trash
        self._rows: dict[int, _Row] = {}
        self._lane = placer.lane()
        self._numbers: list[int] = []
        self._origins: dict[int, bytes] = {}

    def reach(self, handles: Handles, directories: Iterable[bytes]) -> None:
        """Opens directories, as many as may be open."""
        handles.fill(directories, self._placer.open)

    # -- staging --------------------------------------------------------------------------------

    def locate(self, places: Sequence[Step], place_of: PlaceOf) -> dict[int, int]:
        """Returns the sizes of those objects that need not be read: whoever stages their files gets at their bytes himself."""
        rows = {}
        for number, (_, _, after) in places:
            found = place_of(after.oid) if after is not None and after.mode != MODE_LINK else None
            if found is not None and after is not None:
                name, fd, offset, end = found
                held = self._lane.pack(name, fd)
                if held >= 0:
                    rows[number] = (offset, end, after.oid, held)
        sizes = {}
        for number, (origin, size) in zip(rows, self._lane.origins([*rows.values()]), strict=True):
            if origin:
                self._origins[number], sizes[number] = origin, size
        return sizes

    def begin(self, places: Sequence[Step], handles: Handles, contents: Callable[[bytes], bytes | None]) -> None:
        """Begins to stage some files, in the background. Contents that are neither at hand nor located are left out."""
        for some in _portions(places, handles):
            self.reach(handles, dict.fromkeys(self._layout.stage_of(action.path) for _, action in some))
            files = {}
            for number, action in some:
                found = self._new_file(number, action, handles, contents)
                if found is not None:
                    files[number] = found
            if files:
                self._numbers += files
                self._lane.add([*files.values()])

    def staged(self) -> dict[int, int]:
        """Waits for what was begun; returns the inode of each file that is there, whole."""
        numbers, self._numbers = self._numbers, []
        return {number: inode for number, inode in zip(numbers, self._lane.end(), strict=True) if inode}

    def _new_file(
        self, number: int, action: Action, handles: Handles, contents: Callable[[bytes], bytes | None]
    ) -> NewFile | None:
        path, before, after = action
        if after is None or after.mode == MODE_LINK or after.perm > _USUAL:
            return None
        origin = self._origins.get(number)
        content = contents(after.oid) if origin is None else b""
        stage = self._layout.stage_of(path)
        above, _, name = path.rpartition(b"/")
        replaces = before is not None and before.mode != MODE_LINK
        if content is None or len(content) > LARGEST or (replaces and above != stage):
            return None
        temporary = temporary_name(self._token, number)
        where, instead = _reached(handles, stage), name if replaces else None
        return NewFile(where, temporary, instead, after.perm, content, origin or given(content))

    # -- looking --------------------------------------------------------------------------------

    def expect(self, steps: Sequence[Step], memory_of: MemoryOf) -> None:
        """Notes which steps are plain, and what is known of their paths; nothing is looked at."""
        for number, action in steps:
            row = self._row(number, action, memory_of)
            if row is not None:
                self._rows[number] = row

    def unsettled(self, steps: Sequence[Step], handles: Handles) -> list[Step]:
        """Returns those of some steps whose path is not, or may not be, as the scan saw it: plain ones that changed, and all others."""
        left: list[Step] = []
        for some in _portions(steps, handles):
            rows = {number: self._rows[number] for number, _ in some if number in self._rows}
            same = self._placer.unchanged(self._opened(rows.values(), handles)) if rows else b""
            settled = {number for number, is_same in zip(rows, same, strict=True) if is_same}
            left += [step for step in some if step[0] not in settled]
        return left

    def _row(self, number: int, action: Action, memory_of: MemoryOf) -> _Row | None:
        path, before, after = action
        if (before is not None and before.mode == MODE_DIR) or (after is not None and after.mode in _NO_FILES):
            return None
        new, mode = (after.oid, S_IFREG | after.perm) if after is not None else (NO_OID, 0)
        if before is None:
            size, row = 0, pack(NOTHING, NO_OID, new, mode, PUT)
        else:
            stat, _ = memory_of(path)
            if stat is None or stat.mode != S_IFREG | before.perm or not 0 <= stat.size <= LARGEST:
                return None
            kind = SWAP if after is not None else REMOVE
            size, row = stat.size, pack(STAT.pack(*stat), before.oid, new, mode, kind)
        above, _, name = path.rpartition(b"/")
        return _Row(above, name, self._layout.stage_of(path), temporary_name(self._token, number), row, size)

    # -- acting ---------------------------------------------------------------------------------

    def holds(self, number: int) -> bool:
        """Returns whether a step is plain."""
        return number in self._rows

    def run(self, steps: Sequence[Step], handles: Handles, inodes: dict[int, int]) -> Run:
        """Returns the work of taking plain steps, no more of them than these handles allow."""
        rows = [self._rows[number] for number, _ in steps]
        trash, gone = self._trash.names_for([row.size for row in rows])
        return self._placer.run(
            self._opened(rows, handles), [inodes.get(number, 0) for number, _ in steps], trash, gone
        )

    def _opened(self, rows: Collection[_Row], handles: Handles) -> list[Placing]:
        """Returns what the compiled part is given; a directory is asked for once, as long as its files follow one another."""
        self.reach(handles, dict.fromkeys(path for row in rows for path in (row.above, row.stage)))
        found, last, directory = [], None, -1
        for above, name, stage, temporary, row, _ in rows:
            if above != last:
                last, directory = above, _reached(handles, above)
            found.append((directory, name, directory if stage == above else _reached(handles, stage), temporary, row))
        return found


def most_at_once(handles: Handles) -> int:
    """Returns how many files may be worked at with all their directories open: two each, and perhaps the one above those."""
    return max(1, min(MOST, handles.most // 4))


def _portions(steps: Sequence[Step], handles: Handles) -> list[Sequence[Step]]:
    most = most_at_once(handles)
    return [steps[start : start + most] for start in range(0, len(steps), most)]


def _reached(handles: Handles, path: bytes) -> int:
    try:
        return handles.get(path).fd
    except OSError:
        return -1  # whoever deals with its files one by one says why


def many_of(compiled: str, token: str, layout: Layout, trash: Bin) -> Many | None:
    """Returns what sees to the plain files of a plan; None where they are few, or there is no compiled part."""
    if len(layout.places) + len(layout.removes) < _WORTH:
        return None
    library = load(compiled)
    return Many(Placer(library), token, layout, trash) if library is not None else None
