"""The same position in each of many partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from ..core.merging import equal_values
from ..errors import StateMismatch, shorten
from ..state.columns import as_rows
from ..state.partitions import MOST_PARTITIONS, OF_PARTITIONS, PARTITIONS

SHOWN: Final = 4


@final
class Column(dict[int, Any]):
    """The values saved by a stage under one name, by the number of the partition."""

    def show(self, show: Callable[[Any], str]) -> str:
        """The column in a few words, by ``show``: a common value, or the range of numbers.

        >>> Column({0: 12, 4: 10, 8: 11}).show(repr)
        '10..12'
        >>> Column({0: True, 4: False, 8: True}).show(repr)
        '2 of 3'
        """
        values = list(self.values())
        kinds = set(map(type, values))
        if kinds == {int} and min(values) < max(values):
            return f"{show(min(values))}..{show(max(values))}"
        if kinds == {bool} and len({*values}) > 1:
            return f"{sum(values)} of {len(values)}"
        texts = set(map(show, values))
        return texts.pop() if len(texts) == 1 else f"{len(texts)} different values"

    def differing(self, other: Column) -> list[int]:
        """The partitions with unequal values, or in only one of the columns."""
        common = self.keys() & other.keys()
        unequal = {number for number in common if not equal_values(self[number], other[number])}
        return sorted((self.keys() ^ other.keys()) | unequal)


@final
class PartitionStates(dict[int, Any]):
    """The state of a stage in each partition, by the number of the partition."""


def parts_of(saved: Mapping[str, Any]) -> tuple[dict[str, Any], PartitionStates]:
    """The positions of a state of partitions itself, and the states of the partitions.

    Raises:
      ValueError: if ``saved`` is no state of partitions.
    """
    numbers = saved[PARTITIONS]
    if not isinstance(numbers, list) or len(numbers) > MOST_PARTITIONS:
        raise ValueError("not partitions")
    if any(type(number) is not int for number in numbers):
        raise ValueError("not the numbers of partitions")
    own: dict[str, Any] = {PARTITIONS: len(numbers)}
    try:
        for name in OF_PARTITIONS[1:-1]:
            own[name] = Column(dict(zip(numbers, as_rows(saved[name], len(numbers)), strict=True)))
        states = as_rows(saved[OF_PARTITIONS[-1]], len(numbers))
    except StateMismatch as error:
        raise ValueError(str(error)) from None
    return own, PartitionStates(zip(numbers, states, strict=True))


def as_columns(positions: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The positions of a stage in each partition, as a column for each name."""
    names = dict.fromkeys(name for each in positions.values() for name in each)
    return {
        name: Column({number: each[name] for number, each in positions.items() if name in each})
        for name in names
    }


def listed(numbers: Sequence[int]) -> str:
    """Numbers of partitions in a few words.

    >>> listed([1, 5, 9, 13, 17, 21])
    'partitions 1, 5, 9, 13 and 2 more'
    """
    shown = ", ".join(map(shorten, numbers[:SHOWN]))
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"partition{'s' * (len(numbers) > 1)} {shown}{more}"
