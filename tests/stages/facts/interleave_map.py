"""What the tests of every stage know of `InterleaveMap`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import alone, copies, repeated, ten

import resumable as rs
from resumable.stages.interleave_map import InterleaveMap
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.interleave_map(range, 0), ValueError, "cycle_length must be at least 1, got 0"),
    (lambda: ten.interleave_map(range, 2, 0), ValueError, "block_length must be at least 1, got 0"),
    (lambda: ten.interleave_map(range, 2**40), ValueError, "cycle_length must be at most 65536, got 1099511627776"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={InterleaveMap: rs.Pipeline.interleave_map},
    pipelines={
        "interleave fn": lambda: rs.range(7).interleave_map(lambda n: range(n * 2), 3, 2),
        "interleave fn pipelines": lambda: rs.range(5).interleave_map(
            lambda n: stream(9).shuffle(n, window=4).repeat(2), cycle_length=2, block_length=3
        ),
        "interleave fn wide": lambda: stream(3).interleave_map(lambda n: [n] * n, cycle_length=8),
    },
    checked=["interleave fn"],
    behind_deals={
        "interleave of an item": lambda numbers: numbers.interleave_map(repeated, cycle_length=3),
    },
    around_changes={
        "interleave of functions": lambda made: made.interleave_map(copies, cycle_length=2),
    },
    extremes={
        "interleave": lambda p, x: p.interleave_map(alone, x),
        "interleave block_length": lambda p, x: p.interleave_map(alone, 2, x),
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/interleave_map.py", "place.offset += 1", "pass"),
        Mutation(
            "stages/interleave_map.py", "            self._ended = True\n", "            pass\n"
        ),
    ],
)
