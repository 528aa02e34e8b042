"""What the tests of every stage know of `Prefetch`."""

from __future__ import annotations

from support.facts import Refusal, StageFacts
from support.samples import double, ten

import resumable as rs
from resumable.stages.prefetch import Prefetch
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.prefetch(2).skip(1), ValueError, "Prefetch before it would run without"),
    (lambda: ten.prefetch(2).batch(2).shard(0, 2), ValueError, "put it after Shard"),
    (lambda: ten.prefetch(-1), ValueError, "buffer_size must be at least 0, got -1"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Prefetch: rs.Pipeline.prefetch},
    pipelines={
        "prefetch": lambda: rs.range(20).map(double).prefetch(3),
        "prefetch epochs": lambda: stream(6).shuffle(1, window=3).repeat(3).batch(4).prefetch(2),
        "prefetch inside": lambda: rs.range(20).prefetch(2).map(double).batch(3).prefetch(1),
    },
    checked=["prefetch"],
    behind_deals={
        "prefetch": lambda numbers: numbers.prefetch(2),
    },
    around_changes={
        "prefetch": lambda made: made.prefetch(2),
    },
    extremes={
        "prefetch": lambda p, x: p.prefetch(x),
    },
    refused=REFUSED,
)
