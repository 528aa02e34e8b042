"""The parts of a state for partitions, the keys of a pipeline's state, and states split by partition."""

# Each part is a whole state with one partition alone. Values outside partitions are in all parts.
# So `merge_owner_states` joins the parts of any ranks to the state of any other rank.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeGuard

from .columns import as_columns, as_rows
from .value import State

PARTITIONS: Final = "partitions"
"""The key for the numbers of the partitions in a state.

The lists under the other keys have one entry for each partition.
"""
OF_PARTITIONS: Final = (PARTITIONS, "positions", "ended", "parts")
"""All keys of a state of partitions.

A dict is a state of partitions only with exactly these keys, since the state of a user's function
may have a key of the same name.
"""
OF_EVEN_STEPS: Final = ("left", "ranks", "uneven", "upstream")
"""The keys of a state of ranks that end together; the last has the state of the partitions."""
MOST_PARTITIONS: Final = 1 << 14

TOP: Final = ("fingerprint", "epoch", "step", "ahead", "pipeline")
EPOCH_REACHED: Final = "epoch_reached"
"""A further key, if stages resume from before items already handed out."""


def is_of_partitions(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether ``value`` has the keys of a state of partitions."""
    return isinstance(value, dict) and value.keys() == set(OF_PARTITIONS)


def states_of_partitions(state: Any) -> Iterator[dict[str, Any]]:
    """The states of partitions, wherever ``state`` has some."""
    waiting = [state]
    while waiting:
        found = waiting.pop()
        if is_of_partitions(found):
            yield found
        if isinstance(found, dict):
            waiting += found.values()
        elif isinstance(found, (list, tuple)):
            waiting += found


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
