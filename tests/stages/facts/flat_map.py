"""What the tests of every stage know of `FlatMap`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from support.facts import Refusal, StageFacts
from support.samples import RunningSum, copies, repeated, ten, three_of

import resumable as rs
from resumable.stages.flat_map import FlatMap


async def wait_often(item: Any) -> AsyncIterator[Any]:
    yield item


REFUSED: list[Refusal] = [
    (lambda: ten.flat_map(wait_often), TypeError, "fn must be a plain function, got the async"),
    (lambda: ten.flat_map(RunningSum()), ValueError, "must not carry state of its own here"),
    (lambda: ten.flat_map([]), TypeError, "fn must be callable"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={FlatMap: rs.Pipeline.flat_map},
    pipelines={
        "flat_map": lambda: rs.range(8).flat_map(range),
        "flat_map pipelines": lambda: rs.range(7).flat_map(
            lambda n: rs.range(n).shuffle(n).filter(lambda i: i != 1)
        ),
        "flat_map of a size": lambda: rs.range(8).shuffle(2).flat_map(three_of, size=3).repeat(2),
        "flat_map of a size shuffled": lambda: rs.range(8).flat_map(three_of, size=3).shuffle(1),
    },
    checked=["flat_map"],
    behind_deals={
        "flat_map": lambda numbers: numbers.flat_map(repeated),
        "flat_map of a size": lambda numbers: numbers.flat_map(
            lambda number: [number, -number], size=2
        ),
    },
    around_changes={
        "flat map": lambda made: made.flat_map(copies),
    },
    extremes={
        "flat_map size": lambda p, x: p.flat_map(lambda item: [item, 1], size=x),
    },
    refused=REFUSED,
)
