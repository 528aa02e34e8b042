"""The work of a throughput workload, as a value that every peer can read."""

# A peer translates a `Work` into its own words. So a new workload needs no change in any peer, and
# a new peer none in any workload. `map` and `keep` are called with one item at a time: a peer may
# compile them, but not call them with several items, which functions in general cannot take.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "SEED",
    "Arrays",
    "Bucket",
    "Integers",
    "JsonLines",
    "Pack",
    "Prepare",
    "Source",
    "Start",
    "Stream",
    "Tokens",
    "Unsupported",
    "Work",
]

SEED = 0

Start: TypeAlias = Callable[[], Iterable[Any]]
"""Begins an epoch: makes a new iterator over all items or batches."""

Prepare: TypeAlias = Callable[[Path], Start]
"""Prepares untimed, and once, what an epoch needs, such as files in the given folder."""


class Unsupported(Exception):
    """A peer cannot do this work; the message says why."""


@dataclass(frozen=True)
class Arrays:
    """Rows of arrays with a common first axis; an item is a tuple or dict of one row each."""

    columns: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class Integers:
    """The integers below ``length``."""

    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class Stream:
    """The ``length`` integers of an iterator, which cannot be looked up by index."""

    make: Callable[[], Iterator[int]]
    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class JsonLines:
    """The lines of a file, each the text of a JSON value; `Work.map` is given a line."""

    path: Path
    length: int

    def __len__(self) -> int:
        return self.length


Source: TypeAlias = Arrays | Integers | Stream | JsonLines


@dataclass(frozen=True)
class Pack:
    """Rows of ``length`` tokens, with their ``segment_ids`` and ``positions``; `Work.batch` of them a batch.

    Attributes:
      window: documents that are packed together, for those that can choose it.
      whole: documents stay whole, unless they are longer than a row; otherwise they are one stream of
        tokens, cut wherever a row is full.
    """

    length: int
    window: int
    whole: bool


@dataclass(frozen=True)
class Bucket:
    """Batches of up to `Work.batch` documents of like length, padded with 0 to the longest.

    Attributes:
      boundaries: a batch has documents from between two of these lengths.
      window: documents that are sorted together, for those that can choose it.
    """

    boundaries: tuple[int, ...]
    window: int


class Tokens(NamedTuple):
    """The tokens of a batch.

    Attributes:
      documents: one a row, without padding in front; behind them are zeros, which are no tokens.
      places: how many tokens the batch has with its padding.
    """

    documents: npt.NDArray[Any]
    places: int


@dataclass(frozen=True)
class Work:
    """Source, shuffle, map, filter, groups and batch, in this order; what is None is left out.

    Attributes:
      source: where the items come from.
      shuffle: whether all items are shuffled.
      window: items in the window of a shuffle that reads the source in order.
      map: called with each item; returns an integer, an array, or a tuple of integers.
      result: an example of what ``map`` returns, for peers that must know dtype and shape.
      keep: the items it accepts are delivered.
      groups: what is made of documents, which ``map`` returns as arrays of shape (tokens,).
      tokens: finds the tokens in a batch of ``groups``; what is compared are its documents.
      batch: items per batch.
      workers: threads or processes that call ``map``; the results come in order.
      executor: ``"thread"`` or ``"process"``.
      partitions: parts of the shuffled data of which each worker has some and does the whole work; 0
        where workers only call ``map``.
      untimed: items delivered before the clock starts, so that workers have started.
    """

    source: Source
    shuffle: bool = False
    window: int | None = None
    map: Callable[[Any], Any] | None = None
    result: Any = 0
    keep: Callable[[Any], bool] | None = None
    groups: Pack | Bucket | None = None
    tokens: Callable[[Any], Tokens] | None = None
    batch: int | None = None
    workers: int = 0
    executor: str = "thread"
    partitions: int = 0
    untimed: int = 0

    def refuse_groups(self) -> None:
        """For a peer that makes none.

        Raises:
          Unsupported: if the work has them.
        """
        if self.groups is not None:
            raise Unsupported("has neither packing nor bucketing")

    @property
    def item(self) -> Any:
        """An example of an item that is delivered or batched."""
        if self.map is not None:
            return self.result
        if isinstance(self.source, Arrays):
            return tuple(column[0] for column in self.source.columns.values())
        return np.int64(0)
