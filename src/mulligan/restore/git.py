"""
The git half of a restore: from a checkpoint to a move, and that move among the steps of a restore.

Order, and why: git's locks are taken and its new content is staged before the first file changes, so that everything that
can be refused is refused while nothing has changed, and no git command runs in between. The files change next. Git's own
files come last, by a few renames that need neither room nor luck. A kill before the files have begun is taken back on both
sides; a kill after that is finished on both sides. Only where another process holds a lock of git by then, and none of git's
files has changed yet, the files are taken back instead.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from mulligan.errors import Busy, GitNotMoved
from mulligan.model.gitposition import GitMove, GitPosition, GitRecord
from mulligan.model.objects import BLOB
from mulligan.model.plan import Keep
from mulligan.model.policy import Settings
from mulligan.safefs.directory import ABSENT
from mulligan.timeline.commits import Entry
from mulligan.timeline.journal import Journal
from mulligan.timeline.read_commits import read_record
from mulligan.timeline.store import Store
from mulligan.usergit.files import notice, noticing
from mulligan.usergit.moving import NEW, GitTarget, Mover, PlannedMove, plan_move, plan_staging
from mulligan.usergit.next_index import ALONE
from mulligan.usergit.position import obstacle, points_back, read_position
from mulligan.usergit.repository import Repository
from mulligan.usergit.status import staged_paths

# Of about 100,000 files. A prompt must not wait for more; what is staged there is not recorded, and the plan says so.
_LARGEST_INDEX = 10 << 20
_NOTHING_STAGED = "Nothing staged was recorded with this checkpoint, so nothing will be staged."
# Nothing is there, or not a directory of git's: looking again would not help.


@contextmanager
def users_repository(settings: Settings) -> Iterator[Repository | None]:
    """Opens the repository around the workspace, and closes it."""
    repo = Repository.find(settings.workspace, home=settings.home)
    try:
        yield repo
    finally:
        if repo is not None:
            repo.close()


def where_git_stands(settings: Settings) -> GitRecord | None:
    """Returns the position of the user's repository with its index, None where there is no repository."""
    with users_repository(settings) as repo:
        if repo is None:
            return None
        record = read_position(repo)
        position = record.position
        return record._replace(position=position._replace(problem=position.problem or obstacle(repo)[0]))


def to_record(settings: Settings) -> tuple[GitRecord | None, str]:
    """Returns what a checkpoint keeps of where git stands: nothing where there is no repository, and why where it cannot be read."""
    with noticing() as troubles, users_repository(settings) as repo:
        if repo is None:
            refused = next((error for error in troubles if error.errno not in ABSENT), None)
            return None, f"The repository cannot be looked at ({refused.strerror})." if refused is not None else ""
        record = read_position(repo)
    problem = record.position.problem
    return (None, problem) if problem else (record, "")


def staged_record(settings: Settings) -> GitRecord | None:
    """Returns where git stands if anything is staged; where nothing is, the commit alone says what the index holds."""
    with noticing(), users_repository(settings) as repo:
        if repo is None or not staged_paths(repo):
            return None
        record = read_position(repo)
    return None if record.position.problem or len(record.index_data) > _LARGEST_INDEX else record


def plan_git(store: Store, entry: Entry) -> PlannedMove | None:
    """Returns how git would move to where it stood at a checkpoint, None when it need not; raises GitNotMoved."""
    target = _target(store, entry)
    with users_repository(store.settings) as repo:
        if target is None:
            return None
        if repo is None:
            raise GitNotMoved(
                f"Checkpoint {entry.checkpoint.short_id} was saved in a git repository, and there is none here now. Nothing was changed.",
                hint=ALONE,
            )
        planned = plan_move(repo, target)
    if target.index_data is None and planned.index_data is not None:
        move = planned.move
        planned = planned._replace(move=move._replace(notes=(*move.notes, _NOTHING_STAGED)))
    return None if planned.move.is_noop else planned


def plan_staging_of(store: Store, commit: str) -> PlannedMove | None:
    """Returns how what is staged would become what a commit holds, None when it is; raises GitNotMoved."""
    with users_repository(store.settings) as repo:
        if repo is None:
            raise GitNotMoved("There is no git repository here. Nothing was changed.", hint=ALONE)
        planned = plan_staging(repo, commit)
    return None if planned.move.is_noop else planned


def _target(store: Store, entry: Entry) -> GitTarget | None:
    record = read_record(store.objects, entry.commit_id)
    if record is not None:
        return GitTarget(record.position, record.index_data, record.index_mtime_ns)
    state = entry.checkpoint.git
    if state is None:
        return None
    if state.branch == "HEAD":
        if not state.commit_hash:
            raise GitNotMoved(
                f"Where git stood at checkpoint {entry.checkpoint.short_id} could not be read then. Nothing was changed.",
                hint=ALONE,
            )
        return GitTarget(GitPosition(state.commit_hash, "HEAD", None), None)
    ref = f"refs/heads/{state.branch}"
    return GitTarget(GitPosition(state.commit_hash, state.branch, ref, refs=((ref, state.commit_hash),)), None)


def _own_repository(settings: Settings) -> Repository | None:
    """
    Opens the repository that is this workspace's own, None when it is gone or not its own; raises OSError when that cannot be told.

    A look that failed for a moment must not pass for a repository that is gone: there may be locks of ours in it.
    """
    for last in (False, True):
        with noticing() as troubles:
            repo = Repository.find(settings.workspace, home=settings.home)
            if repo is not None and _is_own(repo):
                return repo
        if repo is not None:
            repo.close()
        refused = [error for error in troubles if error.errno not in ABSENT]
        lasting = [error for error in refused if error.errno != errno.EACCES]
        if last and lasting:
            raise lasting[0]
        if not refused:
            return None
    return None


def _is_own(repo: Repository) -> bool:
    """Looked at each time: what stands at `.git` may have been exchanged since the plan."""
    try:
        return points_back(repo)
    except OSError as error:
        notice(error)
        return False


class GitPart:
    """The move of git that a journal holds."""

    def __init__(self, store: Store, journal: Journal, move: GitMove) -> None:
        self._store, self._token, self._move = store, journal.token, move
        self._held: Repository | None = None

    def close(self) -> None:
        """Lets go of the repository; again is harmless."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    @contextmanager
    def _mover(self) -> Iterator[Mover | None]:
        if self._held is not None:
            yield Mover(self._held, self._move, self._token, self._read)
            return
        repo = _own_repository(self._store.settings)
        try:
            yield Mover(repo, self._move, self._token, self._read) if repo is not None else None
        finally:
            if repo is not None:
                repo.close()

    def _read(self, oid: str) -> bytes:
        return self._store.objects.read(bytes.fromhex(oid), BLOB)

    def prepare(self) -> None:
        """Takes git's locks and stages its new content; raises with nothing changed."""
        # Held open until the end: what is locked is what is moved, whatever stands at `.git` by then.
        settings = self._store.settings
        self._held = repo = Repository.find(settings.workspace, home=settings.home)
        if repo is None or not points_back(repo):
            raise GitNotMoved("The git repository is gone. Nothing was changed.", hint=ALONE)
        Mover(repo, self._move, self._token, self._read).prepare(settings.wait)

    def finish(self) -> list[Keep]:
        """Moves git; returns what could not be moved."""
        try:
            with self._mover() as mover:
                if mover is None:
                    return [Keep(".git", "not found", "the repository is gone", failed=True)]
                return mover.finish()
        except Busy as error:
            raise Busy(
                "The files are restored, and git could not follow: another process took one of its locks away. "
                "The next command that writes ends this, on both sides.",
                hint=error.hint,
            ) from None
        finally:
            self.close()

    def abandon(self, *, confirm: bool = True) -> None:
        """Lets go of git's locks; without `confirm`, the disk is not asked whether it did."""
        try:
            with self._mover() as mover:
                if mover is not None:
                    mover.abandon(confirm=confirm)
        finally:
            self.close()

    def must_go_back(self) -> bool:
        """After a crash: whether git cannot be moved now and has not begun to; raises Busy when it cannot and has."""
        with self._mover() as mover:
            blocked: Busy | None = mover.blocked() if mover is not None else None
            if mover is None or blocked is None:
                return False
            if NEW in mover.states():
                raise blocked
            return True
