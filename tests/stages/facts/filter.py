"""What the tests of every stage know of `Filter`."""

from __future__ import annotations

from support.facts import Mutation, Refusal, StageFacts
from support.samples import NUMBERS, RunningSum, UpTo, is_no_third, number_is_no_third, ten, wait

import resumable as rs
from resumable.stages.filter import Filter

REFUSED: list[Refusal] = [
    (lambda: ten.filter(wait), TypeError, "predicate must be a plain function, got the async"),
    (lambda: ten.filter("x"), TypeError, "predicate must be callable"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Filter: rs.Pipeline.filter},
    pipelines={
        "filter stateful": lambda: rs.range(20).filter(RunningSum()).batch(3),
        "filter": lambda: NUMBERS.filter(lambda item: item % 3),
        "filter nothing left": lambda: NUMBERS.filter(lambda item: False).repeat(3),
    },
    checked=["filter"],
    sharing_an_object=["filter stateful"],
    behind_deals={
        "filter": lambda numbers: numbers.filter(is_no_third),
        "filter stateful": lambda numbers: numbers.filter(UpTo(500)),
    },
    around_changes={
        "filter": lambda made: made.filter(number_is_no_third),
    },
    extremes={},  # no number
    refused=REFUSED,
    mutations=[
        Mutation("stages/filter.py", "missing -= len(rows)", "missing -= len(items)"),
    ],
)
