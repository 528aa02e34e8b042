"""Pipelines that make one item of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import resumable as rs
from resumable.testing.samples import columns, stream, with_noise

from .samples import (
    RunningSum,
    TwoSums,
    double,
    fails_on_thirds,
    noise_but_thirds,
    packed,
    running,
    unpacked,
)

__all__ = ["ONE_FOR_ONE"]

NUMBERS = rs.range(0, 60, 2)

ONE_FOR_ONE: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "map": lambda: NUMBERS.map(double),
    "map skipping": lambda: rs.range(30).map(fails_on_thirds, on_error="skip").batch(4),
    "map stateful": lambda: rs.range(20).map(RunningSum()),
    "scan stateful": lambda: rs.range(20).scan(TwoSums(), 3).repeat(2),
    "random_map stateful": lambda: stream(20).random_map(TwoSums(), 3).batch(3),
    "map workers": lambda: NUMBERS.map(double, workers=2),
    "map workers skipping": lambda: rs.range(20).map(fails_on_thirds, workers=3, on_error="skip"),
    "random_map": lambda: rs.range(20).shuffle(1).random_map(with_noise, 3).repeat(2),
    "random_map stream": lambda: stream(20).random_map(with_noise, 3).repeat(2),
    "random_map of a rank": lambda: (
        rs.range(23).shuffle(1).shard(1, 3, uneven="keep").random_map(with_noise, 3).repeat(2)
    ),
    "random_map workers skipping": lambda: (
        stream(20).shard(1, 2).random_map(noise_but_thirds, 3, workers=2, on_error="skip")
    ),
    "enumerate": lambda: rs.from_arrays(columns()).enumerate().batch(4),
    "enumerate stream": lambda: stream(9).enumerate().repeat(2),
    "scan": lambda: rs.range(12).scan(running, 1).repeat(2),
    "scan finish": lambda: stream(7).scan(packed, [], unpacked).repeat(2),
}
