"""Pipelines of several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import resumable as rs
from resumable.testing.samples import columns, stream

from .samples import double

__all__ = ["JOINING"]

JOINING: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "zip": lambda: rs.zip(rs.range(9).shuffle(0), rs.from_sequence("abcdefgh")),
    "zip columns": lambda: rs.zip(rs.range(9), rs.from_arrays(columns())).batch(4),
    "zip streams": lambda: rs.zip(stream(9), stream(5), rs.range(100)),
    "zip by index": lambda: rs.zip(rs.range(80), rs.range(70), rs.range(90)),
    "concatenate": lambda: rs.concatenate(rs.range(5), rs.range(0), rs.range(9).shuffle(1)),
    "concatenate shuffled": lambda: rs.concatenate(rs.range(5), rs.range(9, 20)).shuffle(4),
    "concatenate streams": lambda: rs.concatenate(stream(3), stream(0), stream(4)).repeat(2),
    "interleave": lambda: rs.interleave(rs.range(5), stream(11), rs.range(0), block_length=2),
    "interleave by index": lambda: rs.interleave(
        rs.range(900), rs.range(0), rs.range(50).shuffle(0), rs.range(4_000), block_length=3
    ),
    "interleave of sequences": lambda: rs.interleave(*map(rs.from_sequence, ["abc", "xy"])),
    "interleave fn": lambda: rs.range(7).interleave(lambda n: range(n * 2), 3, 2),
    "interleave fn pipelines": lambda: rs.range(5).interleave(
        lambda n: stream(9).shuffle(n, window=4).repeat(2), cycle_length=2, block_length=3
    ),
    "interleave fn wide": lambda: stream(3).interleave(lambda n: [n] * n, cycle_length=8),
    "mix first": lambda: rs.mix(rs.range(40), rs.range(100, 120), weights=[3, 1], seed=5),
    "mix all": lambda: rs.mix(
        rs.range(20), rs.range(100, 110), rs.range(7), weights=[0.5, 0.3, 0.2], stop="all"
    ),
    "mix all seeded": lambda: rs.mix(
        rs.range(20), rs.range(100, 110), weights=[1, 2], seed=1, stop="all"
    ).repeat(2),
    "mix rare": lambda: rs.mix(
        rs.range(9_000), stream(9), weights=[0.9999, 1e-4], seed=1, stop="all"
    ).skip(8_990),
    "mix rare by index": lambda: rs.mix(
        rs.range(5_000), rs.range(9), weights=[9_999, 1], stop="all"
    ).skip(4_990),
    "mix streams": lambda: rs.mix(stream(20), rs.range(100, 110), weights=[1, 2], stop="all"),
    "mix streams first": lambda: rs.mix(stream(20), rs.range(100, 110), seed=4),
    "mix shuffled": lambda: rs.mix(rs.range(20), rs.range(100, 110), seed=2, stop="all").shuffle(3),
    "mix cycle": lambda: rs.mix(
        rs.range(5).shuffle(1), rs.range(100, 120), weights=[1, 2], seed=3, stop="cycle"
    ).repeat(2),
    "mix cycle streams": lambda: rs.mix(
        stream(5), stream(11).shuffle(1, window=3), rs.range(20), seed=3, stop="cycle"
    ).repeat(2),
    "mix cycle workers": lambda: rs.mix(
        stream(4).map(double, workers=2), stream(9), weights=[2, 1], stop="cycle"
    ),
    "mix reshuffled": lambda: rs.mix(
        rs.range(30), rs.range(100, 120), weights=[2, 1], seed=5, reshuffle=True
    ).repeat(3),
    "mix reshuffled streams": lambda: rs.mix(
        stream(20), rs.range(100, 110), seed=1, stop="all", reshuffle=True
    ).repeat(2),
    "mix changing": lambda: rs.mix(
        {"a": rs.range(60), "b": rs.range(100, 150)},
        weights={0: {"a": 7, "b": 3}, 24: {"a": 3, "b": 7}, 55: {"a": 5001, "b": 4999}},
        seed=2,
    ).repeat(2),
    "mix changing streams": lambda: rs.mix(
        stream(30),
        stream(4),
        weights={7: (1, 2), 0: (3, 1)},
        seed=2,
        stop="cycle",
        reshuffle=True,
    ).repeat(2),
}
