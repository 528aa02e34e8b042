"""The records from which the items of a source are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from .block import Indices
from .origin import Origin
from .records import Records
from .stage import Stage, known_length

T = TypeVar("T")


class RecordSource(Stage[T]):
    """A source whose records are not named by item numbers, or a stream."""

    def _numbers_of(self, records: Records) -> Indices:
        """Of a source with random access: the numbers of the items made of ``records``, shape (n,).

        Raises:
          InvalidArgument: if the source has no such records.
        """
        return records.below(known_length(self))

    def _without_records(self, epoch: int, records: Mapping[int, Records]) -> Stage[T] | None:
        """Of a stream: a copy without ``records`` in ``epoch``.

        Each key of ``records`` is the item from which the records are left out.
        The other items keep their order. A state of this stage fits the copy, whose iterators
        return their number of items handed out by `_reached`. None if unknown.
        """
        return None

    def _origins(self, numbers: Indices) -> list[Origin]:
        """Of a source with random access: the origins of the items at ``numbers``, shape (n,)."""
        name = type(self).__name__
        return [Origin(name, number) for number in numbers.tolist()]

    def _numbers_with(self, record: int) -> Indices:
        """Of a source with random access: the items, shape (n,), that come from ``record``."""
        return np.arange(record, record + (record < known_length(self)))


def kind_of_source(stage: Stage[Any]) -> Any:
    """The class with the `RecordSource` methods for ``stage``, a source."""
    return type(stage) if isinstance(stage, RecordSource) else RecordSource
