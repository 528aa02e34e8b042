"""The functions among the fields of a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["callables_in"]


def callables_in(fields: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The values of ``fields`` that can be called, and those in lists, tuples and dicts there.

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
