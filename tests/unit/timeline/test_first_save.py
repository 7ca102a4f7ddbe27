"""Two processes at a store that is being made."""

from __future__ import annotations

import mulligan
from mulligan.store import refs
from tree import put


def test_a_reader_beside_the_first_save_does_not_take_the_store_for_damaged(project, store, monkeypatch):
    """The save of another process ends between a reader's look at the timeline and its look at the refs."""
    put(project, "a", "1")
    store.mkdir()
    reader, other, read = mulligan.open(project, store=store), mulligan.open(project, store=store), refs.read_refs

    def after_a_save(directory):
        monkeypatch.setattr(refs, "read_refs", read)
        other.save("first")
        return read(directory)

    monkeypatch.setattr(refs, "read_refs", after_a_save)
    assert [each.name for each in reader.log()] == ["first"]
