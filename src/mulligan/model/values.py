"""
Frozen dataclasses for a command that has little time.

`dataclasses` loads `inspect` and what that stands on: 7 to 10 ms, more than a restore of one file works. A class made here has
the same constructor, equality, hash and text, and refuses changes; whoever asks for more (`dataclasses.fields`, `asdict`,
`replace`) finds a dataclass, and then the original is loaded. A type checker sees the originals.
"""

from __future__ import annotations

from mulligan.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    class _Fresh:
        """The default of a field that each value gets its own of."""

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """Returns the default of a field that each value gets its own of."""
        return _Fresh(default_factory)

    def replace(value, /, **changes):
        """Returns the same value with some fields replaced."""
        return type(value)(**{**{name: getattr(value, name) for name in value.__match_args__}, **changes})

    class _Asked:
        """What `dataclasses` wants to know of a class of its own, worked out when it asks."""

        def __init__(self, name, defaults):
            self._name, self._defaults = name, defaults

        def __get__(self, _value, owner):
            import dataclasses

            fresh = {
                name: dataclasses.field(default_factory=default.make) if isinstance(default, _Fresh) else default
                for name, default in self._defaults.items()
            }
            body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__, **fresh}
            return getattr(dataclasses.dataclass(frozen=True)(type(owner.__name__, (), body)), self._name)

    def dataclass(*, frozen):
        """Makes a class body with annotations a class of frozen values."""
        if not frozen:
            raise TypeError("values that change are plain classes")
        return _made

    def _made(cls):
        names = tuple(cls.__annotations__)
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        for name, default in defaults.items():
            if isinstance(default, _Fresh):
                delattr(cls, name)
        cls.__match_args__ = names
        cls.__init__ = _constructor(cls, names, defaults)
        cls.__eq__, cls.__hash__, cls.__repr__ = _eq, _hash, _repr
        cls.__setattr__, cls.__delattr__ = _refuse, _refuse
        for asked in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(cls, asked, _Asked(asked, defaults))
        return cls

    def _constructor(cls, names, defaults):
        """Returns the `__init__` that the class body describes, made the way `dataclasses` makes it."""
        given = ", ".join(f"{name}=_default_{name}" if name in defaults else name for name in names)
        kept = ", ".join(
            f"{name}=_default_{name}.make() if {name} is _default_{name} else {name}"
            if isinstance(defaults.get(name), _Fresh)
            else f"{name}={name}"
            for name in names
        )
        # The names are those of a class body, so identifiers.
        known = {f"_default_{name}": default for name, default in defaults.items()}
        made = eval(f"lambda self, {given}: self.__dict__.update({kept})", known)  # noqa: S307
        made.__name__, made.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
        return made

    def _fields(self):
        return tuple([getattr(self, name) for name in self.__match_args__])

    def _eq(self, other):
        return _fields(self) == _fields(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self):
        return hash(_fields(self))

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({shown})"

    def _refuse(self, name, _value=None):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")
