"""What the tests of every stage know of `Sample`."""

from __future__ import annotations

from support.facts import StageFacts

import resumable as rs
from resumable.stages.sample import Sample

FACTS = StageFacts(
    built_by={Sample: rs.Pipeline.sample},
    pipelines={
        "sample": lambda: rs.range(20).map(float).sample(range(20), seed=1, count=30).repeat(2),
        "sample of a rank": lambda: rs.range(20).sample(range(20)).shard(1, 3).batch(4).repeat(2),
    },
    checked=["sample"],
    behind_deals={
        # Each rank has as many weights as items, so all ranks take as many items.
        "sample": lambda numbers: (
            numbers.take(15).sample(range(15), seed=5) if numbers.random_access else numbers.cache()
        ),
    },
    around_changes={
        "sample": lambda made: made.sample(range(1, int(min(made.length or 1, 99)) + 1), seed=7),
    },
    extremes={
        "sample seed": lambda p, x: p.sample([1] * 7, seed=x),
        "sample count": lambda p, x: p.sample([1] * 7, count=x),
        "sample weight": lambda p, x: p.sample([1] * 6 + [x]),
    },
)
