"""What the tests of every stage know of `Concatenate`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import RunningSum, double, ten

import resumable as rs
from resumable.stages.concatenate import Concatenate
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: rs.concatenate(ten, None), TypeError, "must be a pipeline, got None"),
    (lambda: rs.concatenate(ten.map(RunningSum()), ten), ValueError, "must not call functions with state"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Concatenate: rs.concatenate},
    pipelines={
        "concatenate": lambda: rs.concatenate(rs.range(5), rs.range(0), rs.range(9).shuffle(1)),
        "concatenate shuffled": lambda: rs.concatenate(rs.range(5), rs.range(9, 20)).shuffle(4),
        "concatenate streams": lambda: rs.concatenate(stream(3), stream(0), stream(4)).repeat(2),
    },
    checked=["concatenate streams"],
    behind_deals={
        "concatenate": lambda numbers: rs.concatenate(numbers, rs.range(100, 108)),
        "concatenate twice": lambda numbers: rs.concatenate(numbers, numbers.map(double)),
    },
    around_changes={
        "concatenate": lambda made: rs.concatenate(made, rs.range(800, 804)),
        "concatenate after": lambda made: rs.concatenate(rs.range(800, 803), made),
    },
    extremes={
        "concatenate": lambda p, x: rs.concatenate(p, rs.range(x)),
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/concatenate.py", "if length < missing and", "if length <= missing and"),
        Mutation("stages/concatenate.py", "self._index = index", "self._index = 0"),
        Mutation("stages/concatenate.py", "else int(sum(before)) + inner", "else inner"),
        Mutation("stages/concatenate.py", "if length := block_length(rest):", "if length := 0:"),
    ],
)
