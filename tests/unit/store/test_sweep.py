"""What a crash left is put right."""

from __future__ import annotations

import os

from mulligan.model.objects import BLOB
from mulligan.store.trash import sweep_temporaries
from mulligan.store.verify import LOST_PACK, verify_packs
from stores import add_all, opened, pack_files


def test_temporaries_are_removed_directories_too(tmp_path):
    with opened(tmp_path / "store") as store:
        (tmp_path / "store/tmp/pack-1-1-ab.pack").write_bytes(b"x")
        (tmp_path / "store/tmp/deep/er").mkdir(parents=True)
        (tmp_path / "store/tmp/deep/er/file").write_bytes(b"x")
        (tmp_path / "store/tmp/link").symlink_to(tmp_path)
        sweep_temporaries(store.directory)
        assert os.listdir(tmp_path / "store/tmp") == []
        (tmp_path / "store/tmp").rmdir()
        sweep_temporaries(store.directory)
    assert tmp_path.exists()


def test_a_pack_without_its_index_gets_it_back(tmp_path):
    with opened(tmp_path / "store") as store:
        (oid,) = add_all(store, [b"x" * 40])
        for path in pack_files(tmp_path / "store", ".idx"):
            path.unlink()
        sweep_temporaries(store.directory)
        assert store.read(oid, BLOB) == b"x" * 40
        assert verify_packs(store) == []


def test_an_index_without_its_pack_is_damage_and_stays_to_be_reported(tmp_path):
    with opened(tmp_path / "store") as store:
        add_all(store, [b"x" * 40])
        pack_files(tmp_path / "store")[0].unlink()
        sweep_temporaries(store.directory)
        assert [problem.kind for problem in verify_packs(store)] == [LOST_PACK]


def test_a_store_that_lost_its_packs_is_left_to_the_doctor(tmp_path):
    with opened(tmp_path / "store") as store:
        os.rename(tmp_path / "store/objects", tmp_path / "aside")
        sweep_temporaries(store.directory)
