"""
Where a git repository stands, and a move from one such position to another.

Values only: no index bytes, no open files. A position names what HEAD says, the commit behind it, what is staged (as a
fingerprint that a mere refresh of the index does not change), and the branches that a move from or to it concerns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class GitPosition(NamedTuple):
    """
    The position of a repository.

    `commit` is "" on a branch without commits; `branch` is "HEAD" and `ref` None where none is checked out. `staged` is a
    fingerprint of what the index holds, "" for nothing at all. `refs` are branches and their commits ("" for one that does not
    exist). `merging` are the small files that say that a merge, cherry-pick or revert is under way, with their content.
    `problem` says why git cannot be moved from here, "" where it can.
    """

    commit: str
    branch: str
    ref: str | None
    staged: str = ""
    refs: tuple[tuple[str, str], ...] = ()
    merging: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    @property
    def detached(self) -> bool:
        """Whether HEAD names a commit and no branch."""
        return self.ref is None

    def same_head(self, other: GitPosition) -> bool:
        """Returns whether HEAD says the same and means the same commit."""
        return (self.ref, self.commit) == (other.ref, other.commit)

    def same(self, other: GitPosition) -> bool:
        """Returns whether nothing would have to move from one to the other."""
        mine, theirs = dict(self.refs), dict(other.refs)
        shared = mine.keys() & theirs.keys()
        same = self.same_head(other) and self.staged == other.staged and self.merging == other.merging
        return same and all(mine[name] == theirs[name] for name in shared)

    def words(self) -> str:
        """Returns the position for people: `main at 1f2e3d4c5b6a`."""
        where = "no branch" if self.detached else self.branch
        what = ", in the middle of a merge" if self.merging else ""
        return f"{where} at {self.commit[:12]}{what}" if self.commit else f"{where}, no commit yet"

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "commit": self.commit,
            "branch": self.branch,
            "ref": self.ref,
            "staged": self.staged,
            "refs": dict(self.refs),
            "merging": dict(self.merging),
            "problem": self.problem,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> GitPosition:
        """Returns the position that `to_dict` wrote down; raises KeyError, TypeError or ValueError for anything else."""
        ref = plain["ref"]
        refs = tuple((str(name), str(commit)) for name, commit in plain["refs"].items())
        texts = {name: str(plain[name]) for name in ("commit", "branch", "staged", "problem")}
        merging = tuple(sorted((str(name), str(content)) for name, content in plain["merging"].items()))
        return cls(ref=None if ref is None else str(ref), refs=refs, merging=merging, **texts)


class GitRecord(NamedTuple):
    """A position with the bytes of its index (one file, even where it was split), and when that was written."""

    position: GitPosition
    index_data: bytes
    index_mtime_ns: int


class GitMove(NamedTuple):
    """
    A move of HEAD, its branch and the index from one position to another, as planned, journalled or done.

    `index_object` names the object in the store that holds the index's new bytes, "" where the index stays. `when` and `about` are
    for the reflog, `keep` names the refs that hold what is left behind. `notes` are sentences for the user: what will not
    be quite as it was, and why.
    """

    before: GitPosition
    after: GitPosition
    index_object: str = ""
    when: int = 0
    about: str = ""
    keep: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether nothing would move."""
        return self.before.same(self.after)

    def promises(self, other: GitMove | None) -> bool:
        """Returns whether another plan is about the same move."""
        return other is not None and self.before.same(other.before) and self.after.same(other.after)

    def words(self) -> str:
        """Returns the move for people."""
        if self.before.same_head(self.after):
            return f"what is staged, on {self.after.words()}"
        return f"{self.after.words()} (it was {self.before.words()})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        plain = self._asdict()
        return {**plain, "before": self.before.to_dict(), "after": self.after.to_dict(), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> GitMove:
        """Returns the move that `to_dict` wrote down; raises KeyError, TypeError or ValueError for anything else."""
        before, after = GitPosition.from_dict(plain["before"]), GitPosition.from_dict(plain["after"])
        rest = {name: str(plain[name]) for name in ("index_object", "about", "keep")}
        return cls(before, after, when=int(plain["when"]), notes=tuple(map(str, plain["notes"])), **rest)
