"""Operators that make something of groups of consecutive items, or of batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.by_hand.operator import RANDOM_ACCESS, Numbers, Operator, cut

SIZE = 10


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Of ``numbers``; where they have random access, windows by hand are NumPy's."""
    yield from _windows(numbers)


def _windows(numbers: Numbers) -> Iterator[Operator]:
    pipeline, count = numbers.pipeline, numbers.count
    by_index = numbers.over == RANDOM_ACCESS
    for shift in (SIZE, SIZE // 2):

        def ranges(shift: int = shift) -> Iterator[Any]:
            for begin in range(0, count, shift):
                yield np.arange(begin, min(begin + SIZE, count))

        def lists(shift: int = shift) -> Iterator[Any]:
            items = numbers.items()
            window = list(islice(items, SIZE))
            while window:
                yield np.asarray(window)
                window = window[shift:]
                window += islice(items, SIZE - len(window))

        by_hand = ranges if by_index else lists

        def batches(shift: int = shift, by_hand: Any = by_hand) -> Iterator[Any]:
            whole = (count - SIZE) // shift + 1
            return cut(lambda: islice(by_hand(shift), whole), np.stack)

        yield Operator("window", pipeline.window(SIZE, shift=shift), by_hand, variant=f"by {shift}")
        batched = pipeline.window(SIZE, shift=shift, drop_last=True)
        yield Operator("window", batched, batches=batches, variant=f"by {shift}")
