"""What the tests of every stage know of `Interleave`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.interleave import Interleave
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: rs.interleave(ten, block_length=0), ValueError, "block_length must be at least 1, got 0"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Interleave: rs.interleave},
    pipelines={
        "interleave": lambda: rs.interleave(rs.range(5), stream(11), rs.range(0), block_length=2),
        "interleave by index": lambda: rs.interleave(
            rs.range(900), rs.range(0), rs.range(50).shuffle(0), rs.range(4_000), block_length=3
        ),
        "interleave of sequences": lambda: rs.interleave(*map(rs.from_sequence, ["abc", "xy"])),
    },
    checked=["interleave"],
    behind_deals={
        "interleave": lambda numbers: rs.interleave(numbers, rs.range(100, 108), block_length=2),
    },
    around_changes={
        "interleave": lambda made: rs.interleave(made, rs.range(700, 720), block_length=2),
    },
    extremes={
        "interleave pipelines": lambda p, x: rs.interleave(p, p, block_length=x),
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/interleave.py", "return number, within + 1", "return number, within"),
        Mutation(
            "stages/interleave.py",
            "return (number + 1) % len(self._upstreams), 0",
            "return (number - 1) % len(self._upstreams), 0",
        ),
        Mutation(
            "stages/interleave.py",
            "self._turn, self._within = (number + 1) % len(self._upstreams), 0",
            "self._turn, self._within = number, 0",
        ),
        Mutation(
            "stages/interleave.py", "self._handed_out = start + size", "self._handed_out = start"
        ),
        Mutation("stages/interleave.py", "count -= count % size", "count -= size"),
    ],
)
