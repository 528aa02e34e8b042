"""What the tests of every stage know of `RandomMap`."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.facts import Mutation, Refusal, StageFacts
from support.samples import TwoSums, is_no_third, item_number, noise_but_thirds, ten

import resumable as rs
from resumable.stages.random_map import RandomMap
from resumable.testing.samples import stream, with_noise


def number_with_noise(item: Any, generator: np.random.Generator) -> int:
    return item_number(item) + int(generator.integers(100))


REFUSED: list[Refusal] = [
    (lambda: ten.random_map(None), TypeError, "fn must be callable"),
    (lambda: ten.random_map(abs, seed=2**64), ValueError, "seed must be at most 18446744073709551615"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={RandomMap: rs.Pipeline.random_map},
    pipelines={
        "random_map stateful": lambda: stream(20).random_map(TwoSums(), 3).batch(3),
        "random_map": lambda: rs.range(20).shuffle(1).random_map(with_noise, 3).repeat(2),
        "random_map stream": lambda: stream(20).random_map(with_noise, 3).repeat(2),
        "random_map of a rank": lambda: (
            rs.range(23).shuffle(1).shard(1, 3, uneven="keep").random_map(with_noise, 3).repeat(2)
        ),
        "random_map workers skipping": lambda: (
            stream(20).shard(1, 2).random_map(noise_but_thirds, 3, workers=2, on_error="skip")
        ),
    },
    checked=["random_map stream"],
    sharing_an_object=["random_map stateful"],
    behind_deals={
        "random_map": lambda numbers: numbers.random_map(with_noise, 3),
        "random_map skipping": lambda numbers: numbers.random_map(
            noise_but_thirds, 3, on_error="skip"
        ),
        "random_map of what is filtered": lambda numbers: numbers.filter(is_no_third).random_map(
            with_noise, 3
        ),
    },
    around_changes={
        "random map": lambda made: made.random_map(number_with_noise),
    },
    extremes={
        "random_map": lambda p, x: p.random_map(lambda item, _: item, x),
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/global_order.py", "count(self._position + rank", "count(self._position"),
        Mutation(
            "stages/global_order.py", "first = self._position + rank", "first = self._position"
        ),
        Mutation("stages/global_order.py", "passed * self._stage.rank_share.ranks", "passed"),
    ],
)
