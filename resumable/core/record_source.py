"""Which records of a source its items are."""

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
    """A source whose records have other names than the numbers of its items, or that is a stream."""

    def _numbers_of(self, records: Records) -> Indices:
        """Of a source with random access: the numbers of the items made of ``records``, shape (n,).

        Raises:
          InvalidArgument: if it has no such records.
        """
        return records.below(known_length(self))

    def _without_records(self, epoch: int, records: Mapping[int, Records]) -> Stage[T] | None:
        """Of a source that is a stream: a copy without ``records`` in ``epoch``, by the item from which on they are left out.

        The other items keep their order. A state of this stage is one of the copy, whose iterators tell by `_reached`
        how many items they have handed out. None if that is not known.
        """
        return None

    def _origins(self, numbers: Indices) -> list[Origin]:
        """Of a source with random access: the origins of the items at ``numbers``, shape (n,)."""
        name = type(self).__name__
        return [Origin(name, number) for number in numbers.tolist()]

    def _numbers_with(self, record: int) -> Indices:
        """Of a source with random access: the items, shape (n,), whose origin is a record with this number."""
        return np.arange(record, record + (record < known_length(self)))


def kind_of_source(stage: Stage[Any]) -> Any:
    """The class whose methods say which records the items of ``stage``, a source, are."""
    return type(stage) if isinstance(stage, RecordSource) else RecordSource
