"""What changed by its contents alone is patched, what changed otherwise is walked, and nobody can tell the difference."""

from __future__ import annotations

import os
import time

import pytest

import mulligan
from adopted import settle
from mulligan.scan import patching
from mulligan.scan.cache import Cache
from mulligan.scan.observer import Observer
from scans import misjudged, settings_for


class Watched:
    """A saved and watched workspace of some depth."""

    def __init__(self, project) -> None:
        for path in ("a", "a/b/c", "d", "top", "d/e/f"):
            (project / path).mkdir(parents=True, exist_ok=True)
            for name in ("one", "two", "six"):
                (project / path / name).write_text(f"{path} {name}\n" * 9)
        (project / ".gitignore").write_text("*.log\n")
        self.root = project
        self.settings = settings_for(project)
        self.ws = mulligan.Workspace(self.settings)
        self.ws.watch()
        self.ws.save()

    def look(self):
        """Returns a look that is the same as that of somebody who knows nothing."""
        scan = self.ws._bench.look().scan
        cache = Cache()
        cache.note = b'{"defaults": %s}' % str(list(scan.defaults)).encode()
        fresh = Observer(self.settings, time.time_ns).scan(cache)[0]
        assert (scan.tree, scan.modes, scan.files, scan.missed) == (fresh.tree, fresh.modes, fresh.files, fresh.missed)
        assert sorted(scan.captured()) == sorted(fresh.captured())
        assert not misjudged(scan, self.ws._bench.vault.objects.read_tree)
        assert not scan.patches.keys() & scan.records.keys()
        for path, record in scan.seen_records():
            assert scan.tree_of(path) == record.tree == fresh.records[path].tree
            assert path not in scan.patches or scan.tree_entries(record.tree) is not None
        return scan


@pytest.fixture
def watched(project):
    made = Watched(project)
    yield made
    made.ws.close()


def test_other_contents_are_patched_in_and_nothing_is_walked(watched):
    (watched.root / "a/b/c/one").write_text("longer\n" * 50)
    (watched.root / "d/two").write_text("other\n" * 50)
    scan = watched.look()
    assert not scan.records
    assert set(scan.patches) == {b"", b"a", b"a/b", b"a/b/c", b"d"}
    assert watched.ws.save().files_changed == ("a/b/c/one", "d/two")
    assert not watched.look().patches


def test_trees_that_are_held_are_not_made_anew(watched, monkeypatch):
    """Else every save builds the trees of all the directories above an edit from all that is in them."""
    (watched.root / "a/b/c/new").write_text("a name that came: this one is walked\n")
    watched.ws.save()
    monkeypatch.setattr(patching, "tree_of", None)
    (watched.root / "d/e/f/one").write_text("as it was first saved\n" * 50)
    assert set(watched.look().patches) == {b"", b"d", b"d/e", b"d/e/f"}
    watched.ws.save()
    for number in range(3):
        (watched.root / "a/b/c/one").write_text(f"{number}\n" * 50)
        (watched.root / "a/b/c/two").write_text(f"two {number}\n" * 50)
        assert set(watched.look().patches) == {b"", b"a", b"a/b", b"a/b/c"}
        assert watched.ws.save().files_changed == ("a/b/c/one", "a/b/c/two")


def test_a_tree_that_is_held_counts_for_the_very_directory_it_was_made_of(watched):
    (watched.root / "a/b/c/one").write_text("longer\n" * 50)
    watched.ws.save()
    (watched.root / "a/b/c/new").write_text("a name that came\n")
    watched.ws.save()
    (watched.root / "a/b/c/one").write_text("other\n" * 50)
    watched.look()
    assert watched.ws.save().files_changed == ("a/b/c/one",)


def test_a_file_renamed_over_another_is_patched_in(watched):
    (watched.root / "d/.new").write_text("other\n" * 50)
    os.replace(watched.root / "d/.new", watched.root / "d/two")
    assert set(watched.look().patches) == {b"", b"d"}
    assert watched.ws.save().files_changed == ("d/two",)


def test_of_a_directory_in_which_names_came_and_went_only_those_are_looked_at(watched, monkeypatch):
    """Else an editor that renames costs a look at all of a directory, however large it is."""
    (watched.root / "d/.new").write_text("other\n" * 50)
    os.replace(watched.root / "d/.new", watched.root / "d/two")
    (watched.root / "d/~lock").write_text("")
    (watched.root / "d/~lock").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(patching, "names_in", lambda _: pytest.fail("listed"))
        assert set(watched.ws._bench.look().scan.patches) == {b"", b"d"}
    assert watched.ws.save().files_changed == ("d/two",)
    assert not watched.look().patches


@pytest.mark.parametrize("then", ["gone", "another"])
def test_what_was_left_out_and_goes_while_another_is_replaced_is_not_listed_any_more(watched, then):
    noise = watched.root / "d/noise.log"
    noise.write_text("noise")
    watched.ws.save()
    assert b"d/noise.log" in watched.look().missed
    if then == "gone":
        noise.unlink()
    else:
        noise.rename(watched.root / "d/other.log")
    (watched.root / "d/.new").write_text("other\n" * 50)
    os.replace(watched.root / "d/.new", watched.root / "d/two")
    scan = watched.look()
    assert b"d/noise.log" not in scan.missed
    assert (b"d/other.log" in scan.missed) is (then == "another")


def test_what_is_patched_below_a_directory_that_is_walked_is_told_to_it(watched):
    (watched.root / "d/new").write_text("new\n" * 50)
    (watched.root / "d/e/f/one").write_text("other\n" * 50)
    (watched.root / "a/one").write_text("other\n" * 50)
    scan = watched.look()
    assert set(scan.patches) == {b"a", b"d/e", b"d/e/f"}
    assert set(scan.records) == {b"", b"d"}
    assert watched.ws.save().files_changed == ("a/one", "d/e/f/one", "d/new")


@pytest.mark.parametrize("how", ["mode", "link", "gone", "kind", "rules"])
def test_more_than_other_contents_is_walked(watched, how):
    path = watched.root / "d/two"
    path.write_text("other\n" * 50)
    if how == "mode":
        path.chmod(0o755)
    elif how == "link":
        path.unlink()
        path.symlink_to("one")
    elif how == "gone":
        path.unlink()
    elif how == "kind":
        path.unlink()
        path.mkdir()
        (path / "inside").write_text("x")
    else:
        (watched.root / "d/.gitignore").write_text("two\n")
    scan = watched.look()
    assert b"d" in scan.records
    watched.ws.save()
    watched.look()


def test_a_file_whose_times_were_put_back_is_read_again(watched):
    path = watched.root / "d/two"
    before = path.stat()
    path.write_text(path.read_text().replace("two", "TWO"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert set(watched.look().patches) == {b"", b"d"}


def test_a_file_that_was_written_to_and_is_the_same_changes_no_tree(watched):
    path = watched.root / "d/two"
    path.write_text(path.read_text())
    scan = watched.look()
    # Written within one tick of the clock, it may be as it was to the last field.
    assert set(scan.patches) <= {b"d"} and not scan.objects
    assert watched.ws.save(if_changed=True) is None


def test_a_record_that_is_doubted_is_walked(watched):
    watched.ws._bench.observer._cache.doubt(0)
    (watched.root / "d/two").write_text("other\n" * 50)
    scan = watched.look()
    assert not scan.patches and set(scan.records) == {b"", b"d"}


def test_a_directory_that_is_looked_at_for_nothing_is_not_written_down(watched):
    for _ in range(2):
        # What was too young to be remembered when it was saved first is written down once more, however slow this runs.
        watched.ws._bench.observer._warm.image.mark_later({b"d", b"a/b"})
        watched.ws.save()
        settle(watched.root.parent)
    watched.ws._bench.observer._warm.image.mark_later({b"d", b"a/b"})
    scan = watched.look()
    assert not scan.patches and not scan.records


def test_a_second_name_is_thought_of(watched):
    os.link(watched.root / "d/two", watched.root / "a/again")
    watched.ws.save()
    (watched.root / "a/again").write_text("through the other name\n" * 9)
    watched.look()
    assert watched.ws.save().files_changed == ("a/again", "d/two")
