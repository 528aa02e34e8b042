"""What the tests of every stage know of `Scan`."""

from __future__ import annotations

from typing import Any

from support.facts import Mutation, Refusal, StageFacts
from support.samples import RunningSum, TwoSums, item_number, packed, running, ten, unpacked

import resumable as rs
from resumable.stages.scan import Scan
from resumable.testing.samples import stream


def with_sum(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


def last_sum(total: int) -> list[int]:
    return [-total] * (total % 3)


def counted(carry: int, item: Any) -> tuple[int, Any]:
    return carry + item_number(item) % 5, (carry, item)


REFUSED: list[Refusal] = [
    (lambda: ten.scan(None, 0), TypeError, "fn must be callable"),
    (lambda: ten.scan(max, {1, 2}), TypeError, "initial holds a builtins.set"),
    (lambda: ten.scan(max, 0, 5), TypeError, "finish must be callable, got 5"),
    (lambda: ten.scan(max, 0, RunningSum()), ValueError, "finish must not carry state of its own"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Scan: rs.Pipeline.scan},
    pipelines={
        "scan stateful": lambda: rs.range(20).scan(TwoSums(), 3).repeat(2),
        "scan": lambda: rs.range(12).scan(running, 1).repeat(2),
        "scan finish": lambda: stream(7).scan(packed, [], unpacked).repeat(2),
    },
    checked=["scan"],
    sharing_an_object=["scan stateful"],
    behind_deals={
        "scan": lambda numbers: numbers.scan(with_sum, 0),
        "scan with an end": lambda numbers: numbers.scan(with_sum, 0, last_sum),
    },
    around_changes={
        "scan": lambda made: made.scan(counted, 0),
    },
    extremes={
        "scan initial": lambda p, x: p.scan(lambda carry, item: (carry, item), x),
    },
    refused=REFUSED,
    mutations=[
        Mutation(
            "stages/scan.py", "self._carry = freeze(stage.initial)", "self._carry = stage.initial"
        ),
        Mutation("stages/scan.py", "self._offset += 1", "pass"),
        Mutation("stages/scan.py", "        self._ended = True\n", "        pass\n"),
        Mutation(
            "stages/scan.py", "if self._last is None else taken_state", "if True else taken_state"
        ),
    ],
)
