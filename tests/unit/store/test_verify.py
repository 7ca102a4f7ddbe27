"""Verification: every flipped byte and every lost file is found, nothing wrong is ever returned, nothing raises."""

from __future__ import annotations

import random

import pytest

from mulligan.errors import StoreDamaged
from mulligan.model.objects import BLOB, object_id
from mulligan.store import verify
from mulligan.store.gc import collect
from mulligan.store.verify import rebuild_index, verify_packs
from stores import add_all, edited, open_descriptors, opened, pack_files, text
from tools import git

CHANCE = random.Random(5)
FIRST = text(12, CHANCE)
CONTENTS = [FIRST, edited(FIRST, CHANCE), b"", b"short", bytes(300)]


@pytest.fixture
def filled(tmp_path):
    """A store with one small pack that holds whole objects and a delta, and nothing else of that size."""
    with opened(tmp_path / "store") as store:
        oids = add_all(store, CONTENTS)
        collect(store, set(oids), chains=[oids[:2]])
        assert len(pack_files(tmp_path / "store")) == 1
        yield store, tmp_path / "store", dict(zip(oids, CONTENTS, strict=True))


def test_a_sound_store_has_no_problems(filled):
    store, _, _ = filled
    seen = []
    assert verify_packs(store, progress=lambda done, total: seen.append((done, total))) == []
    assert seen[-1] == (1, 1)


@pytest.mark.parametrize("ending", [".pack", ".idx"])
def test_every_flipped_byte_is_found_and_no_wrong_byte_is_returned(filled, ending):
    store, path, contents = filled
    (file,) = pack_files(path, ending)
    good = file.read_bytes()
    before = open_descriptors()
    for at in range(len(good)):
        if ending == ".idx" and 8 < at < 1024 and at % 16:
            continue  # the first table: 255 times the same
        file.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        store.close()
        lost = set()
        for oid, content in contents.items():
            try:
                assert content == store.read(oid, BLOB), at
            except StoreDamaged:
                lost.add(oid)
        problems = verify_packs(store)
        assert problems, at
        assert lost == {oid for problem in problems for oid in problem.oids if oid in contents}, at
    file.write_bytes(good)
    store.close()
    assert before >= open_descriptors()
    assert verify_packs(store) == []


@pytest.mark.parametrize("ending", [".pack", ".idx"])
def test_every_truncation_is_found(filled, ending):
    store, path, contents = filled
    (file,) = pack_files(path, ending)
    good = file.read_bytes()
    for length in {*range(0, len(good), 29), len(good) - 1, 12, 32}:
        file.write_bytes(good[:length])
        store.close()
        for oid, content in contents.items():
            try:
                assert content == store.read(oid, BLOB)
            except StoreDamaged:
                continue
        assert verify_packs(store), length
    file.write_bytes(bytes(len(good)))
    store.close()
    assert verify_packs(store)


def test_a_lost_pack_names_the_objects_that_went_with_it(filled):
    store, path, contents = filled
    (file,) = pack_files(path)
    file.unlink()
    (problem,) = verify_packs(store)
    assert problem.kind == verify.LOST_PACK
    assert file.name == problem.subject
    assert problem.oids >= contents.keys()


@pytest.mark.parametrize("how", ["lost", "damaged", "of another pack"])
def test_a_bad_index_is_made_anew(filled, how):
    store, path, contents = filled
    (index,) = pack_files(path, ".idx")
    good = index.read_bytes()
    if how == "lost":
        index.unlink()
    elif how == "damaged":
        index.write_bytes(good[:1200])
    else:
        index.write_bytes(good[:-40] + bytes(40))
    store.close()
    (problem,) = verify_packs(store)
    assert problem.kind == (verify.LOST_INDEX if how == "lost" else verify.DAMAGED_INDEX)
    if how != "of another pack":
        assert problem.oids >= contents.keys()
    assert rebuild_index(store.directory, index.stem.encode())
    assert good == index.read_bytes()
    assert verify_packs(store) == []
    assert contents == {oid: store.read(oid, BLOB) for oid in contents}


def test_an_index_is_not_made_for_a_damaged_pack(filled):
    store, path, _ = filled
    (pack,) = pack_files(path)
    good = pack.read_bytes()
    for at in (0, 9, 30, len(good) - 1):
        pack.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        assert not rebuild_index(store.directory, pack.stem.encode()), at
    pack.write_bytes(good[:-20] + b"more" + good[-20:])
    assert not rebuild_index(store.directory, pack.stem.encode())
    pack.unlink()
    assert not rebuild_index(store.directory, pack.stem.encode())


def test_an_index_is_made_for_a_pack_of_gits_with_deltas_by_id(tmp_path):
    """`git pack-objects` without offsets writes REF_DELTA, whose base may come later."""
    chance = random.Random(9)
    history = [text(80, chance)]
    while len(history) < 30:
        history.append(edited(history[-1], chance))
    with opened(tmp_path / "store") as store:
        oids = add_all(store, history)
        names = "\n".join(oid.hex() + " f" for oid in oids).encode()
        made = git("pack-objects", "--window=10", str(tmp_path / "theirs"), cwd=tmp_path / "store", stdin=names)
        stem = made.decode().strip()
        collect(store, set())
        for ending in (".pack", ".idx"):
            data = (tmp_path / f"theirs-{stem}{ending}").read_bytes()
            (tmp_path / f"store/objects/pack/pack-{stem}{ending}").write_bytes(data)
        assert verify_packs(store) == []
        index = tmp_path / f"store/objects/pack/pack-{stem}.idx"
        good = index.read_bytes()
        index.unlink()
        assert rebuild_index(store.directory, f"pack-{stem}".encode())
        assert good == index.read_bytes()
        assert history == [store.read(oid, BLOB) for oid in oids]
        collect(store, set(oids[::2]))
        assert history[::2] == [store.read(oid, BLOB) for oid in oids[::2]]


def test_strangers_are_named(filled):
    store, path, _ = filled
    (path / "objects/pack/tmp_pack_Xy").write_bytes(b"")
    (path / "objects/pack/pack-00.idx").mkdir()
    (path / ("objects/pack/pack-" + "0" * 40 + ".rev")).write_bytes(b"")
    problems = verify_packs(store)
    assert [problem.kind for problem in problems] == [verify.STRAY] * 3


@pytest.mark.parametrize("ending", [".pack", ".idx"])
@pytest.mark.parametrize("what", ["directory", "link"])
def test_what_stands_in_the_place_of_a_file_is_a_problem_not_an_error(filled, ending, what):
    store, path, contents = filled
    (file,) = pack_files(path, ending)
    aside = file.rename(path / "aside")
    file.mkdir() if what == "directory" else file.symlink_to(aside)
    store.close()
    with pytest.raises(StoreDamaged):
        store.read(next(iter(contents)), BLOB)
    (problem,) = verify_packs(store)
    assert problem.oids >= contents.keys()


def test_an_object_with_another_copy_is_not_lost(tmp_path):
    oid = object_id(BLOB, b"copied" * 20)
    with opened(tmp_path / "store") as store:
        for extra in (b"1", b"2"):
            with store.writer(anew={oid}) as writer:
                writer.add(BLOB, b"copied" * 20)
                writer.add(BLOB, extra)
                writer.finish()
        path = next(p for p in pack_files(tmp_path / "store", ".idx") if object_id(BLOB, b"1") in p.read_bytes())
        path.with_suffix(".pack").unlink()
        (problem,) = verify_packs(store)
        assert {object_id(BLOB, b"1")} == problem.oids
