"""What the tests of every stage know of `TakeWhile`."""

from __future__ import annotations

from typing import Any

from support.facts import StageFacts
from support.samples import UpTo, item_number

import resumable as rs
from resumable.stages.take_while import TakeWhile
from resumable.testing.samples import stream


def is_not_50(number: int) -> bool:
    return number != 50


def is_no_multiple_of_13(item: Any) -> bool:
    return item_number(item) % 13 > 0 or item_number(item) < 8


FACTS = StageFacts(
    built_by={TakeWhile: rs.Pipeline.take_while},
    pipelines={
        "take_while": lambda: stream(30).take_while(lambda item: item < 11).repeat(2),
        "take_while to the end": lambda: rs.range(9).shuffle(2).take_while(lambda item: True),
        "take_while stateful": lambda: rs.range(20).take_while(UpTo(30)).repeat(2),
    },
    checked=["take_while"],
    sharing_an_object=["take_while stateful"],
    behind_deals={
        "take_while": lambda numbers: numbers.take_while(is_not_50),
        "take_while stateful": lambda numbers: numbers.take_while(UpTo(500)),
    },
    around_changes={
        "take while": lambda made: made.take_while(is_no_multiple_of_13),
    },
    extremes={},  # no number
)
