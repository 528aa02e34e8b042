"""What the tests of every stage know of `Shard`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.shard import Shard
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.shard(2, 2), ValueError, "index must be below count=2, got 2"),
    (lambda: ten.shard(0, 0), ValueError, "count must be at least 1, got 0"),
    (lambda: ten.shard(0, 2, uneven="x"), ValueError, "uneven must be one of 'drop', 'pad', 'keep'"),
    (lambda: ten.shard(3, 2**63), ValueError, "count must be at most 9223372036854775807, got 9223372036854775808"),
    (lambda: stream(5).shard(0, 2**21), ValueError, "count must be at most 1048576 over a stream.*got 2097152"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Shard: rs.Pipeline.shard},
    pipelines={
        "shard drop": lambda: rs.range(23).shuffle(1).shard(1, 4).repeat(2),
        "shard pad": lambda: rs.range(23).shard(3, 4, uneven="pad").batch(2),
        "shard keep": lambda: rs.range(23).shard(3, 4, uneven="keep").repeat(2),
        "shard stream": lambda: stream(23).shard(1, 4, uneven="pad").repeat(2),
        "shard stream keep": lambda: stream(21).shard(0, 4, uneven="keep"),
        "shard shuffled after": lambda: rs.range(23).shard(1, 4, uneven="keep").shuffle(2),
    },
    checked=["shard keep"],
    behind_deals={},  # it is a deal
    around_changes={
        "shard": lambda made: made.shard(1, 2),
    },
    extremes={
        "shard": lambda p, x: p.shard(0, x),
        "shard index": lambda p, x: p.shard(x, 2**63 - 1),
        "shard last": lambda p, x: p.shard(x - 1 if type(x) is int else 0, x),
        "shard uneven": lambda p, x: p.shard(1, 2, uneven=x),
        "shard twice": lambda p, x: p.shard(1, x).shard(1, x),
        "skip and shard": lambda p, x: p.skip(x).shard(0, x),
    },
    endless_over={
        "skip and shard": {"endless stream"},
        "shard": {"endless stream"},
        "shard last": {"endless stream"},
        "shard twice": {"endless stream"},
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/shard.py", "return self.index % rest", "return self.index % self.count"),
        Mutation(
            "stages/shard.py",
            "position = self._base + self._rest.position * self._stage.count",
            "position = self._rest.position * self._stage.count",
        ),
        Mutation("stages/shard.py", "IdentityField(ITEMS | RANK, hint", "IdentityField(RANK, hint"),
        Mutation("stages/shard.py", "if dealt[-1] is MISSING:", "if dealt[0] is MISSING:"),
        Mutation("stages/shard.py", "[end + place]", "[place]"),
    ],
)
