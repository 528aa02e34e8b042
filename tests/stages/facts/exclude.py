"""What the tests of every stage know of `Exclude`."""

from __future__ import annotations

from support.facts import Mutation, StageFacts

import resumable as rs
from resumable.stages.exclude import Exclude
from resumable.testing.samples import stream

FACTS = StageFacts(
    built_by={Exclude: rs.Pipeline.exclude},
    pipelines={
        "exclude": lambda: (
            rs.range(30).shuffle(1).repeat(2).map(float).exclude({0: [], 12: [3, 4], 40: [4, 5]})
        ),
        "exclude in each epoch": lambda: (
            rs.range(20).map(float).exclude([3, 17]).shuffle(1).repeat(2)
        ),
        "exclude of a stream": lambda: (
            stream(25).map(float).exclude({0: [3], 9: [4, 20, 21]}).prefetch(2).batch(2).repeat(2)
        ),
        "exclude nothing": lambda: rs.range(20).shuffle(1).repeat(2).exclude({}),
    },
    checked=["exclude"],
    behind_deals={},  # it names records of the source, so it cannot stand there
    around_changes={},  # it is what changes
    extremes={},  # no number
    mutations=[
        Mutation(
            "stages/exclude.py",
            "not self.changes and not self.looks_up",
            "not self.changes",
        ),
        Mutation("stages/exclude.py", "if epoch else self.by_item", "if False else self.by_item"),
        Mutation("stages/exclude.py", "        replaced.close()\n", ""),
    ],
)
