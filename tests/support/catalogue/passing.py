"""Pipelines that repeat items, keep them, or make them ahead; and one that does a little of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import resumable as rs
from resumable.testing.samples import columns, stream, with_noise

from .samples import RunningSum, double

__all__ = ["PASSING"]

PASSING: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "repeat endless": lambda: rs.range(6).shuffle(1).repeat().batch(4),
    "repeat nested": lambda: rs.range(4).shuffle(1).repeat(2).repeat(3),
    "repeat zero": lambda: rs.range(4).repeat(0),
    "repeat empty endless": lambda: rs.range(0).repeat(),
    "repeat stream": lambda: stream(6).repeat(3),
    "by epoch": lambda: (
        rs.by_epoch({0: rs.range(7), 2: rs.range(20, 31)}).shuffle(1).repeat(4).batch(4)
    ),
    "by epoch alone": lambda: rs.by_epoch({0: rs.range(9).map(double), 1: stream(5)}).batch(2),
    "by epoch endless": lambda: (
        rs.by_epoch({0: stream(5), 2: rs.range(20, 26)}).shuffle(1, window=3).repeat().take(40)
    ),
    "by epoch in partitions": lambda: rs.by_epoch({0: rs.range(7), 2: rs.range(9)}).partition(
        3, lambda part: part.shuffle(2).repeat(4)
    ),
    "by epoch nested": lambda: (
        rs.by_epoch({0: rs.range(3), 3: rs.range(5), 4: rs.range(2)})
        .shuffle(1)
        .repeat(2)
        .skip(1)
        .repeat(3)
    ),
    "by epoch of two": lambda: rs.zip(
        rs.by_epoch({0: rs.range(6), 1: rs.range(4)}).shuffle(2),
        rs.by_epoch({0: rs.range(9), 3: rs.range(10, 12)}),
    ).repeat(5),
    "by epoch with an empty one": lambda: (
        rs.by_epoch({0: rs.range(5), 1: rs.range(0), 3: rs.range(4)}).repeat(5).skip(1)
    ),
    "cache": lambda: rs.range(20).map(double).cache().shuffle(1).repeat(2),
    "cache of a shuffle": lambda: rs.range(12).shuffle(1).map(double).cache().repeat(3),
    "cache of a stream": lambda: stream(9).random_map(with_noise, 2).cache().repeat(3),
    "cache of workers": lambda: rs.range(20).map(double, workers=2).cache().repeat(2),
    "cache of columns": lambda: rs.from_arrays(columns()).cache().batch(4).repeat(2),
    "cache stateful": lambda: rs.range(9).map(RunningSum()).cache().batch(2).repeat(2),
    "cache of nothing": lambda: stream(0).cache().repeat(2),
    "prefetch": lambda: rs.range(20).map(double).prefetch(3),
    "prefetch epochs": lambda: stream(6).shuffle(1, window=3).repeat(3).batch(4).prefetch(2),
    "prefetch inside": lambda: rs.range(20).prefetch(2).map(double).batch(3).prefetch(1),
    "everything": lambda: (
        rs.mix(rs.range(50).shuffle(1), rs.range(100, 150), seed=3)
        .random_map(with_noise, 1)
        .repeat(3)
        .shard(1, 2)
        .shuffle(9, window=10)
        .batch(4)
        .prefetch(2)
    ),
}
