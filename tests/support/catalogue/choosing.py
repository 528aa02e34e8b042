"""Pipelines that leave items out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import resumable as rs
from resumable.testing.samples import stream

from .samples import RunningSum, UpTo

__all__ = ["CHOOSING"]

NUMBERS = rs.range(0, 60, 2)

CHOOSING: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "filter stateful": lambda: rs.range(20).filter(RunningSum()).batch(3),
    "filter": lambda: NUMBERS.filter(lambda item: item % 3),
    "filter nothing left": lambda: NUMBERS.filter(lambda item: False).repeat(3),
    "take": lambda: stream(30).take(11).repeat(2),
    "take_while": lambda: stream(30).take_while(lambda item: item < 11).repeat(2),
    "take_while to the end": lambda: rs.range(9).shuffle(2).take_while(lambda item: True),
    "take_while stateful": lambda: rs.range(20).take_while(UpTo(30)).repeat(2),
    "take by index": lambda: rs.range(90).take(61),
    "sample": lambda: rs.range(20).map(float).sample(range(20), seed=1, count=30).repeat(2),
    "sample of a rank": lambda: rs.range(20).sample(range(20)).shard(1, 3).batch(4).repeat(2),
    "skip": lambda: rs.range(30).shuffle(1).skip(11).repeat(2),
    "skip stream": lambda: stream(30).skip(11).repeat(2),
    "skip everything": lambda: stream(3).skip(11),
    "exclude": lambda: (
        rs.range(30).shuffle(1).repeat(2).map(float).exclude({0: [], 12: [3, 4], 40: [4, 5]})
    ),
    "exclude in each epoch": lambda: rs.range(20).map(float).exclude([3, 17]).shuffle(1).repeat(2),
    "exclude of a stream": lambda: (
        stream(25).map(float).exclude({0: [3], 9: [4, 20, 21]}).prefetch(2).batch(2).repeat(2)
    ),
    "exclude nothing": lambda: rs.range(20).shuffle(1).repeat(2).exclude({}),
}
