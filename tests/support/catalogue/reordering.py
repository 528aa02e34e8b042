"""Pipelines that shuffle, with random access and in windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import resumable as rs
from resumable.testing.samples import columns, stream

__all__ = ["REORDERING"]

REORDERING: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "shuffle": lambda: rs.range(40).shuffle(7),
    "shuffle large": lambda: rs.range(10_000).shuffle(7).take(60),
    "shuffle epochs": lambda: rs.range(12).shuffle(7).repeat(4),
    "shuffle twice": lambda: rs.range(30).shuffle(1).shuffle(2),
    "shuffle batches": lambda: rs.range(30).batch(4).shuffle(2).unbatch(),
    "shuffle in blocks": lambda: rs.range(83).shuffle(7, block=5).repeat(2),
    "shuffle in large blocks": lambda: (
        rs.range(100_000).shuffle(7, block=1000).shard(1, 3).skip(2500).take(60)
    ),
    "shuffle in one block": lambda: (
        rs.from_arrays(columns()).shuffle(7, block=2**62).batch(4).repeat(2)
    ),
    "window": lambda: stream(100).shuffle(3, window=8),
    "window of one": lambda: stream(9).shuffle(3, window=1),
    "window longer than stream": lambda: stream(9).shuffle(3, window=50),
    "window as long as stream": lambda: stream(9).shuffle(3, window=9),
    "window past snapshots": lambda: stream(1500).shuffle(3, window=20).skip(1200),
    "window epochs": lambda: stream(30).shuffle(3, window=7).repeat(3),
    "window empty": lambda: stream(0).shuffle(3, window=7),
    "window over epochs": lambda: stream(13).repeat(6).shuffle(3, window=7),
    "window carried prefetched": lambda: stream(40).shuffle(3, window=8, carry=True).prefetch(2),
    "window carried": lambda: stream(60).shuffle(3, window=8, carry=True).repeat(2),
    "window carried arrays": lambda: (
        rs.from_arrays(columns()).shuffle(3, window=6, carry=True).repeat(2)
    ),
    "window carried short": lambda: stream(5).shuffle(3, window=8, carry=True),
}
