"""What the tests of every stage know of `Zip`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import double, ten

import resumable as rs
from resumable.stages.zip import Zip
from resumable.testing.samples import columns, stream

REFUSED: list[Refusal] = [
    (lambda: rs.zip(), ValueError, "at least one upstream"),
    (lambda: rs.zip(ten, [1]), TypeError, r"upstreams\[1\] must be a pipeline, got \[1\]; wrap"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Zip: rs.zip},
    pipelines={
        "zip": lambda: rs.zip(rs.range(9).shuffle(0), rs.from_sequence("abcdefgh")),
        "zip columns": lambda: rs.zip(rs.range(9), rs.from_arrays(columns())).batch(4),
        "zip streams": lambda: rs.zip(stream(9), stream(5), rs.range(100)),
        "zip by index": lambda: rs.zip(rs.range(80), rs.range(70), rs.range(90)),
    },
    checked=["zip"],
    behind_deals={
        "zip": lambda numbers: rs.zip(numbers, numbers.map(double)),
        "zip with all": lambda numbers: rs.zip(numbers, rs.range(100, 160)),
    },
    around_changes={
        "zip": lambda made: rs.zip(made, rs.range(1000)),
    },
    extremes={
        "zip": lambda p, x: rs.zip(p, rs.range(x)),
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/zip.py", "count = block_length(blocks[-1])", "block_length(blocks[-1])"),
        Mutation("stages/zip.py", "return min([0 if", "return max([0 if"),
    ],
)
