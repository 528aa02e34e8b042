"""The state of a rank with own partitions, split by partition."""

# Each part is a whole state with one partition alone. Values outside partitions are in all parts.
# So `merge_owner_states` joins the parts of any ranks to the state of any other rank.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .columns import as_columns, as_rows
from .partitions import PARTITIONS, is_of_partitions
from .value import State


def by_partition(state: State) -> dict[int, State]:
    """``state`` with one partition alone, by number; empty without partitions.

    >>> numbers = rs.range(9).partition(4, lambda part: part.filter(lambda n: n % 3))
    >>> with iter(numbers.shard(1, 2)) as iterator:
    ...     list(by_partition(iterator.get_state()))
    [1, 3]
    """
    return _split(state).parts


class _SplitState(NamedTuple):
    """A value by partitions.

    Attributes:
      parts: the value with one partition alone, by number.
      rest: the value without any partition.
    """

    parts: dict[int, Any]
    rest: Any


def _split(value: Any) -> _SplitState:
    if isinstance(value, list):
        return _joined(list, [_split(part) for part in value])
    if not isinstance(value, dict):
        return _SplitState({}, value)
    if not is_of_partitions(value):
        names = list(value)
        return _joined(
            lambda parts: dict(zip(names, parts, strict=True)),
            [_split(part) for part in value.values()],
        )
    numbers = value[PARTITIONS]
    rows = as_rows({name: value[name] for name in value if name != PARTITIONS}, len(numbers))
    parts = {
        number: {PARTITIONS: [number], **as_columns([row])}
        for number, row in zip(numbers, rows, strict=True)
    }
    return _SplitState(parts, {name: [] for name in value})


def _joined(build: Callable[[list[Any]], Any], splits: list[_SplitState]) -> _SplitState:
    """The result of ``build`` for ``splits``, by partitions."""
    numbers = {number for split in splits for number in split.parts}
    parts = {
        number: build([split.parts.get(number, split.rest) for split in splits])
        for number in sorted(numbers)
    }
    return _SplitState(parts, build([split.rest for split in splits]))
