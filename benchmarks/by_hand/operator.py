"""An operator of the library beside the same written by hand, and the numbers both are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

import resumable as rs

__all__ = [
    "BATCH",
    "RANDOM_ACCESS",
    "STREAM",
    "Numbers",
    "Operator",
    "Pass",
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

Pass: TypeAlias = Callable[[], Iterable[Any]]
"""Makes a new pass over all items or batches."""


@dataclass(frozen=True)
class Numbers:
    """Consecutive integers, ``count`` of them, as a stream or by their index.

    Attributes:
      folder: where files may be written.
    """

    over: str
    count: int
    folder: Path
    first: int = 0

    @property
    def pipeline(self) -> rs.Pipeline[int]:
        """The library's source of them."""
        if self.over == RANDOM_ACCESS:
            return rs.range(self.first, self.first + self.count)
        return rs.from_iterable(self.items)

    def items(self) -> Iterator[int]:
        """What a loop by hand goes over."""
        return iter(range(self.first, self.first + self.count))

    def parts(self, number: int) -> list[Numbers]:
        """Cut into so many of equal length."""
        count = self.count // number
        return [replace(self, first=count * part, count=count) for part in range(number)]


@dataclass(frozen=True)
class Operator:
    """One of the library, and by hand.

    Attributes:
      name: as users call it.
      pipeline: the library's, item by item.
      items: the plainest generator with the same items; None for what makes batches.
      batches: the plainest loop with the same as ``pipeline.batch(256)``; None for what is not batched.
      variant: what tells it from others of the same name.
      most_items: the claim, as a multiple of the time by hand; infinite for none.
      most_batches: the same before a batch.
      compared: what of a list of items, or of batches, must be the same by hand.
    """

    name: str
    pipeline: rs.Pipeline[Any]
    items: Pass | None = None
    batches: Pass | None = None
    variant: str = ""
    most_items: float = 3
    most_batches: float = 1.3
    compared: Callable[[list[Any]], list[Any]] = list

    @property
    def label(self) -> str:
        """What a reader looks for."""
        return f"{self.name} {self.variant}".strip()


def arrays(items: Pass) -> Pass:
    """Batches of numbers, of a generator."""
    return partial(cut, items, np.asarray)


def tuples(items: Pass) -> Pass:
    """Batches of tuples of numbers, of a generator."""
    return partial(cut, items, _columns)


def _columns(part: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple([np.asarray(column) for column in zip(*part, strict=True)])


def cut(items: Pass, collate: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Lists of 256 items, each made a batch."""
    iterator = iter(items())
    while part := list(islice(iterator, BATCH)):
        yield collate(part)


def ranges(count: int) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends."""
    return ((begin, min(begin + BATCH, count)) for begin in range(0, count, BATCH))


def parts_of(sequence: Any) -> Iterator[Any]:
    """Slices of 256 of a list or an array."""
    return (sequence[begin:end] for begin, end in ranges(len(sequence)))


def how_many(delivered: list[Any]) -> list[int]:
    """All that can be the same of what is random."""
    return [len(delivered)]
