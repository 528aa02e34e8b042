"""What the tests of every stage know of `Map`."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
from support.facts import Refusal, StageFacts
from support.samples import (
    NUMBERS,
    RunningSum,
    alone,
    double,
    fails_on_thirds,
    item_number,
    ten,
    wait,
)

import resumable as rs
from resumable.stages.map import Map
from resumable.testing.comparing import same


def fails_on_sevenths(number: int) -> int:
    if number % 7 == 0:
        raise ValueError(number)
    return number


def fails_on_fifths(item: Any) -> int:
    if item_number(item) % 5 == 4:
        raise ValueError
    return item_number(item)


class Nowhere(Executor):
    """An executor that is never used."""


class Waiter:
    async def __call__(self, item: Any) -> Any:
        return item


REFUSED: list[Refusal] = [
    (lambda: ten.map(abs, executor=np.arange(2)), TypeError, "executor must be 'thread', 'process' or"),
    (lambda: ten.map(wait), TypeError, "fn must be a plain function, got the async .*wait"),
    (lambda: ten.map(partial(wait)), TypeError, "fn must be a plain function, got the async"),
    (lambda: ten.map(Waiter()), TypeError, "fn must be a plain function, got the async"),
    (lambda: ten.map(5), TypeError, "fn must be callable, got 5"),
    (lambda: ten.map(abs, workers=-1), ValueError, "workers must be at least 0, got -1"),
    (lambda: ten.map(abs, executor="gpu"), TypeError, "executor must be 'thread', 'process' or"),
    (lambda: ten.map(abs, on_error="stop"), ValueError, "on_error must be one of 'raise', 'skip'"),
    (lambda: ten.map(abs, on_error=np.array(["skip", "x"])), ValueError, "on_error must be one of"),
    (lambda: ten.map(RunningSum(), workers=2), ValueError, "workers must be 0 for a function that carries"),
    (lambda: ten.map(abs, executor=Nowhere()), ValueError, "workers must be at least 1 for an executor"),
    (lambda: ten.map(abs, workers=2).shuffle(0), ValueError, "Map before it would run without its threads.*put it after Shuffle"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Map: rs.Pipeline.map},
    pipelines={
        "map": lambda: NUMBERS.map(double),
        "map skipping": lambda: rs.range(30).map(fails_on_thirds, on_error="skip").batch(4),
        "map stateful": lambda: rs.range(20).map(RunningSum()),
        "map workers": lambda: NUMBERS.map(double, workers=2),
        "map workers skipping": lambda: rs.range(20).map(
            fails_on_thirds, workers=3, on_error="skip"
        ),
    },
    checked=["map workers"],
    sharing_an_object=["map stateful"],
    behind_deals={
        "map": lambda numbers: numbers.map(double),
        "map in workers": lambda numbers: numbers.map(double, workers=2),
        "map skipping": lambda numbers: numbers.map(fails_on_sevenths, on_error="skip"),
        "map stateful": lambda numbers: numbers.map(RunningSum()),
    },
    around_changes={
        "map": lambda made: made.map(item_number),
        "map that drops": lambda made: made.map(fails_on_fifths, on_error="skip"),
        "map in threads": lambda made: made.map(item_number, workers=2, executor="thread"),
    },
    extremes={
        "map executor": lambda p, x: p.map(alone, workers=1, executor=x),
        "map workers": lambda p, x: p.map(alone, workers=x) if same(x, 0) else p,
        "map on_error": lambda p, x: p.map(alone, on_error=x),
        "map fn": lambda p, x: p.map(x),
    },
    refused=REFUSED,
)
