"""What the tests of every stage know of `Unbatch`."""

from __future__ import annotations

import numpy as np
from support.facts import ENDLESS, Mutation, StageFacts
from support.samples import item_number, named_columns

import resumable as rs
from resumable.stages.unbatch import Unbatch
from resumable.testing.samples import columns, stream

FACTS = StageFacts(
    built_by={Unbatch: rs.Pipeline.unbatch},
    pipelines={
        "unbatch of a size": lambda: (
            rs.from_arrays(columns()).batch(4, drop_last=True).unbatch(size=4).shuffle(3).batch(3)
        ),
        "unbatch of a size in order": lambda: stream(20).batch(4).unbatch(size=4).repeat(2),
        "rebatch": lambda: rs.from_arrays(columns()).batch(4).rebatch(3).repeat(2),
        "rebatch of a stream": lambda: stream(17).batch(6).rebatch(4, drop_last=True).repeat(2),
        "rebatch of lists": lambda: (
            rs.from_sequence(["ab", "", "cde", "f"] * 4).map(list).rebatch(5)
        ),
        "unbatch": lambda: rs.from_arrays(columns()).batch(4).unbatch(),
        "unbatch columns": lambda: rs.from_sequence(
            [
                *np.arange(24).reshape(4, 6),
                np.arange(0),
                np.arange(3.0),
                np.arange(5, dtype=np.uint8),
                [1, 2],
                np.array(["a", "bcd"]),
                *np.arange(24).reshape(2, 3, 4),
            ]
        ).unbatch(),
        "unbatch stream of dicts": lambda: (
            stream(23).batch(5).map(named_columns).unbatch().repeat(2)
        ),
    },
    checked=["unbatch"],
    behind_deals={
        "batch unbatch": lambda numbers: numbers.batch(4).unbatch(),
        "rebatch": lambda numbers: numbers.batch(4).rebatch(3),
    },
    around_changes={
        "unbatch": lambda made: made.batch(4, collate=list).unbatch(),
        "rebatch": lambda made: made.map(item_number).batch(4).rebatch(3),
    },
    extremes={
        "rebatch": lambda p, x: p.batch(3).rebatch(x),
        "unbatch size": lambda p, x: p.batch(3, drop_last=True).unbatch(size=x),
    },
    endless_over={"rebatch": ENDLESS},
    mutations=[
        Mutation(
            "stages/unbatch.py",
            "skip_outputs(outputs, self._point.number, OUTPUTS, self._stage)",
            "pass",
        ),
        Mutation("stages/unbatch.py", "is_view = block is parts[0] and", "is_view = False and"),
    ],
)
