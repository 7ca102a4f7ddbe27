"""Whatever is put in comes out, whatever is done to the packs in between."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.gitformat.delta import apply_delta, encode_delta
from mulligan.gitformat.record import DamagedRecord
from mulligan.model.objects import BLOB
from mulligan.store.gc import collect, merge_small
from mulligan.store.verify import verify_packs
from stores import add_all, opened
from tools import sweep

LINE = st.sampled_from([b"\n", b"x\n", b"a longer line that is worth copying\n", b"\r\n", b"no end", b"\0\xff\n"])
TEXT = st.one_of(st.lists(LINE, max_size=60).map(b"".join), st.binary(max_size=400))


@settings(max_examples=sweep(300), deadline=None)
@given(TEXT, TEXT, st.booleans())
def test_a_delta_between_any_two_texts_makes_the_second(base, target, tree):
    assert target == apply_delta(base, encode_delta(base, target, tree=tree))


@settings(max_examples=sweep(300), deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60))
def test_any_bytes_as_a_delta_are_applied_or_refused(base, delta):
    try:
        made = apply_delta(base, delta)
    except DamagedRecord:
        return
    assert len(made) < 1 << 20


@settings(max_examples=sweep(25), deadline=None)
@given(st.data())
def test_objects_survive_any_sequence_of_collections_and_merges(data):
    """A model of dictionary and set: what is live is readable, what is dead is gone after a collection."""
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "store") as store:
        live: dict[bytes, bytes] = {}
        for _ in range(data.draw(st.integers(1, 6))):
            blobs = data.draw(st.lists(TEXT, min_size=1, max_size=8))
            live |= dict(zip(add_all(store, blobs), blobs, strict=True))
            action = data.draw(st.sampled_from(["nothing", "merge", "collect", "forget"]))
            if action == "merge":
                merge_small(store, at_least=2)
            elif action in {"collect", "forget"}:
                gone = data.draw(st.sets(st.sampled_from(sorted(live)))) if action == "forget" else set()
                for oid in gone:
                    del live[oid]
                chains = data.draw(
                    st.lists(st.lists(st.sampled_from([*sorted(live), bytes(20)]), max_size=9), max_size=3)
                )
                collect(store, set(live), chains=chains)
                assert not any(store.has(oid) for oid in gone)
            assert live == {oid: store.read(oid, BLOB) for oid in live}
            assert verify_packs(store) == []
