"""
The first look that begins with what git knows (`adopting`), with the compiled part.

It takes the index apart, looks at the disk and copies the objects (`safefs/adoption.py`), in two threads and one process. What
was decided in `adopting` is decided here, by the same functions: which names are in scope, what is a secret, whether git
is to be believed. An index that is not plain, and whatever else is not the usual case, goes the way of Python.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from mulligan.model.checkpoint import pack_paths
from mulligan.model.objects import MODE_EXEC, MODE_FILE, TREE
from mulligan.model.paths import join, parent_of
from mulligan.model.policy import DEFAULT_EXCLUDED_DIRECTORIES
from mulligan.safefs.adoption import (
    ATTRIBUTES,
    IGNORES,
    LOOKED_AT,
    ODD,
    SEEN,
    UNPROVEN,
    Adoption,
    Copying,
    Folder,
    Terms,
    new_copying,
    taken_apart,
)
from mulligan.safefs.compiled import Library, Looking, spare
from mulligan.scan.adopting import (
    Adopted,
    Ground,
    Ruled,
    base_rules,
    check_attributes,
    decided,
    entered,
    try_some,
)
from mulligan.scan.cache import Cache
from mulligan.scan.expected import MARGIN, UNWRITTEN, Declined, guess
from mulligan.scan.git import belief
from mulligan.scan.git.records import ANY_SIZE, INDEX_LIMIT, Packs, pack_stems
from mulligan.scan.glance import Looked
from mulligan.scan.hints import Hints
from mulligan.scan.reading import Sink
from mulligan.scan.record import Packed, decode, head_in, latest_for, modes_in, tree_in, with_modes
from mulligan.scan.scope import ODD_HEADS, ODD_PARTS, RECORDS
from mulligan.scan.secrets import PLACES, SOURCE, secret_content, secret_name
from mulligan.scan.trees import NONE, Objects, Sealed, modes_of

if TYPE_CHECKING:
    from mulligan.scan.ignore import Rules
    from mulligan.scan.scope import Scope

_TRUSTED, _LEANS = 1, 8
_PACK_TREE = 2


class NotPlain(Exception):
    """Something here is for Python alone."""


def adopt_compiled(ground: Ground, sink: Sink, library: Library, least: int, boot: int) -> Adopted | None:
    """Returns a memory made from git's index, its objects given to the sink; None where everything is to be read. Raises NotPlain."""
    with ExitStack() as files:
        copying, packs = _opened(ground, library, files)
        found = belief.believable_bytes(ground.repo, *ground.homes)
        if found is None:
            return None
        adoption = taken_apart(library.calls, found[0], spare())
        if adoption is None:
            raise NotPlain
        if adoption.files < least:
            return None
        copying.open(INDEX_LIMIT, spare())
        looking = _Looking(ground, adoption, found[1], boot)
        looking.run(copying)
        if not copying.want(adoption):
            raise NotPlain
        for at, (index, pack) in enumerate(packs):
            index.close()
            if not copying.uses(at):
                pack.close()  # what cannot be used is not held open
        incoming = _begin(sink, copying, files)
        # Nearly always everything is copied: what follows from that is made meanwhile.
        adopted = looking.adopted(library)
        listing = pack_paths(adoption.names())
        if adopted.looked is not None:
            adopted.looked.found(index_changed=True)
        copying.end()
        if incoming is not None and any(copying.made(at)[0] for at in range(len(incoming.fds))):
            raise Declined  # it failed, and why shows when the files are read
        _take_deltas(ground, sink, copying)
        if copying.settle(adoption):
            adopted = looking.adopted(library)
        looking.check_tried()  # now: a file whose object is not as long as it is, as with other line endings, was never believed
        adopted.objects.update(looking.trees(copying))
        if incoming is not None:
            sink.take_over(incoming.keep([copying.made(at)[1:] for at in range(len(incoming.fds))]), copying)
    return adopted._replace(listing=listing)


def _opened(ground: Ground, library: Library, files: ExitStack) -> tuple[Copying, list[tuple[ExitStack, ExitStack]]]:
    """Opens the packs, with an index each."""
    copying = new_copying(library.calls)
    if copying is None:
        raise NotPlain
    try:
        directory = files.enter_context(ground.repo.common.descend(b"objects/pack"))
    except OSError:
        raise Declined from None
    packs = []
    for stem in pack_stems(directory):
        index, pack = files.enter_context(ExitStack()), files.enter_context(ExitStack())
        try:
            fds = (
                index.enter_context(directory.reading(stem + b".idx")),
                pack.enter_context(directory.reading(stem + b".pack")),
            )
        except OSError:
            index.close()
            continue  # gone: git may have packed anew meanwhile
        if not copying.add(*fds):
            break
        packs.append((index, pack))
    files.callback(copying.close)  # before anything of it is closed
    return copying, packs


def _begin(sink: Sink, copying: Copying, files: ExitStack) -> Any:
    """Begins to copy what is wanted into new packs, which are thrown away with `files` unless they are kept; None where there is nothing."""
    incoming = sink.incoming(lambda limit, most: copying.plan(limit, most, spare() + 1))
    if incoming is not None:
        files.enter_context(incoming)
        files.callback(copying.close)  # before anything of it is closed
        copying.begin(incoming.fds, 2 * spare())
    return incoming


def _take_deltas(ground: Ground, sink: Sink, copying: Copying) -> None:
    """Takes what the compiled part leaves alone: deltas, with what they stand on in the same pack, once more if it has to be."""
    wanted = {oid: ANY_SIZE if kind == _PACK_TREE else size for oid, kind, size in copying.deltas()}
    if not wanted:
        return
    taken = set[bytes]()
    try:
        found = ground.repo.common.descend(b"objects/pack")
    except OSError:
        return  # gone meanwhile: the files are read
    with found as directory:
        packs = Packs(directory)
        try:
            for _ in packs.take(wanted, sink, taken):
                pass
        finally:
            packs.close()
    for oid in taken:
        copying.took(oid)


class _Looking:
    """What is expected, what the disk says, and what is decided over it."""

    def __init__(self, ground: Ground, adoption: Adoption, written: int, boot: int) -> None:
        self._ground, self._adoption = ground, adoption
        self._root, self._scope = ground.root, ground.scope
        self._has_attributes = adoption.has_attributes
        self._expect(written, boot)
        self._paths, self._base = adoption.paths(), base_rules(ground.scope)
        if RECORDS in self._paths:
            raise NotPlain
        self._rules: list[Ruled | None] = [self._base] * len(self._paths)
        self._flags = bytearray([_TRUSTED]) * len(self._paths)
        self._secret = set[int]()  # files whose names say so

    def _expect(self, written: int, boot: int) -> None:
        ground = self._ground
        modes, upper = guess(ground.root, self._adoption.files, self._adoption.entry)
        terms = Terms(
            upper, written - MARGIN, boot - UNWRITTEN, boot, min(ground.scope.max_file_size, (1 << 63) - 1),
            (modes[MODE_FILE], modes[MODE_EXEC]), ground.defaults, SOURCE, PLACES, [name.encode() for name in DEFAULT_EXCLUDED_DIRECTORIES],
            ODD_PARTS, ODD_HEADS,
        )  # fmt: skip
        if not self._adoption.expect(terms, spare()):
            raise NotPlain

    def run(self, copying: Copying) -> None:
        """Looks at everything, and makes the trees."""
        adoption = self._adoption
        self._folders = adoption.folders()
        if not adoption.look(self._root.fd, copying, 2 * spare()):
            raise NotPlain
        try:
            self._try_some()
        finally:
            adoption.wait()
        self._folders = adoption.folders()
        self._enter_all()
        self._decide_all()
        adoption.set_states([(at, UNPROVEN if secret_content(head) else LOOKED_AT) for at, head in adoption.to_judge()])
        adoption.set_states([(at, UNPROVEN) for at in self._secret])

    def _decide_all(self) -> None:
        """Decides over each name that rules could mean, or that is not simply captured."""
        files, dirs, told = Hints(), Hints(), set[int]()
        for rules in {ruled[1]: ruled[0] for ruled in self._rules if ruled is not None}.values():
            rules.tell(files, dirs, told)
        hits = self._adoption.hits(files, dirs)
        if hits is None:
            raise NotPlain
        scope = self._scope.of_tracked()
        for at, found in groupby(hits, itemgetter(0)):
            ruled = self._rules[at]
            if ruled is not None:
                self._decide(scope, at, ruled[0], [place for _, place in found])

    def _decide(self, scope: Scope, at: int, rules: Rules, places: list[int]) -> None:
        path, folder = self._paths[at], self._folders[at]
        packed = self._packed(folder)
        files, all_names, all_dirs = [place for place in places if place < folder.files], packed.names, packed.dirs
        dirs = [all_dirs[place - folder.files] for place in places[len(files) :]]
        is_clear, leans, odd = decided(scope, path, rules, [all_names[place] for place in files], dirs)
        if odd:  # what is simply captured is no secret by its name
            secret = [place for place in files if all_names[place] in odd and secret_name(join(path, all_names[place]))]
            self._secret.update([folder.first + place for place in secret])
        self._flags[at] = (_TRUSTED if is_clear else 0) | (_LEANS if leans else 0)

    def _packed(self, folder: Folder) -> Packed:
        return Packed(self._adoption.record(folder))

    def _enter_all(self) -> None:
        """Reads rules and attributes in directories that have some."""
        at_of, has_rules = {path: at for at, path in enumerate(self._paths)}, False
        for at, (path, folder) in enumerate(zip(self._paths, self._folders, strict=True)):
            above = self._rules[at_of[parent_of(path)]] if path else self._base
            if not folder.flags & SEEN or above is None:
                self._rules[at], self._flags[at] = None, 0
                continue
            if folder.flags & (IGNORES | ATTRIBUTES) or self._has_attributes:
                above = self._entered(path, folder, above)
            self._rules[at] = above
            if above is not self._base:
                has_rules = True
        self._keys = (
            b"".join([rules[1] if rules else bytes(16) for rules in self._rules]) if has_rules else self._base[1]
        )

    def _entered(self, path: bytes, folder: Folder, rules: Ruled) -> Ruled:
        tracked = b""
        if self._has_attributes:
            packed = self._packed(folder)
            at = packed.find(belief.ATTRIBUTES)
            tracked = packed.oid_at(at) if at >= 0 else b""
        if not folder.flags & (IGNORES | ATTRIBUTES):
            check_attributes(None, tracked)
            return rules
        try:
            with self._root.descend(path) as directory:
                check_attributes(directory if folder.flags & ATTRIBUTES else None, tracked)
                return entered(self._scope, path, directory, rules) if folder.flags & IGNORES else rules
        except OSError:
            raise Declined from None  # it went meanwhile

    def adopted(self, library: Library) -> Adopted:
        """Returns what is remembered as far as is known, without the trees."""
        adoption, objects, cache = self._adoption, Objects(), Cache()
        same = adoption.finish(bytes(self._flags), self._keys, latest_for(self._ground.started))
        self._folders = adoption.folders()
        packed = adoption.records(self._folders)
        if any(folder.flags & ODD for folder in self._folders):
            self._add_modes(packed, objects)
        cache.suppose(zip(self._paths, packed, strict=True))
        looking = Looking(library, self._root.fd, self._paths, packed)
        return Adopted(cache, objects, Looked(self._root.fd, cache, self._paths, looking, same))

    def trees(self, copying: Copying) -> Objects:
        """Returns the trees that were not copied."""
        adoption, found = self._adoption, Objects()
        for at in copying.trees_left(adoption):
            folder = self._folders[at]
            found[tree_in(adoption.record(folder))] = (TREE, adoption.tree(folder))
        return found

    def _add_modes(self, packed: list[bytes], objects: Objects) -> None:
        """Writes permission bits down that are not the usual ones."""
        at_of = {path: at for at, path in enumerate(self._paths)}
        odd = {at for at, folder in enumerate(self._folders) if folder.flags & ODD}
        for at in range(len(packed) - 1, -1, -1):
            path = self._paths[at]
            if at in odd:
                record = decode(packed[at])
                children = [(name, head_in(packed[at_of[join(path, name)]])) for name in record.dirs]
                modes = modes_of(Sealed(record, modes_in(record.stats), children), self._ground.defaults, objects)
                packed[at] = with_modes(packed[at], modes)
                if modes != NONE and path:
                    odd.add(at_of[parent_of(path)])

    def _try_some(self) -> None:
        """Reads a few files after all, while the disk has nothing to write."""
        places = [at for at, folder in enumerate(self._folders) if folder.files]

        def record_at(at: int) -> tuple[bytes, Packed]:
            folder = self._folders[places[at]]
            return self._paths[places[at]], self._packed(folder)

        wrong = try_some(self._root, len(places), record_at, self._adoption.files)
        self._wrong = [self._folders[places[number]].first + at for number, at in wrong]

    def check_tried(self) -> None:
        """Raises Declined where git is wrong about a file that was read, and that would be taken over: it is believed in nothing then."""
        states = self._adoption.states()
        if any(states[at] != UNPROVEN for at in self._wrong):
            raise Declined
