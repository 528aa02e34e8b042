"""State as a value: allowed types, copies, and unpacking.

A state is a nested dict of ints, strings, bytes, floats, bools, None, lists and string-keyed dicts.
The dicts of foreign objects may have 64-bit integers as keys too. A state may also hold tuples,
integers beyond 64 bits, complex numbers, and NumPy arrays and scalars of bool, integer, float and
complex dtypes, of fixed-width strings and bytes, and of dates and times, all of them exactly.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from ..errors import StateMismatch, UnencodableState, brief, shorten
from ..errors.foreign_states import looks_like
from ..errors.foreign_words import words_for

State: TypeAlias = dict[str, Any]
TakenState: TypeAlias = "State | Exception"
"""A state taken in advance, or the error raised instead."""

# msgpack packs at most 511 levels and takes half a kB of stack for each. Python's recursion limit
# has room for twice as many levels. A tuple is packed by a nested call, so a tuple counts for
# several.
MAX_DEPTH: Final = 400
TUPLE_LEVELS: Final = 8
LONGEST_PLACE: Final = 200
LARGEST_COUNT: Final = 2**63 - 1
LARGEST_POSITION: Final = 2**62
"""The most items of a pipeline. Twice as many are still counted in 64 bits."""
PLAIN: Final = frozenset({int, float, str, bytes, bool, complex, type(None)})


def freeze(value: Any, where: str = "state") -> Any:
    """A deep copy of ``value``, independent of the original.

    Args:
      value: anything a state may hold.
      where: name of ``value`` in an error.

    Raises:
      UnencodableState: if a value has no exact serialised form; the message names the place of the
        first such value. Values may be nested 400 levels deep, and a tuple counts as 8 levels.
    """
    try:
        return _copied(value, 0)
    except _Refused:
        _refuse(value, where, 0)
        raise
    except RecursionError:
        limit = sys.getrecursionlimit()
        raise UnencodableState(
            f"{where} is nested too deeply to be copied within Python's recursion limit of {limit}"
        ) from None


class _Refused(Exception):
    """A value has no exact serialised form; `_refuse` then looks for its place."""


def _copied(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if depth > MAX_DEPTH:
        raise _Refused
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(key) is not str and not is_key(key):
                raise _Refused
            if type(item) not in PLAIN:
                copied[key] = _copied(item, depth + 1)
        return copied
    if kind is list:
        if PLAIN.issuperset(map(type, value)):  # many buffered items: no call of Python for each
            return value.copy()
        return [_copied(item, depth + 1) for item in value]
    if kind is tuple:
        return tuple([_copied(item, depth + TUPLE_LEVELS) for item in value])
    if _is_plain_array(value):
        return np.array(value) if isinstance(value, np.ndarray) else value
    raise _Refused


def _refuse(value: Any, where: str, depth: int) -> None:
    """Raise the error of the first value in ``value`` refused by `_copied`."""
    kind = type(value)
    if kind in PLAIN:
        return
    place = brief(where, LONGEST_PLACE)
    if depth > MAX_DEPTH:
        raise UnencodableState(f"{place} is nested deeper than {MAX_DEPTH} levels")
    if kind is dict:
        for key, item in value.items():
            if not is_key(key):
                raise UnencodableState(
                    f"{place} has the key {shorten(key)}; keys of a state must be strings or "
                    "64-bit integers"
                )
            _refuse(item, f"{where}[{key!r}]", depth + 1)
        return
    if kind in (list, tuple):
        for number, item in enumerate(value):
            _refuse(item, f"{where}[{number}]", depth + (1 if kind is list else TUPLE_LEVELS))
        return
    if _is_plain_array(value):
        return
    described = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (np.ndarray, np.generic)):
        described += f" of dtype {value.dtype}"
    way_out = words_for("values").get(described)
    raise UnencodableState(
        f"{place} holds a {described}, which has no exact serialised form"
        + (f"; {way_out}" if way_out else "")
    )


def is_key(key: Any) -> bool:
    """Whether a dict of a state may have ``key``: a string, or an integer supported by msgpack."""
    return type(key) is str or (type(key) is int and -(2**63) <= key < 2**64)


def take_state(get: Callable[[], State]) -> TakenState:
    """The result of ``get``, or its error, so an unsaveable state stops nothing.

    An error not raised again by a second call was an interrupt, and is raised here.
    """
    try:
        return get()
    except Exception as error:
        try:
            get()
        except Exception:
            return error
        raise


def taken_state(taken: TakenState) -> State:
    """The state taken in advance; raises the error taken instead.

    The state is not copied: nobody changes a state, and the outermost iterator makes one copy for
    users. If each stage made a copy, the cost of a long pipeline would be the square of its length.
    """
    if isinstance(taken, Exception):
        raise taken
    return taken


def unpack(stage: object, state: Any, *names: str, optional: str = "") -> tuple[Any, ...]:
    """The values of ``names`` in ``state``, a dict with exactly these keys.

    Args:
      stage: shown in errors.
      state: to be unpacked.
      names: of the keys.
      optional: a name in ``names`` that may be missing; its value is then None.

    Raises:
      StateMismatch: if ``state`` is no such dict; the error names ``stage``.
    """
    if not isinstance(state, dict):
        hint = "; use resumable.loads first" if isinstance(state, bytes) else ""
        raise StateMismatch(f"the state must be a dict, got {shorten(state)}{hint}", stage)
    if optional and optional not in state:
        state = {**state, optional: None}
    if state.keys() != set(names):
        hint = looks_like(state) or "; was it saved by another stage?"
        raise StateMismatch(
            f"the state must have the keys {sorted(names)}, got {sorted(map(str, state))}{hint}",
            stage,
        )
    return tuple(map(state.__getitem__, names))


def unpack_count(
    stage: object, name: str, value: Any, maximum: float | None = None, rule: str = ""
) -> int:
    """``value`` if an int from 0 to ``maximum``, as a saved position must be.

    Without a ``maximum``, or with an infinite one, the limit is 2**62.

    Raises:
      StateMismatch: with ``stage``, ``name``, ``value`` and ``rule``.
    """
    if type(value) is not int or value > LARGEST_COUNT:
        raise StateMismatch(f"saved {name} must be a 64-bit integer, got {shorten(value)}", stage)
    if value < 0:
        raise StateMismatch(f"saved {name}={shorten(value)} is below 0", stage)
    if maximum is None or maximum == math.inf:
        maximum, rule = LARGEST_POSITION, "the largest position, 2**62"
    if value > maximum:
        raise StateMismatch(f"saved {name}={value} lies beyond {rule or maximum}", stage)
    return value


def unpack_position(stage: object, value: Any, length: float | None) -> int:
    """``value`` if a possible position in an epoch of ``length`` items.

    Raises:
      StateMismatch: with ``stage``, ``value`` and ``length``.
    """
    rule = f"the end, length={length}; was the pipeline built over more data?"
    return unpack_count(stage, "position", value, length, rule)


def unpack_flag(stage: object, name: str, value: Any) -> bool:
    """``value`` if a bool.

    Raises:
      StateMismatch: with ``stage``, ``name`` and ``value``.
    """
    if not isinstance(value, bool):
        raise StateMismatch(f"saved {name} must be a bool, got {shorten(value)}", stage)
    return value


def _is_plain_array(value: Any) -> bool:
    # A subclass, such as a masked array, holds more than numbers.
    exact = type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic)
    return exact and is_plain_dtype(value.dtype)


@lru_cache(maxsize=64)
def is_plain_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are numbers with the same bytes on every machine."""
    # Wider floats differ between machines; objects and records could carry pointers.
    return dtype.kind in "biuUSmM" or dtype in (
        np.dtype(code).newbyteorder(dtype.byteorder) for code in ("f2", "f4", "f8", "c8", "c16")
    )
