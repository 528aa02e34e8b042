"""The functions among the fields of a stage, and stand-ins for such functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

__all__ = ["StandIn", "callables_in"]

F = TypeVar("F", bound=Callable[..., Any])


class StandIn(Generic[F]):
    """Called by the library instead of a function of the user, under the name of that function.

    Attributes:
      fn: the function.
    """

    def __init__(self, fn: F) -> None:
        self.fn = fn
        self.__qualname__ = getattr(fn, "__qualname__", repr(fn))

    def __repr__(self) -> str:
        return repr(self.fn)


def callables_in(fields: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The callable values of ``fields``, also within lists, tuples and dicts.

    >>> callables_in({"fn": abs, "size": 3, "decode": {"txt": str}, "both": (len, None)})
    {'fn': <built-in function abs>, "decode['txt']": <class 'str'>, 'both[0]': <built-in function len>}
    """
    found = {}
    for name, value in fields.items():
        if callable(value):
            found[name] = value
        else:
            found |= {f"{name}[{key!r}]": one for key, one in _held(value) if callable(one)}
    return found


def _held(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, (list, tuple)) else ()
