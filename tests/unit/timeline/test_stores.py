"""Every store on the machine: listed whatever it looks like, purged only when nobody misses it, moved without harm."""

from __future__ import annotations

import os
import shutil

import pytest

import mulligan
from mulligan.model.policy import Settings
from mulligan.timeline import stores
from mulligan.timeline.root import refuse_unprotectable
from scans import settings_for
from tree import put


def settings_at(tmp_path, name: str) -> Settings:
    (tmp_path / name).mkdir(exist_ok=True)
    where = tmp_path / "stores" / name
    return Settings(str(tmp_path / name), str(where), str(tmp_path / "stores"), str(tmp_path / "home"))


def saved(tmp_path, name: str) -> Settings:
    settings = settings_at(tmp_path, name)
    put(tmp_path / name, "f", name)
    with mulligan.Workspace(settings) as ws:
        ws.save(name)
    return settings


def test_what_is_no_store_does_not_keep_the_others_from_being_listed(tmp_path):
    settings = saved(tmp_path, "a")
    home = tmp_path / "stores"
    put(home, "file", "x")
    (home / "empty").mkdir()
    put(home, "garbage/timeline.db", b"garbage" * 999)
    (home / "link").symlink_to(home / "a")
    rows = {os.path.basename(row["path"]): row for row in stores.stores(settings)}
    assert rows.keys() == {"a", "empty", "garbage"}
    assert (rows["a"]["checkpoints"], rows["a"]["workspace"], rows["a"]["exists"]) == (1, settings.workspace, True)
    assert rows["empty"]["problem"] and rows["garbage"]["problem"]
    assert stores.purge(settings, older_than_days=0) == []


def test_nothing_is_listed_where_nothing_is(tmp_path):
    assert stores.stores(settings_at(tmp_path, "a")) == []
    put(tmp_path, "stores", "a file")
    assert stores.stores(settings_at(tmp_path, "a")) == []


def test_only_the_store_of_a_workspace_that_is_gone_and_unused_is_purged(tmp_path):
    kept, gone = saved(tmp_path, "kept"), saved(tmp_path, "gone")
    shutil.rmtree(gone.workspace)
    assert stores.purge(kept) == []
    for name in ("timeline.db", "lock"):
        os.utime(os.path.join(gone.store, name), (0, 0))
    assert [row["path"] for row in stores.purge(kept)] == [gone.store]
    assert not os.path.exists(gone.store) and os.path.exists(kept.store)


def test_a_workspace_on_a_volume_that_is_not_mounted_is_not_gone(tmp_path):
    (tmp_path / "volume").mkdir()
    settings = saved(tmp_path, "volume/project")
    shutil.rmtree(tmp_path / "volume")
    for name in ("timeline.db", "lock"):
        os.utime(os.path.join(settings.store, name), (0, 0))
    assert stores.purge(settings_at(tmp_path, "other")) == []


def test_a_moved_project_takes_its_history_along(tmp_path):
    old = saved(tmp_path, "old")
    os.rename(old.workspace, tmp_path / "new")
    new = settings_at(tmp_path, "new")
    with mulligan.Workspace(new) as ws:
        assert ws.adopt(old.workspace)["checkpoints"] == 1
        assert [cp.name for cp in ws.log()] == ["old"] and not os.path.exists(old.store)
        assert ws.save("after").parent == ws.get("old").id


def test_a_history_is_never_moved_over_something_else(tmp_path):
    """Whatever stands where the store would go stays, a thesis as well as a store that lost its timeline."""
    old = saved(tmp_path, "old")
    os.rename(old.workspace, tmp_path / "new")
    new = settings_at(tmp_path, "new")
    thesis = put(tmp_path, "stores/new/thesis", "x")
    with mulligan.Workspace(new) as ws, pytest.raises(mulligan.UserError, match="not empty"):
        ws.adopt(old.workspace)
    assert thesis.read_text() == "x" and os.path.exists(old.store)


def test_a_history_is_not_taken_from_a_project_that_is_still_there(tmp_path):
    old = saved(tmp_path, "old")
    with mulligan.Workspace(settings_at(tmp_path, "new")) as ws:
        with pytest.raises(mulligan.UserError, match="still exists"):
            ws.adopt(old.workspace)
        with pytest.raises(mulligan.UserError, match="no history"):
            ws.adopt(tmp_path / "nowhere")


@pytest.mark.parametrize("root", ["/", "/etc", "/tmp", "home", "above home", "store"])
def test_a_directory_that_is_nobodys_project_is_refused(tmp_path, root):
    (tmp_path / "home/me").mkdir(parents=True)
    (tmp_path / "store/inside").mkdir(parents=True)
    where = {"home": tmp_path / "home/me", "above home": tmp_path / "home", "store": tmp_path / "store/inside"}.get(
        root, root
    )
    settings = Settings(str(where), str(tmp_path / "store"), str(tmp_path / "stores"), str(tmp_path / "home/me"))
    with pytest.raises(mulligan.Unprotectable):
        refuse_unprotectable(settings)
    refuse_unprotectable(settings_for(settings_at(tmp_path, "fine") and tmp_path / "fine"))
