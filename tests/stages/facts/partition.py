"""What the tests of every stage know of `Partition` and `Part`."""

from __future__ import annotations

from support.facts import Mutation, StageFacts
from support.samples import alone, document, double, fails_on_thirds, item_number

import resumable as rs
from resumable.stages.part import Part
from resumable.stages.partition import Partition
from resumable.testing.samples import with_noise

FACTS = StageFacts(
    built_by={Partition: rs.Pipeline.shard, Part: rs.Pipeline.partition},
    pipelines={
        "partition": lambda: (
            rs.range(60)
            .shuffle(1)
            .partition(4, lambda part: part.filter(lambda item: item % 3).batch(4))
            .repeat(2)
        ),
        "partition of a rank": lambda: (
            rs.range(23)
            .partition(5, lambda part: part.map(double))
            .map(double)
            .shard(1, 3)
            .batch(2)
        ),
        "partition in workers": lambda: rs.range(50).partition(
            4,
            lambda part: part.map(fails_on_thirds, on_error="skip").shuffle(2, window=5),
            workers=2,
            buffer_size=3,
        ),
        "partition of epochs": lambda: (
            rs.range(7)
            .partition(3, lambda part: part.shuffle(2).repeat(3))
            .shard(0, 2, uneven="drop")
        ),
        "partition evened out": lambda: (
            rs.range(9)
            .shuffle(3)
            .partition(4, lambda part: part.map(double))
            .shard(3, 4, uneven="pad")
        ),
        "partition packed": lambda: (
            rs.range(40)
            .partition(3, lambda part: part.map(document).pack(16, group=4))
            .shard(1, 2)
            .prefetch(2)
            .take(9)
        ),
        "partition of several": lambda: rs.partition(
            {"few": rs.range(19).shuffle(2), "many": rs.range(100, 160)},
            4,
            lambda few, many: rs.mix(
                few.filter(lambda item: item % 4).repeat(),
                many.shuffle(3, window=5),
                weights=(1, 3),
            ).batch(3),
            workers=2,
        ).shard(0, 2),
        "partition of several evened out": lambda: rs.partition(
            (rs.range(9), rs.range(100, 105)),
            4,
            lambda one, two: rs.concatenate(one, two.map(double)),
        ).shard(2, 3, uneven="pad"),
        "partition drawn": lambda: (
            rs.range(40)
            .partition(4, lambda part: part.filter(lambda item: item % 7))
            .random_map(with_noise, 3)
            .shard(1, 2)
            .filter(lambda item: item[0] % 5)
            .random_map(with_noise, 4)
        ),
        "partition drawn by batches": lambda: (
            rs.range(40)
            .partition(4, lambda part: part.map(double))
            .shard(1, 3)
            .batch(2)
            .random_map(with_noise, 3)
        ),
        "partition empty": lambda: rs.range(2).partition(4, lambda part: part).shard(1, 4),
    },
    checked=["partition in workers"],
    behind_deals={},  # it is a deal
    around_changes={
        "partition": lambda made: made.partition(3, lambda part: part.map(item_number)),
        "partition, repeated": lambda made: made.partition(
            2, lambda part: part.repeat(2).map(item_number)
        ),
        "partition, taken": lambda made: made.partition(
            2, lambda part: part.repeat().take(9).repeat(2)
        ),
    },
    extremes={
        "partition": lambda p, x: p.partition(x, lambda part: part),
        "partition of ranks": lambda p, x: p.partition(9, lambda part: part.map(alone)).shard(x, 9),
        "partition workers": lambda p, x: p.partition(
            3, lambda part: part, buffer_size=x, workers=1
        ),
        "partition of several": lambda p, x: rs.partition(
            [p, p], x, lambda one, two: rs.zip(one, two)
        ),
    },
    mutations=[
        Mutation("stages/partition.py", "isinstance(found, Exclude) and found.changes", "False"),
        Mutation(
            "stages/even_steps.py",
            "(missing := self._left - max(self._left_at_end, 0)) > 0",
            "False",
        ),
    ],
)
