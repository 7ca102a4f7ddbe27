"""Forgetting: out of every checkpoint, bytes and all, and the file on disk stays."""

from __future__ import annotations

import os

import pytest

import mulligan
from checker import batch_objects, judge
from tree import put

SECRET = os.urandom(400).hex()


def holds(store, text: str) -> bool:
    return any(text.encode() in content for _, kind, content in batch_objects(store) if kind == "blob")


@pytest.fixture
def captured(ws, project):
    for number in range(3):
        put(project, "d/secret", SECRET)
        put(project, "d/other", f"other {number}")
        put(project, "x", str(number))
        ws.save(str(number), state={"s": "y" * 20_000})
    return ws


def test_a_forgotten_path_is_in_no_checkpoint_and_stays_on_disk(captured, project, store):
    report = captured.forget("d/secret")
    assert len(report.checkpoints) == 3 and report.freed_bytes > 0 and report.also_at == []
    assert not holds(store, SECRET)
    for cp in captured.log():
        with pytest.raises(mulligan.UnknownPath):
            captured.cat(cp, "d/secret")
        assert [(row.path, row.reason) for row in cp.not_captured] == [("d/secret", "excluded")]
        assert "d/secret" not in cp.files_changed and cp.state == {"s": "y" * 20_000}
    for cp in captured.log():
        captured.restore(cp)
        assert (project / "d/secret").read_text() == SECRET
    captured.close()
    assert judge(store, project) == []


def test_a_forgotten_directory_takes_all_below_it(captured, project, store):
    captured.forget("d")
    assert not holds(store, SECRET) and not holds(store, "other 1")
    captured.restore("0")
    assert (project / "d/secret").exists() and (project / "x").read_text() == "0"


@pytest.mark.parametrize("path", ["d/secret", "d", "top", "d/deep/er/secret"])
def test_a_forgotten_path_leaves_no_permission_bits_behind(ws, project, store, path):
    for number in range(2):
        for name in ("d/secret", "d/deep/er/secret", "d/deep/er/other", "top", "other"):
            put(project, name, f"{name} {number}", perm=0o600 if number == 0 or name == path else 0o755)
        (project / "d/deep").chmod(0o700)
        ws.save(str(number))
    ws.forget(path)
    ws.close()
    assert judge(store, project) == []
    ws.restore("0")
    kept = [name for name in ("d/secret", "d/deep/er/other", "top", "other") if path not in {name, "d"}]
    assert {(project / name).stat().st_mode & 0o777 for name in kept} <= {0o600}
    assert (project / "d/deep").stat().st_mode & 0o777 == 0o700


def test_the_same_bytes_elsewhere_are_named(captured, project, store):
    put(project, "copy", SECRET)
    captured.save("with a copy")
    assert captured.forget("d/secret").also_at == ["copy"]
    assert holds(store, SECRET)
    assert captured.forget("copy").also_at == []
    assert not holds(store, SECRET)


def test_a_path_that_no_checkpoint_holds_is_an_error_and_changes_nothing(captured):
    before = captured.log()
    for path in ("nowhere", "x/below", "d/secret/below"):
        with pytest.raises(mulligan.UnknownPath):
            captured.forget(path)
    with pytest.raises(mulligan.UserError):
        captured.forget(".")
    assert captured.log() == before


def test_a_path_deeper_than_python_recurses_is_forgotten(project, ws, store):
    here = os.open(project, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    fd = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.write(fd, SECRET.encode())
    os.close(fd)
    os.close(here)
    ws.save("deep")
    ws.forget("d/" * 1200 + "f")
    assert not holds(store, SECRET)
    os.rename(project / "d", project.parent / "moved")  # for those who clean up after tests
    os.system(f"rm -rf '{project.parent / 'moved'}'")


def test_what_was_forgotten_survives_the_loss_of_the_timeline(captured, store):
    captured.forget("d/secret")
    before = [cp.to_dict() for cp in captured.log()]
    captured.close()
    (store / "timeline.db").unlink()
    captured.doctor()
    assert [cp.to_dict() for cp in captured.log()] == before


def test_a_forgetting_that_was_cut_short_is_finished_by_repeating_it(project, store):
    """The second time there is nothing left to rewrite, and the bytes go all the same."""
    put(project, "secret", "precious")
    ws = mulligan.open(project, store=store)
    ws.save("one")
    assert ws.forget("secret").checkpoints
    again = ws.forget("secret")
    assert again.checkpoints == [] and again.also_at == []
