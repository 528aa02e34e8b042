"""Many states of one shape, as one state of the same shape with lists instead of values."""

# Each key is held once for any number of states. Sixty-four states of a chain of six stages take
# less than a kilobyte as columns, and five kilobytes one after another.

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ..errors import StateMismatch


def as_columns(states: Sequence[Any]) -> Any:
    """A dict of columns if all ``states`` are dicts with the same keys in one order, else their list.

    >>> as_columns([{"upstream": {"position": 3}}, {"upstream": {"position": 4}}])
    {'upstream': {'position': [3, 4]}}
    """
    first = states[0] if states else None
    if type(first) is not dict or not first:
        return list(states)
    if set(map(type, states)) != {dict} or set(map(tuple, states)) != {tuple(first)}:
        return list(states)
    return {key: as_columns(list(map(itemgetter(key), states))) for key in first}


def as_rows(columns: Any, count: int) -> list[Any]:
    """The ``count`` states in ``columns``, a result of `as_columns`.

    Raises:
      StateMismatch: if ``columns`` are not columns of ``count`` states.

    >>> as_rows({"upstream": {"position": [3, 4]}}, 2)
    [{'upstream': {'position': 3}}, {'upstream': {'position': 4}}]
    """
    if isinstance(columns, dict) and columns:
        parts = [as_rows(column, count) for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*parts, strict=True)]
    if not isinstance(columns, list) or len(columns) != count:
        raise StateMismatch(f"the saved states must be those of {count} partitions")
    return columns
