"""A digest of a multiset of items that ignores their order, batches and framework."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Digest", "MultisetsDiffer", "check_same", "digest"]

Words = npt.NDArray[np.uint64]

ROWS_AT_ONCE = 4096


class Digest(NamedTuple):
    """The number of items and the sum of their hashes modulo 2**64."""

    items: int
    total: int


class MultisetsDiffer(Exception):
    """Two contestants did not deliver the same items."""


def check_same(expected: Digest, name: str, got: Digest) -> None:
    """Compare with what the bare loop delivered.

    Raises:
      MultisetsDiffer: if the digests differ.
    """
    if got != expected:
        which = "" if got.items != expected.items else ", but not the same ones"
        raise MultisetsDiffer(
            f"{name} delivered {got.items:,} items, the bare loop {expected.items:,}{which}"
        )


def digest(delivered: Iterable[Any], batched: bool) -> Digest:
    """The digest of all items; with ``batched``, of the items in the batches."""
    count = total = 0
    waiting: list[Any] = []
    for each in delivered:
        if batched:
            hashes = _hashes(_columns(each))
            count, total = count + len(hashes), total + int(hashes.sum(dtype=np.uint64))
            continue
        waiting.append(each)
        if len(waiting) == ROWS_AT_ONCE or getattr(each, "nbytes", 0) > 4096:
            count, total = count + len(waiting), total + _total_of_items(waiting)
            waiting = []
    if waiting:
        count, total = count + len(waiting), total + _total_of_items(waiting)
    return Digest(count, total % 2**64)


def _total_of_items(items: list[Any]) -> int:
    rows = [[np.asarray(value) for value in _values(item)] for item in items]
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    return int(_hashes(columns).sum(dtype=np.uint64))


def _values(item: Any) -> list[Any]:
    """The values in an item or a batch; those of a dict in the order of their names."""
    if isinstance(item, dict):
        return [item[name] for name in sorted(item)]
    return list(item) if isinstance(item, (list, tuple)) else [item]


def _columns(batch: Any) -> list[npt.NDArray[Any]]:
    """Arrays with one row for each item."""
    values = _values(batch)
    if values and isinstance(batch, list) and np.ndim(values[0]) == 0:
        if isinstance(values[0], dict):  # a list of items that are rows
            return [np.asarray([row[name] for row in values]) for name in sorted(values[0])]
        return [np.asarray(values)]
    if values and isinstance(batch, list) and isinstance(values[0], tuple):
        return [np.asarray(column) for column in zip(*values, strict=True)]
    return [np.asarray(value) for value in values]


def _hashes(columns: list[npt.NDArray[Any]]) -> Words:
    """One hash for each row; equal values have equal hashes, also as integers of other widths."""
    count = len(columns[0])
    total = np.zeros(count, np.uint64)
    for number, column in enumerate(columns):
        words = _words(column.reshape(count, -1))
        keys = _keys(number, words.shape[1])
        total = _mixed(total + (words * keys).sum(axis=1, dtype=np.uint64))
    return total


def _words(rows: npt.NDArray[Any]) -> Words:
    kind = np.float64 if rows.dtype.kind == "f" else np.int64
    words: Words = np.ascontiguousarray(rows, kind).view(np.uint64)
    return words


def _keys(column: int, count: int) -> Words:
    """Odd factors, so that a change of any one word changes the sum."""
    keys: Words = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(column << 40)
    keys = _mixed(keys)
    keys |= np.uint64(1)
    return keys


def _mixed(values: Words) -> Words:
    """The last steps of splitmix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = values ^ (values >> np.uint64(31))
    return mixed
