"""Pipelines over data in memory and over iterables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import resumable as rs
from resumable.testing.samples import Counter, any_dtype, columns, stream

from ..samples import Dice, Loader, Point, Torchlike, of_epoch, texts

__all__ = ["SOURCES"]

SOURCES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "range": lambda: rs.range(5, 50, 7),
    "range downwards": lambda: rs.range(9, -9, -2),
    "range empty": lambda: rs.range(0),
    "sequence of None": lambda: rs.from_sequence([None, 1, None, None]),
    "sequence empty": lambda: rs.from_sequence([]),
    "sequence torchlike": lambda: rs.from_sequence(Torchlike()),
    "sequence array": lambda: rs.from_sequence(np.arange(12).reshape(6, 2)),
    "arrays dict": lambda: rs.from_arrays(columns()).shuffle(1).batch(4),
    "arrays tuple": lambda: rs.from_arrays((np.arange(9), np.arange(9.0))),
    "arrays named": lambda: rs.from_arrays(Point(np.arange(5), np.eye(5))).batch(2),
    "arrays one": lambda: rs.from_arrays(np.arange(10, dtype=np.uint8)).filter(bool).batch(3),
    "arrays of any dtype": lambda: rs.from_arrays(any_dtype()).shuffle(1).batch(4).repeat(2),
    "arrays of any dtype in windows": lambda: rs.from_arrays(any_dtype()).window(4, shift=3),
    "arrays of any dtype rebatched": lambda: (
        rs.from_arrays(any_dtype()).batch(4).shuffle(1).rebatch(3)
    ),
    "arrays of any dtype in one": lambda: rs.zip(
        {"a": rs.from_arrays(any_dtype()).shuffle(1, window=4), "b": rs.range(20).enumerate()}
    ).batch(3),
    "arrays of any dtype kept": lambda: (
        rs.from_arrays(any_dtype()).filter(lambda row: row["flags"]).cache().repeat(2).batch(4)
    ),
    "arrays of foreign bytes": lambda: rs.from_arrays(np.arange(17, dtype=">i4")).repeat(2),
    "arrays of texts in workers": lambda: (
        rs.from_arrays(texts())
        .partition(2, lambda part: part.filter(lambda text: text != "two"), workers=2)
        .batch(2)
    ),
    "arrays of texts carried": lambda: rs.from_arrays(
        (texts(), np.arange(20).astype("M8[D]"))
    ).shuffle(3, window=6, carry=True),
    "arrays of two kinds": lambda: rs.interleave(
        rs.from_arrays(texts()), rs.from_arrays(texts(7)), block_length=2
    ).batch(3),
    "iterable function": lambda: stream(25),
    "iterable of epochs": lambda: rs.from_iterable(of_epoch).repeat(2).repeat(2),
    "iterable state on iterator": lambda: rs.from_iterable(Counter(20)),
    "iterable state_dict": lambda: rs.from_iterable(Loader(20)),
    "iterable state_dict repeated": lambda: rs.from_iterable(Loader(6)).repeat(3),
    "iterable getstate": lambda: rs.from_iterable(Dice(3)).take(30),
    "iterable dict": lambda: rs.from_iterable({"a": 1, "b": 2, "c": 3}),
    "iterable None": lambda: rs.from_iterable(lambda: iter([None, None, 0])),
    "iterable file": lambda: rs.from_iterable(lambda: iter(["a\n", "b\n"])),
}
