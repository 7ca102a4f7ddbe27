"""
What annotations and small values need of `typing`, without loading it.

`typing` and its `NamedTuple` were a sixth of what a command imports: 4 ms for the module, and 0.17 ms for each class, most
of it compiling annotations that nobody asks for. A type checker sees the originals. `NamedTuple` here makes the same kind
of class (a tuple with names, defaults, `_replace`, `_asdict`, patterns and pickling), and its constructor when it is worth it.
"""

from __future__ import annotations

import sys
from _collections import _tuplegetter  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import BinaryIO as BinaryIO
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import Self as Self
    from typing import TextIO as TextIO
    from typing import cast as cast
    from typing import overload as overload

    def expect_many() -> None:
        """Makes the constructors of all classes that there are, for a process that stays."""
else:
    Any = NoReturn = Self = BinaryIO = TextIO = object

    class Protocol:
        """Stands for `typing.Protocol` where nobody asks whether something is an instance."""

    def cast(_type: object, value: object) -> object:
        """Returns the value."""
        return value

    def overload(function: object) -> object:
        """Returns the function: what a type checker reads of it is not run."""
        return function

    class _Named(type):
        """Makes a plain tuple class of a class body, as `typing.NamedTuple` does."""

        def __new__(mcs, name, bases, namespace):
            if bases == ():
                return type.__new__(mcs, name, bases, namespace)
            fields = tuple(map(sys.intern, namespace.get("__annotations__", ())))
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            made = {
                "__slots__": (),
                "_fields": fields,
                "_field_defaults": defaults,
                "__match_args__": fields,
                "__new__": _first_use,
                "_make": classmethod(_make),
                "_replace": _replace,
                "_asdict": _asdict,
                "__repr__": _repr,
                "__getnewargs__": _plain,
                **{field: _tuplegetter(at, f"Alias for field number {at}") for at, field in enumerate(fields)},
                **namespace,
            }
            cls = type(name, (tuple,), made)
            _classes.append(cls)
            return cls

    class NamedTuple(metaclass=_Named):
        """Stands for `typing.NamedTuple`."""

    # So many values of a class are made by hand: to make its constructor takes as long as to make fifty values.
    _few = 4
    _uses = {}
    _classes = []

    def expect_many():
        """Makes the constructors of all classes that there are: else the first saves of a process that stays make them, one by one."""
        for cls in _classes:
            if getattr(cls.__dict__["__new__"], "__func__", None) is _first_use:
                _constructor(cls)
        _classes.clear()

    def _first_use(cls, /, *args, **named):
        """Makes one of a class's first values; the constructor, once it is worth it, takes this one's place."""
        home = next(base for base in cls.__mro__ if "_fields" in base.__dict__)
        _uses[home] = _uses.get(home, 0) + 1
        items = _arranged(home, args, named) if _uses[home] <= _few else None
        if items is not None:
            return tuple.__new__(cls, items)
        return _constructor(home)(cls, *args, **named)  # it also says what is wrong with the arguments

    def _arranged(home, args, named):
        """Returns the items of a value in their order; None where something is missing or too much."""
        items, used = list(args), 0
        for field in home._fields[len(args) :]:
            if field in named:
                used += 1
                items.append(named[field])
            elif field in home._field_defaults:
                items.append(home._field_defaults[field])
        return items if len(items) == len(home._fields) and used == len(named) else None

    def _constructor(home):
        """Returns the constructor of a class, which it has from now on."""
        fields, defaults = ", ".join(home._fields), tuple(home._field_defaults.values())
        inside = f"{fields}," if fields else ""
        # The names are those of a class body, so identifiers; collections.namedtuple makes its constructor the same way.
        new = eval(f"lambda _cls, {fields}: _new(_cls, ({inside}))", {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307
        new.__name__, new.__qualname__, new.__defaults__ = "__new__", f"{home.__name__}.__new__", defaults
        home.__new__ = staticmethod(new)
        return new

    def _make(cls, items):
        """Returns a value of the items of a sequence."""
        made = tuple.__new__(cls, items)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **named):
        """Returns the same with some fields replaced."""
        made = self._make(map(named.pop, self._fields, self))
        if named:
            raise ValueError(f"Got unexpected field names: {list(named)!r}")
        return made

    def _asdict(self):
        """Returns the fields by name."""
        return dict(zip(self._fields, self, strict=True))

    def _plain(self):
        """Returns the fields as a tuple that has no names."""
        return tuple(self)

    def _repr(self):
        """Returns the value as its constructor would be called."""
        return f"{type(self).__name__}({', '.join(f'{field}={self[at]!r}' for at, field in enumerate(self._fields))})"
