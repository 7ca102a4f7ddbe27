"""Frozen values that are made without `dataclasses` behave as those that are made with it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys

import pytest

from mulligan.model import values
from mulligan.model.plan import Action, Keep, Node, RestorePlan, RestoreReport
from mulligan.timeline.journal import Journal


@values.dataclass(frozen=True)
class Ours:
    a: int
    b: str = "b"
    c: list[int] = values.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Theirs:
    a: int
    b: str = "b"
    c: list[int] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize("arguments", [((1,), {}), ((1, "x"), {}), ((), {"a": 1, "c": [2]}), ((1,), {"b": "y"})])
def test_the_same_values_of_the_same_arguments(arguments):
    places, named = arguments
    ours, theirs = Ours(*places, **named), Theirs(*places, **named)
    assert vars(ours) == vars(theirs)
    assert list(vars(ours)) == list(vars(theirs))
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.is_dataclass(ours)
    assert [f.name for f in dataclasses.fields(ours)] == ["a", "b", "c"]
    assert dataclasses.replace(ours, a=7) == values.replace(ours, a=7) == Ours(7, ours.b, ours.c)
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == copy.copy(ours) == ours


@pytest.mark.parametrize("arguments", [((), {}), ((1, "x", [], 3), {}), ((1,), {"d": 1}), ((1,), {"a": 1})])
def test_wrong_arguments_are_refused(arguments):
    places, named = arguments
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*places, **named)


def test_each_value_has_its_own_of_what_is_made_fresh():
    one, two = Ours(1), Ours(1)
    one.c.append(1)
    assert two.c == []
    assert not hasattr(Ours, "c")
    assert Ours.b == "b"


def test_values_do_not_change_and_compare_by_their_fields():
    value = Keep("a", "why")
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.path = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.path
    assert value == Keep("a", "why")
    assert value != Keep("a", "why", failed=True)
    assert Ours(1) != Theirs(1)
    assert len({Keep("a", "why"), Keep("a", "why")}) == 1
    with pytest.raises(TypeError):
        hash(Ours(1))  # a list has none


@pytest.mark.parametrize("kind", [Keep, RestorePlan, RestoreReport, Journal, Ours])
def test_the_constructor_tells_its_arguments(kind):
    assert list(inspect.signature(kind).parameters) == [f.name for f in dataclasses.fields(kind)]


def test_a_class_of_dataclasses_may_inherit():
    @dataclasses.dataclass(frozen=True)
    class More(Ours):
        d: int = 4

    assert dataclasses.asdict(More(1)) == {"a": 1, "b": "b", "c": [], "d": 4}


def test_plans_are_values():
    action = Action(b"a", None, Node(0o100644))
    assert RestorePlan("t", actions=(action,)) == RestorePlan("t", actions=(action,))
    assert RestorePlan("t").is_noop
    match Keep("a", "why"):
        case Keep(path, reason):
            assert (path, reason) == ("a", "why")


def test_nobody_loads_the_original_for_a_plan():
    program = "import sys, mulligan.model.plan, mulligan.timeline.journal; sys.exit('dataclasses' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
