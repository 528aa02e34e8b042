"""What a batch is by its rules, one item at a time: the model that `stack` is compared with."""

# This is how the library did it before it looked at many items by one call.

from __future__ import annotations

from typing import Any

import numpy as np

import resumable as rs

LARGEST_EXACT = 2**53
WIDE = {np.dtype(code).num for code in "lLqQ"}


def stacked_one_by_one(items: list[Any]) -> Any:
    """The default batch of ``items``."""
    first = items[0]
    if isinstance(first, (np.ndarray, np.generic)):
        return _arrays(items)
    if isinstance(first, (bool, int, float, complex)):
        return _numbers(items)
    if isinstance(first, dict):
        for item in items:
            if not isinstance(item, dict) or item.keys() != first.keys():
                keys = sorted(map(str, item)) if isinstance(item, dict) else type(item).__name__
                raise rs.MalformedItem(
                    f"cannot stack dicts with keys {sorted(map(str, first))} and {keys}; "
                    "pass a collate function to batch"
                )
        if first:
            return {key: stacked_one_by_one([item[key] for item in items]) for key in first}
    if isinstance(first, tuple) and first:
        if any(not isinstance(item, tuple) or len(item) != len(first) for item in items):
            raise rs.MalformedItem(
                f"cannot stack tuples of {len(first)} fields with items of another length or "
                "type; pass a collate function to batch"
            )
        fields = [stacked_one_by_one(list(field)) for field in zip(*items, strict=True)]
        make = getattr(type(first), "_make", tuple)
        return make(fields)
    return list(items)


def _arrays(items: list[Any]) -> Any:
    if any(isinstance(item, np.ma.MaskedArray) for item in items):
        raise _masked()
    if not all(isinstance(item, (np.ndarray, np.generic)) for item in items):
        return list(items)
    for number, item in enumerate(items):
        if item.shape != items[0].shape:
            raise rs.MalformedItem(
                f"cannot stack arrays of shapes {items[0].shape} and {item.shape} (item {number} "
                "of the batch); pass a collate function to batch"
            )
    stacked = np.stack(items)
    if stacked.dtype.kind in "fc" and any(item.dtype.num in WIDE for item in items):
        return stacked if all(map(_fits_float, items)) else list(items)
    return stacked


def _fits_float(item: Any) -> bool:
    if item.dtype.num not in WIDE or not item.size:
        return True
    return bool(item.min() >= -LARGEST_EXACT and item.max() <= LARGEST_EXACT)


def _numbers(items: list[Any]) -> Any:
    try:
        stacked = np.asarray(items)
    except (ValueError, OverflowError):
        return list(items)
    if stacked.ndim != 1 or stacked.dtype.kind not in "biufc":
        return list(items)
    if stacked.dtype.kind in "fc" and not np.all(np.abs(stacked) < LARGEST_EXACT):
        return _large_numbers(items, stacked)
    return stacked.astype(np.int64) if stacked.dtype == np.int32 else stacked


def _large_numbers(items: list[Any], stacked: Any) -> Any:
    if any(isinstance(item, np.ma.MaskedArray) for item in items):
        raise _masked()
    integers = [isinstance(item, (int, np.integer)) for item in items]
    if all(integers):
        fits = min(items) >= 0 and max(items) < 2**64
        return np.array(items, np.uint64) if fits else list(items)
    exact = all(
        int(item) == number
        for item, number, whole in zip(items, stacked.tolist(), integers, strict=True)
        if whole
    )
    return stacked if exact else list(items)


def _masked() -> rs.MalformedItem:
    return rs.MalformedItem(
        "cannot stack masked arrays with their masks; pass a collate function to batch, such as "
        "numpy.ma.stack"
    )
