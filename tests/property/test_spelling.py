"""
Plans on a tree in memory that takes names for one that differ in case: random states, made there or where case counts.

What the plan says is what the tree is afterwards, no step meets another spelling, and nothing goes that was not to go.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.model.objects import MODE_DIR, MODE_FILE
from mulligan.model.paths import ancestors, fold, parent_of
from mulligan.model.plan import Action, Node
from mulligan.restore.plan import DrawnPlan
from mulligan.restore.spelling import settle_spelling
from mulligan.restore.stage import Layout

State = dict[bytes, Node]
NAMES = st.sampled_from([b"a", b"A", b"b", b"B", "é".encode(), "É".encode(), "e\u0301".encode()])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)


def _states(*, folded: bool) -> st.SearchStrategy[State]:
    return st.dictionaries(PATHS, st.integers(0, 3), max_size=7).map(lambda files: _state(files, folded=folded))


def _state(files: dict[bytes, int], *, folded: bool) -> State:
    """A state in which no file is a directory; with `folded`, one that a file system which ignores case can hold."""
    state: State = {}
    for path, content in files.items():
        above = ancestors(path)
        wanted = {**{each: Node(MODE_DIR, b"", 0o755) for each in above}, path: Node(MODE_FILE, b"%d" % content, 0o644)}
        known = {fold(each): each for each in state} if folded else {each: each for each in state}
        key = fold if folded else bytes
        if all(known.get(key(each), each) == each for each in wanted) and all(
            state.get(each, node).is_dir == node.is_dir for each, node in wanted.items()
        ):
            state.update(wanted)
    return state


def _drawn(now: State, then: State, stays: set[bytes]) -> DrawnPlan:
    """The plan from one to the other, as `draw` makes it; what `stays` is not deleted, nor the directories above it."""
    staying = stays | {above for path in stays for above in ancestors(path)}
    actions = []
    for path in sorted({*now, *then}):
        before, after = now.get(path), then.get(path)
        if before == after or (path in staying and after is None):
            continue
        if before is not None and after is not None and before.is_dir != after.is_dir:
            if path not in staying:
                actions += [Action(path, before, None), Action(path, None, after)]
        elif not any(above in staying and not (then.get(above) or now[above]).is_dir for above in ancestors(path)):
            actions.append(Action(path, before, after))
    # Below a file that stays nothing can be made.
    blocked = {path for path in staying if path in now and not now[path].is_dir}
    blocked |= {path for path in staying if path in then and not then[path].is_dir and now[path].is_dir}
    kept = [a for a in actions if not any(above in blocked for above in ancestors(a.path)) or a.after is None]
    return DrawnPlan(tuple(kept), ())


class Folding:
    """A tree that ignores case and keeps spellings."""

    def __init__(self, state: State) -> None:
        self.entries = {fold(path): (path, node) for path, node in state.items()}

    def state(self) -> State:
        return dict(self.entries.values())

    def apply(self, actions: tuple[Action, ...]) -> None:
        """Takes the steps of a plan, in the executor's order, and insists that each finds what it expects."""
        layout = Layout(actions)
        for _, action in (*layout.removes, *layout.rmdirs):
            path, node = self.entries.pop(fold(action.path))
            assert (path, node) == (action.path, action.before)
            assert not any(parent_of(below) == path for below, _ in self.entries.values()), "not empty"
        for _, action in (*layout.mkdirs, *(step for step in layout.places if step[1].before is None)):
            assert fold(action.path) not in self.entries, "two entries that are one name"
            above = parent_of(action.path)
            assert not above or self.entries[fold(above)][0] == above, "in a directory of another spelling"
            self.entries[fold(action.path)] = (action.path, action.after)  # type: ignore[assignment]
        for _, action in (*layout.places, *layout.chmods):
            if action.before is not None:
                assert self.entries[fold(action.path)] == (action.path, action.before)
                self.entries[fold(action.path)] = (action.path, action.after)  # type: ignore[assignment]


def _settled(now: State, drawn: DrawnPlan) -> DrawnPlan:
    def names_in(directory: bytes) -> dict[bytes, bool]:
        return {path.rpartition(b"/")[2]: node.is_dir for path, node in now.items() if parent_of(path) == directory}

    return settle_spelling(drawn, names_in, lambda _: True)


@given(_states(folded=True), _states(folded=True))
@settings(max_examples=300, deadline=None)
def test_a_state_that_this_file_system_can_hold_comes_back_exactly(now: State, then: State) -> None:
    drawn = _settled(now, _drawn(now, then, set()))
    disk = Folding(now)
    disk.apply(drawn.actions)
    assert (disk.state(), drawn.keeps) == (then, ())


@given(_states(folded=True), _states(folded=False), st.data())
@settings(max_examples=600, deadline=None)
def test_what_is_not_restored_is_listed_and_what_must_stay_stays(now: State, then: State, data: st.DataObject) -> None:
    files = sorted(path for path, node in now.items() if not node.is_dir and path not in then)
    stays = set(data.draw(st.lists(st.sampled_from(files), max_size=2))) if files else set()
    promised = _drawn(now, then, stays)
    drawn = _settled(now, promised)
    disk = Folding(now)
    disk.apply(drawn.actions)
    after = disk.state()
    for path in stays:
        assert after[path] == now[path]
    listed = {keep.path.encode() for keep in drawn.keeps}
    wanted = {action.path: action.after for action in promised.actions if action.after is not None}
    for path, node in wanted.items():
        if after.get(path) != node:
            assert any(each in listed for each in (path, *ancestors(path))), path
    assert {path for path in now if path not in after} <= {a.path for a in promised.actions if a.after is None}


@given(_states(folded=False), _states(folded=False))
@settings(max_examples=100, deadline=None)
def test_where_case_counts_a_plan_stays_as_it_is(now: State, then: State) -> None:
    drawn = _drawn(now, then, set())
    assert settle_spelling(drawn, lambda _: {}, lambda _: False) is drawn
