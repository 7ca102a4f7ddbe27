"""What is kept, what goes, and that going means gone: retention, budget, delete, prune, forget."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

import mulligan
from checker import batch_objects, judge
from mulligan.model.checkpoint import KINDS, LASTING_KINDS
from mulligan.model.policy import Retention
from mulligan.settings.files import KEYS
from mulligan.timeline.retention import EVICTION_ORDER
from tools import cli
from tree import contents, put


def size(store: Path) -> int:
    """The bytes of pack data in a store."""
    return sum(path.stat().st_size for path in (store / "objects").rglob("*") if path.is_file())


def configure(home: Path, text: str) -> None:
    """Writes the user's own configuration."""
    put(home, "xdg-config/mulligan/config.toml", text)


@pytest.mark.parametrize(("kind", "saves", "left"), [("automatic", 7, 5), ("session", 4, 3), ("manual", 12, 12)])
def test_each_kind_keeps_its_own_number(ws, project, store, kind, saves, left):
    for number in range(saves):
        put(project, "a", str(number))
        ws.save(f"n{number}", kind=kind)
    names = [cp.name for cp in ws.log(kind=kind)]
    assert names == [f"n{number}" for number in reversed(range(saves - left, saves))]
    for number in range(saves - left, saves):
        assert ws.cat(f"n{number}", "a") == str(number).encode()
    assert judge(store, project) == []


def test_one_kind_never_pushes_out_another(ws, project):
    for kind in ("manual", "feature", "session", "step"):
        put(project, "a", kind)
        ws.save(kind, kind=kind)
    for number in range(9):
        put(project, "a", str(number))
        ws.save(kind="automatic")
    assert {cp.kind for cp in ws.log()} == {"manual", "feature", "session", "step", "automatic"}
    assert ws.cat("feature", "a") == b"feature"


def test_retention_comes_from_the_users_config(project, store, private_home):
    configure(private_home, "[retention]\nautomatic = 2\n")
    ws = mulligan.open(project, store=store)
    for number in range(4):
        put(project, "a", str(number))
        ws.save(f"n{number}", kind="automatic")
    assert [cp.name for cp in ws.log()] == ["n3", "n2"]


def test_the_workspaces_file_cannot_change_retention_or_budget(project, store):
    put(project, "mulligan.toml", '[retention]\nautomatic = 1\nbudget = "1 KiB"\n')
    ws = mulligan.open(project, store=store)
    for number in range(4):
        put(project, "a", str(number))
        ws.save(f"n{number}", kind="automatic")
    assert len(ws.log()) == 4


def test_the_workspaces_file_narrows_what_is_captured(project, store):
    put(project, "mulligan.toml", '[capture]\nexclude = ["*.log", "data/"]\nmax_file_size = "1 KiB"\n')
    for path, text in {"a.log": "1", "data/x": "1", "big": "x" * 2000, "small": "1"}.items():
        put(project, path, text)
    ws = mulligan.open(project, store=store)
    cp = ws.save("one")
    assert cp.complete
    reasons = {entry.path.rstrip("/"): entry.reason for entry in cp.not_captured}
    assert reasons == {"a.log": "excluded", "data": "excluded", "big": "too large"}
    assert sorted(cp.files_changed) == ["mulligan.toml", "small"]
    put(project, "a.log", "2")
    put(project, "big", "y" * 3000)
    put(project, "small", "2")
    before = contents(project)
    ws.restore("one")
    after = contents(project)
    assert {path for path in after if after[path] != before[path]} == {"small"}


def test_the_workspaces_file_cannot_widen_what_is_captured(project, store):
    put(project, "mulligan.toml", '[capture]\ninclude = [".env", "ignored"]\n')
    put(project, ".gitignore", "ignored\n")
    put(project, ".env", "SECRET=1")
    put(project, "ignored", "1")
    ws = mulligan.open(project, store=store)
    cp = ws.save("one")
    assert cp.sealed == (".env",)
    assert "ignored" not in cp.files_changed
    assert not any(b"SECRET=1" in content for _name, _kind, content in batch_objects(store))


def test_the_users_config_widens_what_is_captured(project, store, private_home):
    configure(private_home, '[capture]\ninclude = [".env", "ignored"]\n')
    put(project, ".gitignore", "ignored\n")
    put(project, ".env", "SECRET=1")
    put(project, "ignored", "1")
    cp = mulligan.open(project, store=store).save("one")
    assert {".env", "ignored"} <= set(cp.files_changed)
    assert cp.sealed == (".env",), "include never unseals"
    assert not any(b"SECRET=1" in content for _name, _kind, content in batch_objects(store))


def test_a_save_over_budget_is_refused_and_nothing_asked_for_is_deleted(project, store, private_home):
    configure(private_home, '[retention]\nbudget = "560 KiB"\n')
    ws = mulligan.open(project, store=store)
    rng = random.Random(1)
    saved = []
    with pytest.raises(mulligan.MulliganError) as caught:
        for number in range(30):
            put(project, "a", rng.randbytes(50_000))
            saved.append((ws.save(f"n{number}"), (project / "a").read_bytes()))
    assert "budget" in str(caught.value).lower()
    assert 2 <= len(saved) <= 8
    assert [cp.id for cp in ws.log()] == [cp.id for cp, _content in reversed(saved)]
    assert all(ws.cat(cp, "a") == content for cp, content in saved)
    assert judge(store, project) == []


def test_the_budget_evicts_steps_and_automatic_saves_but_never_manual_ones(project, store, private_home):
    configure(private_home, '[retention]\nbudget = "660 KiB"\n')
    ws = mulligan.open(project, store=store)
    rng = random.Random(2)
    put(project, "a", rng.randbytes(50_000))
    kept = ws.save("asked for")
    content = (project / "a").read_bytes()
    for _number in range(20):
        put(project, "a", rng.randbytes(50_000))
        assert ws.save(kind="step") is not None
    assert ws.cat(kept, "a") == content
    assert len(ws.log(kind="step")) < 20
    ws.prune()
    assert size(store) < 660 << 10
    assert judge(store, project) == []


def test_the_total_budget_of_all_stores_warns_evicts_and_never_takes_what_was_asked_for(tmp_path, private_home):
    """Another project's store leaves too little: steps go, the user's own checkpoints of both stay, then a save is refused."""
    rng, projects = random.Random(4), [tmp_path / "one", tmp_path / "two"]
    for each in projects:
        put(each, "a", rng.randbytes(50_000))
    first, asked = mulligan.open(projects[0]).save("other"), mulligan.open(projects[1]).save("asked for")
    content = (projects[1] / "a").read_bytes()
    configure(private_home, '[retention]\ntotal_budget = "1100 KiB"\n')
    ws = mulligan.open(projects[1])
    for _number in range(20):
        put(projects[1], "a", rng.randbytes(50_000))
        assert ws.save(kind="step") is not None
    assert 0 < len(ws.log(kind="step")) < 20
    assert any("total_budget" in said for said in ws.status()["warnings"])
    assert "retention.total_budget" in cli("save", "--kind", "step", cwd=projects[1]).stderr
    listed = cli("stores", cwd=projects[1])
    assert "of 1.1 MiB (retention.total_budget)" in listed.stdout and "warning: All stores use" in listed.stderr
    with pytest.raises(mulligan.MulliganError, match="total_budget"):
        for number in range(20):
            put(projects[1], "a", rng.randbytes(50_000))
            ws.save(f"mine {number}")
    mine = [cp.name for cp in ws.log(kind="manual")]
    assert mine[-1] == "asked for" and mine[:-1] == [f"mine {number}" for number in reversed(range(len(mine) - 1))]
    assert ws.cat(asked, "a") == content and mulligan.open(projects[0]).get(first.id).name == "other"


def test_prune_frees_what_delete_let_go(ws, project, store):
    rng = random.Random(3)
    put(project, "small", "s")
    ws.save("small")
    put(project, "big", rng.randbytes(3_000_000))
    ws.save("big")
    put(project, "big", "tiny now")
    ws.save("after")
    full = size(store)
    ws.delete("big")
    freed = ws.prune()
    assert freed > 2_900_000
    assert full - size(store) > 2_900_000
    assert ws.cat("after", "big") == b"tiny now"
    assert ws.cat("small", "small") == b"s"
    assert judge(store, project) == []
    assert ws.prune() == 0


def test_prune_keeps_what_another_checkpoint_shares(ws, project, store):
    rng = random.Random(4)
    put(project, "big", rng.randbytes(100_000))
    content = (project / "big").read_bytes()
    ws.save("one")
    put(project, "x", "1")
    ws.save("two")
    ws.delete("one")
    ws.prune()
    assert ws.cat("two", "big") == content
    assert judge(store, project) == []


def test_forget_removes_a_path_from_every_checkpoint_provably(ws, project, store):
    secret = b"the-launch-code-is-0451-" + b"x" * 100
    put(project, "keys/secret.txt", secret)
    put(project, "other", "1")
    ws.save("one")
    put(project, "keys/secret.txt", secret + b"changed")
    put(project, "other", "2")
    ws.save("two")
    ws.restore("one")
    ws.undo()
    ws.forget("keys/secret.txt")
    assert (project / "keys/secret.txt").read_bytes() == secret + b"changed"
    for cp in ws.log():
        with pytest.raises((mulligan.MulliganError, KeyError)):
            ws.cat(cp, "keys/secret.txt")
    assert ws.cat("one", "other") == b"1"
    assert ws.cat("two", "other") == b"2"
    assert not any(secret in content for _name, _kind, content in batch_objects(store))
    for path in store.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            assert secret not in raw, path
            assert all(secret not in inflated for inflated in inflate_all(raw)), path
    assert judge(store, project) == []


def inflate_all(raw: bytes) -> list[bytes]:
    """Whatever inflates at any offset that looks like a zlib header."""
    found = []
    for at in range(len(raw) - 2):
        if raw[at] & 0x0F == 8 and (raw[at] << 8 | raw[at + 1]) % 31 == 0:
            try:
                found.append(zlib.decompressobj().decompress(raw[at:], 1 << 20))
            except zlib.error:
                continue  # not a zlib stream after all
    return found


def test_a_restore_after_forget_leaves_the_forgotten_file_alone(ws, project):
    put(project, "secret", "s")
    put(project, "other", "1")
    ws.save("one")
    put(project, "other", "2")
    ws.forget("secret")
    ws.restore("one")
    assert (project / "other").read_text() == "1"
    assert (project / "secret").read_text() == "s"


def test_feature_checkpoints_stay(ws, project):
    for number in range(8):
        put(project, "a", str(number))
        ws.save(f"f{number}", kind="feature")
    ws.prune()
    assert len(ws.log(kind="feature")) == 8


def test_undo_is_not_lost_to_retention(ws, project):
    put(project, "a", "start")
    ws.save("start")
    for number in range(25):
        put(project, "a", f"unsaved {number}")
        ws.restore("start")
    ws.prune()
    ws.undo()
    assert (project / "a").read_text() == "unsaved 24"


def test_what_a_restore_replaced_is_not_pushed_out_by_later_restores(ws, project):
    put(project, "a", "start")
    ws.save("start")
    put(project, "precious", "the only copy")
    held = ws.restore("start").undo
    for number in range(25):
        put(project, "a", f"unsaved {number}")
        ws.restore("start")
    ws.prune()
    assert ws.cat(held, "precious") == b"the only copy"


def test_the_safety_checkpoint_of_a_restore_never_evicts_the_target(ws, project):
    """The oldest safety checkpoint is restored to when there are as many as may be."""
    put(project, "a", "base")
    ws.save("base")
    safeties = []
    for number in range(ws.settings.retention.safety):
        put(project, "a", str(number))
        safeties.append(ws.restore("base").undo)
    put(project, "a", "last")
    ws.restore(safeties[0])
    assert (project / "a").read_text() == "0"
    assert ws.get("@").id == safeties[0]


def test_trim_keeps_the_newest_of_those_that_match_and_nothing_else_goes(ws, project):
    ids = []
    for number in range(6):
        put(project, "a", str(number))
        ids.append(ws.save(metadata={"by": "service" if number % 2 else "person"}).id)
    gone = ws.trim(1, match={"by": "service"})
    assert [cp.id for cp in gone] == [ids[3], ids[1]]
    assert {cp.id for cp in ws.log()} == set(ids) - {ids[1], ids[3]}
    assert [cp.id for cp in ws.log(match={"by": "person"}, limit=2)] == [ids[4], ids[2]]


def test_trim_of_nothing_in_particular_is_refused(ws, project):
    put(project, "a", "1")
    ws.save()
    with pytest.raises(mulligan.errors.UserError):
        ws.trim(0, match={})
    assert len(ws.log()) == 1


def test_every_kind_lasts_or_has_a_limit_a_setting_and_a_place_in_the_order_of_eviction():
    """A new kind fails here first: see CONTRIBUTING.md, "Add a kind of checkpoint"."""
    expiring = set(KINDS) - set(LASTING_KINDS)
    assert set(EVICTION_ORDER) == expiring
    assert {kind for kind in KINDS if Retention().limit(kind) is not None} == expiring
    assert {f"retention.{kind}" for kind in expiring} <= KEYS.keys()
