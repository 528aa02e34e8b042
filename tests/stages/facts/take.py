"""What the tests of every stage know of `Take`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.take import Take
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.take(-1), ValueError, "count must be at least 0, got -1"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Take: rs.Pipeline.take},
    pipelines={
        "take": lambda: stream(30).take(11).repeat(2),
        "take by index": lambda: rs.range(90).take(61),
    },
    checked=["take"],
    behind_deals={
        "take": lambda numbers: numbers.take(5),
    },
    around_changes={
        "take few": lambda made: made.take(5),
        "take": lambda made: made.take(17),
    },
    extremes={
        "take": lambda p, x: p.take(x),
    },
    refused=REFUSED,
    mutations=[
        Mutation(
            "stages/take.py",
            "count = min(count, self._stage.count - self._position)",
            "count = min(count, self._stage.count)",
        ),
        Mutation(
            "stages/take.py",
            "left = max(self._stage.count - self._position",
            "left = max(self._stage.count",
        ),
        Mutation("stages/take.py", "            place.end += length\n", ""),
    ],
)
