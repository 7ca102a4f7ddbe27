"""Damaged packs go out of use, and nothing that can be read goes with them."""

from __future__ import annotations

import pytest

import mulligan
from checker import judge
from mulligan.store.verify import retire
from stores import add_all, opened, pack_files
from tree import put


def spoil(path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_what_can_be_read_of_a_damaged_pack_is_copied_before_it_goes(tmp_path):
    with opened(tmp_path / "store") as store:
        before = set(pack_files(tmp_path / "store"))
        oids = add_all(store, [b"first" * 50, b"second" * 50, b"third" * 50])
        (pack,) = set(pack_files(tmp_path / "store")) - before
        spoil(pack, pack.stat().st_size - 30)
        store.refresh()
        kept = [oid for oid in oids if store.readable(oid)]
        assert len(kept) == 2
        moved = retire(store, [pack.stem.encode()])
        assert sorted(moved) == sorted([pack.name, pack.with_suffix(".idx").name])
        assert not pack.exists() and (tmp_path / "store/objects/damaged" / pack.name).exists()
        assert [oid for oid in oids if store.readable(oid)] == kept


def test_a_pack_of_the_same_name_that_was_damaged_before_is_not_overwritten(tmp_path):
    with opened(tmp_path / "store") as store:
        for _ in range(2):
            before = set(pack_files(tmp_path / "store"))
            add_all(store, [b"the same"])
            (pack,) = set(pack_files(tmp_path / "store")) - before
            retire(store, [pack.stem.encode()])
            for path in pack_files(tmp_path / "store"):
                if path not in before:
                    path.unlink(), path.with_suffix(".idx").unlink()
            store.refresh()
    assert len(list((tmp_path / "store/objects/damaged").iterdir())) == 4


@pytest.mark.parametrize("victim", ["commit", "file"])
def test_the_doctor_brings_back_what_workspace_and_timeline_hold_and_the_store_is_whole_again(
    ws, project, store, victim
):
    put(project, "f", "precious " * 40)
    cp = ws.save("one", state={"k": 1}, metadata={"m": 2}, description="d")
    wanted = cp.commit if victim == "commit" else ws.get("one").commit
    ws.close()
    from mulligan.model.objects import BLOB, object_id

    oid = bytes.fromhex(wanted) if victim == "commit" else object_id(BLOB, b"precious " * 40)
    with opened(store) as objects:
        (pack,) = objects.locations(oid)
        offset = pack.index.offset(pack.index.find(oid))
        path = store / "objects/pack" / (pack.name.decode() + ".pack")
    spoil(path, offset + 8)
    assert not ws.check().ok
    report = ws.doctor()
    assert report.ok and any("objects/damaged" in line for line in report.repaired)
    assert ws.cat("one", "f") == b"precious " * 40 and ws.get("one").to_dict() == cp.to_dict()
    ws.close()
    assert judge(store, project) == []


def test_a_pack_that_cannot_be_healed_is_named_by_the_checkpoints_it_cost(ws, project, store):
    put(project, "f", "gone soon")
    ws.save("one")
    put(project, "f", "here")
    ws.save("two")
    from mulligan.model.objects import BLOB, object_id

    ws.close()
    oid = object_id(BLOB, b"gone soon")
    with opened(store) as objects:
        (pack,) = objects.locations(oid)
        offset = pack.index.offset(pack.index.find(oid))
        path = store / "objects/pack" / (pack.name.decode() + ".pack")
    spoil(path, offset + 4)
    (problem,) = ws.doctor().problems
    assert problem.kind == "checkpoint" and problem.checkpoints == (ws.get("one").id,)
    assert ws.restore("two").complete
    with pytest.raises(mulligan.StoreDamaged):
        ws.restore("one")
