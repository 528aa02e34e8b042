"""What the tests of every stage know of `Cache`."""

from __future__ import annotations

from support.facts import Mutation, StageFacts
from support.samples import RunningSum, double

import resumable as rs
from resumable.stages.cache import Cache
from resumable.testing.samples import columns, stream, with_noise

FACTS = StageFacts(
    built_by={Cache: rs.Pipeline.cache},
    pipelines={
        "cache": lambda: rs.range(20).map(double).cache().shuffle(1).repeat(2),
        "cache of a shuffle": lambda: rs.range(12).shuffle(1).map(double).cache().repeat(3),
        "cache of a stream": lambda: stream(9).random_map(with_noise, 2).cache().repeat(3),
        "cache of workers": lambda: rs.range(20).map(double, workers=2).cache().repeat(2),
        "cache of columns": lambda: rs.from_arrays(columns()).cache().batch(4).repeat(2),
        "cache stateful": lambda: rs.range(9).map(RunningSum()).cache().batch(2).repeat(2),
        "cache of nothing": lambda: stream(0).cache().repeat(2),
    },
    checked=["cache of a stream"],
    sharing_an_object=["cache stateful"],
    behind_deals={
        "cache": lambda numbers: numbers.cache(),
    },
    around_changes={
        "cache": lambda made: made.cache(),
    },
    extremes={
        "cache": lambda p, x: p.take(x).cache(),
    },
    mutations=[
        Mutation(
            "stages/cache.py",
            "position <= kept.length == len(kept.items)",
            "position <= kept.length",
        ),
    ],
)
