"""What the tests of every stage know of `Skip`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.skip import Skip
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.skip(None), TypeError, "count must be an integer, got None"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Skip: rs.Pipeline.skip},
    pipelines={
        "skip": lambda: rs.range(30).shuffle(1).skip(11).repeat(2),
        "skip stream": lambda: stream(30).skip(11).repeat(2),
        "skip everything": lambda: stream(3).skip(11),
    },
    checked=["skip stream"],
    behind_deals={
        "skip": lambda numbers: numbers.skip(4),
        "skip repeat": lambda numbers: numbers.skip(4).repeat(2),
    },
    around_changes={
        "skip": lambda made: made.skip(3),
    },
    extremes={
        "skip": lambda p, x: p.skip(x),
    },
    endless_over={"skip": {"endless stream"}},
    refused=REFUSED,
    mutations=[
        Mutation("stages/skip.py", "start=self.count)", "start=1)"),
    ],
)
