"""What the tests of every stage know of `Shuffle`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.shuffle import Shuffle
from resumable.testing.samples import columns, stream

REFUSED: list[Refusal] = [
    (lambda: ten.shuffle("0"), TypeError, "seed must be an integer, got '0'"),
    (lambda: ten.shuffle(-1), ValueError, "seed must be at least 0, got -1"),
    (lambda: ten.shuffle(0, carry=True), ValueError, "carry needs a window"),
    (lambda: ten.shuffle(0, block=0), ValueError, "block must be at least 1, got 0"),
    (lambda: ten.shuffle(0, block=2.5), TypeError, "block must be an integer, got 2.5"),
    (lambda: ten.shuffle(0, block=3, window=4), ValueError, "a block, for random access, or a window, for a stream, got block=3 and window=4"),
    (lambda: ten.shuffle(0, block=3, carry=True), ValueError, "carry needs a window"),
    (lambda: stream(5).shuffle(0, block=3), ValueError, r"needs a window for a stream.*use shuffle\(seed, window=n\)"),
    (lambda: stream(5).shuffle(0), ValueError, r"needs a window for a stream.*use shuffle\(seed, window=n\)"),
    (lambda: ten.repeat().shuffle(0), ValueError, "endless pipeline.*shuffle before repeat"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Shuffle: rs.Pipeline.shuffle},
    pipelines={
        "shuffle": lambda: rs.range(40).shuffle(7),
        "shuffle large": lambda: rs.range(10_000).shuffle(7).take(60),
        "shuffle epochs": lambda: rs.range(12).shuffle(7).repeat(4),
        "shuffle twice": lambda: rs.range(30).shuffle(1).shuffle(2),
        "shuffle batches": lambda: rs.range(30).batch(4).shuffle(2).unbatch(),
        "shuffle in blocks": lambda: rs.range(83).shuffle(7, block=5).repeat(2),
        "shuffle in large blocks": lambda: (
            rs.range(100_000).shuffle(7, block=1000).shard(1, 3).skip(2500).take(60)
        ),
        "shuffle in one block": lambda: (
            rs.from_arrays(columns()).shuffle(7, block=2**62).batch(4).repeat(2)
        ),
    },
    checked=["shuffle"],
    behind_deals={
        "shuffle": lambda numbers: numbers.shuffle(5) if numbers.random_access else numbers.cache(),
        "shuffle in blocks": lambda numbers: (
            numbers.shuffle(5, block=4) if numbers.random_access else numbers.cache().repeat(2)
        ),
    },
    around_changes={
        "shuffle": lambda made: made.shuffle(7),
        "shuffle of blocks": lambda made: made.shuffle(7, block=4),
    },
    extremes={
        "shuffle": lambda p, x: p.shuffle(x),
        "shuffle block": lambda p, x: p.shuffle(0, block=x),
        "shuffle block seed": lambda p, x: p.shuffle(x, block=2),
    },
    refused=REFUSED,
    mutations=[
        Mutation(
            "stages/shuffle.py",
            "return permutation(count, seed, epoch)",
            "return permutation(count, seed, 0)",
        ),
        Mutation(
            "stages/shuffle.py",
            "block_permutation(count, block, seed, epoch)",
            "block_permutation(count, block, seed, 0)",
        ),
    ],
)
