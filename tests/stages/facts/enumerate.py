"""What the tests of every stage know of `Enumerate`."""

from __future__ import annotations

from support.facts import Mutation, StageFacts

import resumable as rs
from resumable.stages.enumerate import Enumerate
from resumable.testing.samples import columns, stream

FACTS = StageFacts(
    built_by={Enumerate: rs.Pipeline.enumerate},
    pipelines={
        "enumerate": lambda: rs.from_arrays(columns()).enumerate().batch(4),
        "enumerate stream": lambda: stream(9).enumerate().repeat(2),
    },
    checked=["enumerate stream"],
    behind_deals={
        "enumerate": lambda numbers: numbers.enumerate(),
    },
    around_changes={
        "enumerate": lambda made: made.enumerate(),
    },
    extremes={},  # no number
    mutations=[
        Mutation(
            "stages/enumerate.py",
            "self._item_position.end = end = first",
            "self._item_position.end = end =",
        ),
    ],
)
