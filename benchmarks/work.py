"""The work of a throughput workload, as a value that every peer can read."""

# A peer translates a `Work` into its own words. So a new workload needs no change in any peer, and
# a new peer none in any workload. `map` and `keep` are called with one item at a time: a peer may
# compile them, but not call them with several items, which functions in general cannot take.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "SEED",
    "Arrays",
    "Integers",
    "JsonLines",
    "Prepare",
    "Source",
    "Start",
    "Stream",
    "Unsupported",
    "Work",
]

SEED = 0

Start: TypeAlias = Callable[[], Iterable[Any]]
"""Makes a new pass over all items or batches."""

Prepare: TypeAlias = Callable[[Path], Start]
"""Prepares untimed, and once, what a pass needs, such as files in the given folder."""


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
class Work:
    """Source, shuffle, map, filter and batch, in this order; a step that is None is left out.

    Attributes:
      source: where the items come from.
      shuffle: whether all items are shuffled.
      window: items in the window of a shuffle that reads the source in order.
      map: called with each item; returns an integer, an array, or a tuple of integers.
      result: an example of what ``map`` returns, for peers that must know dtype and shape.
      keep: whether an item is delivered.
      batch: items per batch.
      workers: threads or processes that call ``map``; the results come in order.
      executor: ``"thread"`` or ``"process"``.
      untimed: items delivered before the clock starts, so that workers have started.
    """

    source: Source
    shuffle: bool = False
    window: int | None = None
    map: Callable[[Any], Any] | None = None
    result: Any = 0
    keep: Callable[[Any], bool] | None = None
    batch: int | None = None
    workers: int = 0
    executor: str = "thread"
    untimed: int = 0

    @property
    def item(self) -> Any:
        """An example of an item that is delivered or batched."""
        if self.map is not None:
            return self.result
        if isinstance(self.source, Arrays):
            return tuple(column[0] for column in self.source.columns.values())
        return np.int64(0)
