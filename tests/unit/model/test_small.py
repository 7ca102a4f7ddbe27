"""What is used of `contextlib`, `functools`, `collections` and `types` does here what it does there."""

from __future__ import annotations

import collections
import contextlib
import functools
import types

import pytest

from mulligan.model import small

both = pytest.mark.parametrize("of", [contextlib, small], ids=["original", "ours"])
both_functools = pytest.mark.parametrize("of", [functools, small], ids=["original", "ours"])


def test_what_is_compiled_is_the_very_same():
    assert small.partial is functools.partial
    assert small.OrderedDict is collections.OrderedDict
    assert small.MappingProxyType is types.MappingProxyType
    assert small.SimpleNamespace is types.SimpleNamespace


class Trouble(Exception):
    """What goes wrong in a block."""


def managed(of, log, *, catch=(), instead=None, yields=1):
    @of.contextmanager
    def block(word):
        """Says what it does."""
        log.append(f"begin {word}")
        try:
            for _ in range(yields):
                yield word
        except catch as error:
            log.append(f"caught {type(error).__name__}")
            if instead is not None:
                raise instead from error
        finally:
            log.append("end")

    return block


@both
def test_a_block_begins_and_ends(of):
    log = []
    with managed(of, log)("it") as word:
        log.append(word)
    assert log == ["begin it", "it", "end"]


@both
@pytest.mark.parametrize(
    "error", [Trouble(), StopIteration(3), RuntimeError("odd"), KeyboardInterrupt(), GeneratorExit()]
)
def test_what_goes_wrong_inside_is_raised_again_as_it_is(of, error):
    log = []
    with pytest.raises(type(error)) as told, managed(of, log)("it"):
        raise error
    assert told.value is error and log == ["begin it", "end"]
    assert told.value.__cause__ is None
    # The line that raised it is the last that is told of, not one of the manager's own.
    assert told.traceback[-1].name == test_what_goes_wrong_inside_is_raised_again_as_it_is.__name__


@both
@pytest.mark.parametrize("error", [Trouble, StopIteration, RuntimeError])
def test_what_the_block_catches_is_over(of, error):
    log = []
    with managed(of, log, catch=error)("it"):
        raise error
    assert log == ["begin it", f"caught {error.__name__}", "end"]


@both
@pytest.mark.parametrize("inside", [Trouble, RuntimeError])
def test_another_error_takes_its_place(of, inside):
    instead = RuntimeError("instead")
    with pytest.raises(RuntimeError) as told, managed(of, [], catch=inside, instead=instead)("it"):
        raise inside
    assert told.value is instead and isinstance(told.value.__cause__, inside)


@both
def test_a_generator_that_yields_not_once_is_a_mistake(of):
    log = []
    with pytest.raises(RuntimeError, match="didn't yield"), managed(of, log, yields=0)("it"):
        log.append("never")
    with pytest.raises(RuntimeError, match="didn't stop"), managed(of, log, yields=2)("it"):
        log.append("inside")
    with pytest.raises(RuntimeError, match="didn't stop"), swallowing(of)():
        raise Trouble
    assert log == ["begin it", "end", "begin it", "inside", "end"]


def swallowing(of):
    @of.contextmanager
    def block():
        try:
            yield 1
        except Trouble:
            yield 2

    return block


@both
def test_it_can_stand_above_a_function_and_begins_at_each_call(of):
    log = []

    @managed(of, log)("it")
    def double(number):
        """Doubles it."""
        log.append(number)
        return 2 * number

    assert [double(2), double(number=3)] == [4, 6]
    assert log == ["begin it", 2, "end", "begin it", 3, "end"]
    assert (double.__name__, double.__doc__) == ("double", "Doubles it.")


@both
def test_a_context_manager_keeps_the_name_and_words_of_its_function(of):
    block = managed(of, [])
    assert (block.__name__, block.__doc__) == ("block", "Says what it does.")
    assert block.__wrapped__.__name__ == "block"


@both
def test_suppressed_errors_end_the_block_and_no_others_do(of):
    for kinds, raised in [((KeyError,), KeyError), ((OSError, KeyError), FileNotFoundError)]:
        with of.suppress(*kinds):
            raise raised
    with of.suppress(KeyError) as nothing:
        assert nothing is None
    with pytest.raises(Trouble), of.suppress(KeyError):
        raise Trouble
    with pytest.raises(Trouble), of.suppress():
        raise Trouble


@both
def test_what_is_to_be_closed_is_closed_whatever_happens(of):
    closed = []
    thing = types.SimpleNamespace(close=lambda: closed.append(1))
    with of.closing(thing) as given:
        assert given is thing and not closed
    with pytest.raises(Trouble), of.closing(thing):
        raise Trouble
    assert closed == [1, 1]
    with of.nullcontext(thing) as given:
        assert given is thing
    with pytest.raises(Trouble), of.nullcontext() as nothing:
        assert nothing is None
        raise Trouble
    assert closed == [1, 1]


@both_functools
def test_a_cached_property_is_found_out_once_for_each_object(of):
    asked = []

    class Thing:
        @of.cached_property
        def size(self):
            """How large it is."""
            asked.append(self)
            return len(asked)

    one, other = Thing(), Thing()
    assert [one.size, one.size, other.size, one.size] == [1, 1, 2, 1]
    assert asked == [one, other] and Thing.size.__doc__ == "How large it is."
    del one.size
    assert one.size == 3


@both_functools
def test_what_was_returned_is_remembered_until_it_is_forgotten(of):
    asked = []

    @of.cache
    def square(number):
        asked.append(number)
        return number * number

    assert [square(3), square(3), square(4)] == [9, 9, 16]
    square.cache_clear()
    assert (square(3), asked) == (9, [3, 4, 3])
    assert of.lru_cache(1)(str)(5) == "5"
