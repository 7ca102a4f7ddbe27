"""Values made without `typing` are what `typing` would have made."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from mulligan.model import typed
from mulligan.model.typed import NamedTuple


class Lean(NamedTuple):
    """A value."""

    one: int
    two: str = "b"
    three: tuple[int, ...] = ()

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


class Full(typing.NamedTuple):
    """A value."""

    one: int
    two: str = "b"
    three: tuple[int, ...] = ()

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


class Below(Lean):
    """A class of its own below a value's."""

    __slots__ = ()

    def __new__(cls, one: int) -> Below:
        return super().__new__(cls, one, two="below")


class Empty(NamedTuple):
    """No field at all."""


def outcome(call):
    try:
        return call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error).replace("Full", "Lean")


CALLS = [
    lambda kind: kind(1),
    lambda kind: kind(1, "x", (1,)),
    lambda kind: kind(two="y", one=2),
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3, 4),
    lambda kind: kind(1, four=4),
    lambda kind: kind(1)._replace(two="z"),
    lambda kind: kind(1)._replace(four=4),
    lambda kind: kind._make([1, 2, 3]),
    lambda kind: kind._make([1, 2]),
    lambda kind: kind(1)._asdict(),
    lambda kind: kind(1).both,
    lambda kind: repr(kind(1)).replace("Full", "Lean"),
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__, kind.__bases__),
    lambda kind: hash(kind(1)),
    lambda kind: kind(1) == (1, "b", ()),
    lambda kind: setattr(kind(1), "one", 2),
    lambda kind: setattr(kind(1), "other", 2),
    lambda kind: copy.copy(kind(1)),
    lambda kind: pickle.loads(pickle.dumps(kind(1))),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_value_does_what_typing_would_have_made_it_do(call):
    assert outcome(lambda: call(Lean)) == outcome(lambda: call(Full))


def test_a_value_is_matched_by_its_fields():
    match Lean(1, "x"):
        case Lean(one, two=two):
            assert (one, two) == (1, "x")
        case _:
            pytest.fail("it did not match")


def test_a_class_below_a_value_is_made_with_its_own_arguments():
    assert Below(3) == (3, "below", ())
    assert type(Below(3)) is Below and type(Below(3)._replace(one=4)) is Below


def test_a_value_without_fields_is_an_empty_tuple():
    assert Empty() == ()


def test_who_expects_many_values_makes_their_constructors_at_once():
    class Pair(NamedTuple):
        one: int
        two: str = "2"

    class Own(NamedTuple):
        one: int

        def __new__(cls, one):
            return tuple.__new__(cls, (one + 1,))

    by_hand = Pair(1)
    assert Pair.__new__ is typed._first_use
    typed.expect_many()
    assert Pair.__new__ is not typed._first_use
    assert by_hand == Pair(1) == (1, "2")
    assert Pair(two="x", one=3) == (3, "x")
    assert Own(1) == (2,)
    with pytest.raises(TypeError):
        Pair()
    typed.expect_many()
    assert Pair(4) == (4, "2")
