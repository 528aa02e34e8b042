"""What the tests of every stage know of `Repeat`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import ten

import resumable as rs
from resumable.stages.repeat import Repeat
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.repeat(-1), ValueError, "epochs must be at least 0, got -1"),
    (lambda: rs.range(2**62).repeat(4), ValueError, r"epochs must make at most 2\*\*62 items, got 4 of 4611686018427387904"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Repeat: rs.Pipeline.repeat},
    pipelines={
        "repeat endless": lambda: rs.range(6).shuffle(1).repeat().batch(4),
        "repeat nested": lambda: rs.range(4).shuffle(1).repeat(2).repeat(3),
        "repeat zero": lambda: rs.range(4).repeat(0),
        "repeat empty endless": lambda: rs.range(0).repeat(),
        "repeat stream": lambda: stream(6).repeat(3),
    },
    checked=["repeat nested"],
    behind_deals={
        "repeat": lambda numbers: numbers.repeat(2),
        "repeat batch": lambda numbers: numbers.repeat(2).batch(4),
    },
    around_changes={
        "repeat": lambda made: made.repeat(3),
        "repeat twice": lambda made: made.repeat(2),
        "repeat without end": lambda made: made.repeat(),
    },
    extremes={
        "repeat": lambda p, x: p.repeat(x),
        "repeat twice": lambda p, x: p.repeat(x).take(5).repeat(x),
    },
    endless_over={
        "repeat": {"empty stream"},
        "repeat twice": {"empty stream"},
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/repeat.py", "self._delivered = True\n                yield", "yield"),
        Mutation(
            "stages/repeat.py",
            "return epoch * self._epochs_counted + number",
            "return epoch + number",
        ),
        Mutation("stages/repeat.py", "        restore_functions(self._upstream)\n", ""),
        Mutation(
            "stages/repeat.py",
            "number = runs.epoch_with(last)",
            "number = runs.epoch_with(last + 1)",
        ),
        Mutation(
            "stages/repeat.py",
            "self._upstream.close()  # it reads nothing",
            "pass  # it reads nothing",
        ),
    ],
)
