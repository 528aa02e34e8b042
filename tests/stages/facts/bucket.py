"""What the tests of every stage know of `Bucket`."""

from __future__ import annotations

from typing import Any

from support.facts import StageFacts
from support.samples import as_list, document, inputs_and_targets, item_number, two_fields

import resumable as rs
from resumable.stages.bucket import Bucket
from resumable.testing.samples import stream


def length_of(tokens: Any) -> int:
    return len(tokens)


def one(_: Any) -> int:
    return 1


FACTS = StageFacts(
    built_by={Bucket: rs.Pipeline.bucket},
    pipelines={
        "bucket": lambda: rs.range(40).map(document).bucket(len, batch_size=3, group=9).repeat(2),
        "bucket tokens": lambda: (
            stream(40)
            .map(two_fields)
            .bucket(
                lambda item: len(item["y"]),
                max_tokens=24,
                group=11,
                seed=5,
                boundaries=[3, 6],
                multiple_of=4,
                collate=rs.padded({"x": -1}, multiple_of=4, side="left", mask="mask"),
                drop_last=True,
            )
            .repeat(2)
        ),
        "bucket fields": lambda: (
            stream(40)
            .map(inputs_and_targets)
            .bucket(["inputs", "targets"], max_tokens={"inputs": 30, "targets": 44}, group=11)
            .repeat(2)
        ),
    },
    checked=["bucket"],
    behind_deals={
        "bucket": lambda numbers: numbers.map(document).bucket(
            length_of, batch_size=3, group=6, collate=rs.padded(-1)
        ),
    },
    around_changes={
        "bucket": lambda made: made.bucket(item_number, batch_size=3, group=8, collate=as_list),
    },
    extremes={
        "bucket": lambda p, x: p.bucket(one, batch_size=x, group=4, collate=list),
        "bucket boundaries": lambda p, x: p.bucket(one, batch_size=2, boundaries=x, group=4),
        "bucket boundary": lambda p, x: p.bucket(one, batch_size=2, boundaries=[1, x], group=4),
        "bucket lengths": lambda p, x: p.bucket(lambda _: x, batch_size=2, group=4, collate=list),
    },
)
