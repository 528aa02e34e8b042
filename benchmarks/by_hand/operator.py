"""An operator of the library, the same by hand, and the numbers that both are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

import resumable as rs
from benchmarks.work import Start

__all__ = [
    "BATCH",
    "RANDOM_ACCESS",
    "STREAM",
    "Numbers",
    "Operator",
    "arrays",
    "cut",
    "how_many",
    "parts_of",
    "ranges",
    "tuples",
]

STREAM: Final = "stream"
RANDOM_ACCESS: Final = "random access"
BATCH: Final = 256


@dataclass(frozen=True)
class Numbers:
    """``count`` consecutive integers, as a stream or with random access.

    Attributes:
      folder: where files may be written.
    """

    over: str
    count: int
    folder: Path
    first: int = 0

    @property
    def pipeline(self) -> rs.Pipeline[int]:
        """The library's source of these numbers."""
        if self.over == RANDOM_ACCESS:
            return rs.range(self.first, self.first + self.count)
        return rs.from_iterable(self.items)

    def items(self) -> Iterator[int]:
        """The numbers for a loop by hand."""
        return iter(range(self.first, self.first + self.count))

    def parts(self, number: int) -> list[Numbers]:
        """The numbers cut into ``number`` parts of equal length."""
        count = self.count // number
        return [replace(self, first=count * part, count=count) for part in range(number)]


@dataclass(frozen=True)
class Operator:
    """An operator of the library, and the same by hand.

    Attributes:
      name: as users call it.
      pipeline: the library's.
      items: the plainest generator of the same items; None if only batches are timed.
      batches: the plainest loop for ``pipeline.batch(256)``; None if only items are timed.
      variant: distinguishes it from others of the same name.
      most_items: the limit, as a multiple of the time by hand; infinite for none.
      most_batches: the same before a batch.
      compared: makes of a list of items or batches what must be the same by hand.
    """

    name: str
    pipeline: rs.Pipeline[Any]
    items: Start | None = None
    batches: Start | None = None
    variant: str = ""
    most_items: float = 3
    most_batches: float = 1.3
    compared: Callable[[list[Any]], list[Any]] = list

    @property
    def label(self) -> str:
        """Name and variant, for readers."""
        return f"{self.name} {self.variant}".strip()


def arrays(items: Start) -> Start:
    """Batches of the numbers of a generator."""
    return partial(cut, items, np.asarray)


def tuples(items: Start) -> Start:
    """Batches of a generator's tuples of numbers."""
    return partial(cut, items, _columns)


def _columns(part: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple([np.asarray(column) for column in zip(*part, strict=True)])


def cut(items: Start, collate: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Batches that ``collate`` makes from lists of 256 items."""
    iterator = iter(items())
    while part := list(islice(iterator, BATCH)):
        yield collate(part)


def ranges(count: int) -> Iterator[tuple[int, int]]:
    """The begin and end of each batch of ``count`` items."""
    return ((begin, min(begin + BATCH, count)) for begin in range(0, count, BATCH))


def parts_of(sequence: Any) -> Iterator[Any]:
    """Slices of 256 of a list or an array."""
    return (sequence[begin:end] for begin, end in ranges(len(sequence)))


def how_many(delivered: list[Any]) -> list[int]:
    """The number of items: all that can be the same where they are random."""
    return [len(delivered)]
