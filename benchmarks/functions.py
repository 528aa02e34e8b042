"""Small functions that several peers need around those of a `Work`."""

# The rule for peers: their own classes choose the order and make the batches, and functions that a
# user could write do the rest. Where a peer can look up or map a whole batch, `Each` still calls
# the function once for each item.

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.work import Arrays, JsonLines, Work

__all__ = ["Each", "batch_of", "identity", "lines_of", "stack"]


class Each:
    """Calls the function of ``work``, if any, with each item of a batch, and stacks the results."""

    def __init__(self, work: Work) -> None:
        self._fn = work.map or identity

    def __call__(self, items: Iterable[Any]) -> Any:
        fn = self._fn
        return stack([fn(item) for item in items])


def batch_of(work: Work) -> Callable[[Any], Any]:
    """A function that makes a batch from a list of indices."""
    source = work.source
    if isinstance(source, Arrays):
        columns = list(source.columns.values())
        return lambda part: tuple(column.take(part, 0) for column in columns)
    each = Each(work)
    if isinstance(source, JsonLines):
        lines = lines_of(source)
        return lambda part: each([lines[index] for index in part])
    return each


def stack(items: list[Any]) -> Any:
    """An array, or a tuple of arrays, with one row for each item."""
    if isinstance(items[0], tuple):
        return tuple(np.asarray(column) for column in zip(*items, strict=True))
    return np.asarray(items)


def identity(item: Any) -> Any:
    """``item`` itself."""
    return item


def lines_of(source: JsonLines) -> list[bytes]:
    """All lines in memory, for peers that have no source of lines with random access."""
    return source.path.read_bytes().split(b"\n")[: source.length]
