"""
The little of `ctypes` that a look needs which is begun before anything else.

`import ctypes` takes 2 ms, most of it for types of which five are needed; what they are made of takes a third of that. Where it
is not found under its name, `ctypes` itself has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctypes import CDLL, c_char, c_char_p, c_int64, c_uint32, c_uint64, c_void_p
else:
    try:
        from _ctypes import FUNCFLAG_CDECL, CFuncPtr, _SimpleCData, dlopen, dlsym
    except ImportError:
        from ctypes import CDLL, c_char, c_char_p, c_int64, c_uint32, c_uint64, c_void_p
    else:
        # By the names that `ctypes` has for them.
        class c_char(_SimpleCData):  # noqa: N801
            _type_ = "c"

        class c_char_p(_SimpleCData):  # noqa: N801, D101
            _type_ = "z"

        class c_int(_SimpleCData):  # noqa: N801
            _type_ = "i"

        class c_uint32(_SimpleCData):  # noqa: N801, D101
            _type_ = "I"

        class c_int64(_SimpleCData):  # noqa: N801, D101
            _type_ = "q"

        class c_uint64(_SimpleCData):  # noqa: N801, D101
            _type_ = "Q"

        class c_void_p(_SimpleCData):  # noqa: N801, D101
            _type_ = "P"

        class _Function(CFuncPtr):
            _flags_ = FUNCFLAG_CDECL
            _restype_ = c_int

        class CDLL:
            """The functions of a library, each found when it is first asked for."""

            def __init__(self, path: str) -> None:
                self._handle = dlopen(path, 0)

            def __getattr__(self, name: str) -> Any:
                try:
                    found = _Function(dlsym(self._handle, name))
                except OSError as error:
                    raise AttributeError(str(error)) from None
                setattr(self, name, found)
                return found


__all__ = ["CDLL", "c_char_p", "c_int64", "c_uint32", "c_uint64", "c_void_p", "string_at"]

# Of memory that is somebody else's: what is not asked for is not touched.
_Letters = c_char * ((1 << 31) - 1)


def string_at(address: int, size: int) -> bytes:
    """Returns bytes that stand in memory."""
    found: Any = _Letters.from_address(address)[:size]
    return bytes(found)
