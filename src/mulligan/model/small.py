"""
Small parts of `contextlib`, `functools`, `collections` and `types`, for a process that has little time.

The modules they are from, with those that they load, are 3 ms of a command's start, for some things that are a few lines
each, or compiled, or loaded under another name anyway (`collections.abc` loads all of `collections`). They behave as the originals do where this package uses them; a type checker sees the originals.
"""

from __future__ import annotations

from mulligan.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import OrderedDict as OrderedDict
    from collections.abc import Callable as Callable
    from collections.abc import Collection as Collection
    from collections.abc import Container as Container
    from collections.abc import Generator as Generator
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from contextlib import closing as closing
    from contextlib import contextmanager as contextmanager
    from contextlib import nullcontext as nullcontext
    from contextlib import suppress as suppress
    from functools import cache as cache
    from functools import cached_property as cached_property
    from functools import lru_cache as lru_cache
    from functools import partial as partial
    from types import MappingProxyType as MappingProxyType
    from types import SimpleNamespace as SimpleNamespace
else:
    import sys
    from _collections import OrderedDict
    from _collections_abc import (
        Callable,
        Collection,
        Container,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from _functools import _lru_cache_wrapper, partial

    MappingProxyType = type(type.__dict__)
    SimpleNamespace = type(sys.implementation)

    class _Managed:
        """One use of a generator function as a context manager."""

        __slots__ = ("_again", "_generator")

        def __init__(self, function, args, named):
            self._again = function, args, named
            self._generator = function(*args, **named)

        def __call__(self, decorated):
            """Puts each call of a function into such a block."""

            def inside(*args, **named):
                with _Managed(*self._again):
                    return decorated(*args, **named)

            return _named_like(decorated, inside)

        def __enter__(self):
            try:
                return next(self._generator)
            except StopIteration:
                raise RuntimeError("generator didn't yield") from None

        def __exit__(self, kind, error, trace):
            generator = self._generator
            if error is None:
                if next(generator, generator) is not generator:
                    raise _went_on(generator)
                return False
            try:
                generator.throw(error)
            except StopIteration as stopped:
                # The generator has dealt with it, unless the very exception that was thrown in is the one that comes out.
                return stopped is not error
            except RuntimeError as failed:
                # Python makes a RuntimeError of a StopIteration that leaves a generator; whoever raised that gets it back.
                if failed is not error and not (isinstance(error, StopIteration) and failed.__cause__ is error):
                    raise
                error.__traceback__ = trace
                return False
            except BaseException as failed:
                if failed is not error:
                    raise
                error.__traceback__ = trace
                return False
            raise _went_on(generator)

    def _went_on(generator):
        """Returns the error for a generator that yields a second time, which is ended."""
        generator.close()
        return RuntimeError("generator didn't stop")

    def contextmanager(function):
        """Makes a context manager of a generator function that yields once."""

        def managed(*args, **named):
            return _Managed(function, args, named)

        return _named_like(function, managed)

    def _named_like(original, function):
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            setattr(function, name, getattr(original, name, None))
        function.__wrapped__ = original
        return function

    class suppress:  # noqa: N801 - the name of the original
        """Ends a block quietly at one of these exceptions."""

        __slots__ = ("_kinds",)

        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self._kinds)

    class closing:  # noqa: N801 - the name of the original
        """Closes something at the end of a block."""

        __slots__ = ("_thing",)

        def __init__(self, thing):
            self._thing = thing

        def __enter__(self):
            return self._thing

        def __exit__(self, *_):
            self._thing.close()

    class nullcontext:  # noqa: N801 - the name of the original
        """Does nothing at the end of a block, where something else might be closed."""

        __slots__ = ("_thing",)

        def __init__(self, thing=None):
            self._thing = thing

        def __enter__(self):
            return self._thing

        def __exit__(self, *_):
            return None

    class cached_property:  # noqa: N801 - the name of the original
        """A property that is found out once and then is an attribute."""

        def __init__(self, function):
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            # Not a data descriptor: from now on the attribute is found before this is.
            value = instance.__dict__[self._name] = self._function(instance)
            return value

    def cache(function):
        """Remembers what a function returned for the same arguments."""
        return lru_cache(None)(function)

    def lru_cache(most):
        """Makes a function remember what it returned for its last so many arguments."""
        return lambda function: _lru_cache_wrapper(function, most, False, tuple)
