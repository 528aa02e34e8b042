"""What the tests of every stage know of `ByEpoch`."""

from __future__ import annotations

from typing import Any

from support.facts import Refusal, StageFacts
from support.samples import double, ten

import resumable as rs
from resumable.core.epochs import ByEpoch
from resumable.testing.samples import stream


def by_epoch(pipeline: rs.Pipeline[Any], start: Any) -> rs.Pipeline[Any]:
    start = start if isinstance(start, (int, float, str)) else 9
    return rs.by_epoch({0: pipeline, start: rs.range(3)})


REFUSED: list[Refusal] = [
    (lambda: rs.by_epoch(ten), TypeError, r"pipelines must be a dict .* such as \{0: old, 3: new\}, got Pipe"),
    (lambda: rs.by_epoch({}), ValueError, r"epochs of pipelines must ascend from 0, got \[\]"),
    (lambda: rs.by_epoch({1: ten}), ValueError, r"must ascend from 0, got \[1\]"),
    (lambda: rs.by_epoch({0: ten, 3: ten, 2: ten}), ValueError, r"must ascend from 0, got \[0, 3, 2\]"),
    (lambda: rs.by_epoch({"3": ten}), TypeError, "epochs of pipelines must be an integer, got '3'"),  # type: ignore[dict-item]
    (lambda: rs.by_epoch({0: ten, True: ten}), TypeError, "must be an integer, got True"),
    (lambda: rs.by_epoch({0: ten, 2**32: ten}), ValueError, "must be at most 4294967295"),
    (lambda: rs.by_epoch({0: ten, 2: 7}), TypeError, r"pipelines\[2\] must be a pipeline, got 7"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={ByEpoch: rs.by_epoch},
    pipelines={
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
    },
    checked=["by epoch alone"],
    behind_deals={
        "by epoch": lambda numbers: rs.by_epoch({0: numbers, 1: numbers.skip(4)}).repeat(2),
        "by epoch batch": lambda numbers: (
            rs.by_epoch({0: numbers.skip(4), 1: numbers}).batch(4).repeat(2)
        ),
    },
    around_changes={},  # it is what changes
    extremes={
        "by epoch": lambda p, x: by_epoch(p, x).repeat(5),
        "by epoch repeated": lambda p, x: by_epoch(p, 3).take(5).repeat(x).take(7).repeat(x),
    },
    endless_over={"by epoch repeated": {"empty stream"}},
    refused=REFUSED,
)
