"""Each operator and source against the plainest generator or NumPy loop with the same result."""

# All run in one process, in turns, so that the two sides of a ratio are neighbours in each round.
# By hand means what a Python programmer writes for this work alone, with itertools and NumPy but
# without a ready-made operator. Item by item, that is a generator; before `batch(256)`, arrays of
# 256 of its items, or what NumPy does for numbers known by their index. NumPy draws a random order,
# a mix follows a schedule that is ready, an item with randomness has a generator of its own, and
# items computed ahead come from a thread through a queue.
#
# The outermost iterator adds work to every item, so that a state can be taken after it. It has a
# row of its own, and is subtracted from the time of every other operator, item by item.

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.by_hand import documents, grouping, growth, one_input, several_inputs, sources
from benchmarks.by_hand.operator import (
    BATCH,
    RANDOM_ACCESS,
    STREAM,
    Numbers,
    Operator,
)
from benchmarks.by_hand.turns import INSTANT, take_turns
from benchmarks.journal import Journal
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.timings import shown, spread
from benchmarks.work import Start
from resumable.testing.comparing import assert_same

MINUTES: Final = 17

ITEMS, BATCHES = "item by item", "before batch(256)"
WAYS: Final = {ITEMS: 51_200, BATCHES: 512_000}
"""The number of items of an epoch."""
FEW: Final = 2_560
ROUNDS: Final = 2
"""Rounds for each round of other workloads: epochs are short here."""
LONGEST: Final = 0.25
"""Seconds after which an epoch is stopped."""


class Key(NamedTuple):
    """An operator, over what and in which way; the label distinguishes its variants."""

    name: str
    label: str
    over: str
    way: str


OUTERMOST: Final = Key("range", "range", RANDOM_ACCESS, ITEMS)
"""The row of what the outermost iterator adds."""


@dataclass(frozen=True)
class Row:
    """An operator in one way: the library's epoch and the one by hand."""

    ours: Start
    by_hand: Start
    most: float


class Cost(NamedTuple):
    """Seconds for an item or a batch in each round."""

    ours: list[float]
    by_hand: list[float]

    def ratio(self, less: list[float] | None = None) -> tuple[float, float, float]:
        """Median and quartiles of our time, minus ``less``, as a multiple of that by hand."""
        taken_off = less or [0.0] * len(self.ours)
        rounds = zip(self.ours, self.by_hand, taken_off, strict=True)
        return spread([(mine - off) / theirs for mine, theirs, off in rounds])


def run(options: Options) -> Result:
    """Compare the two sides, then time them, then measure the growth."""
    check(options.folder)
    rows = dict(rows_of(options.folder, quick=options.quick))
    rounds = 1 if options.quick else ROUNDS * options.rounds
    costs = measured(rows, rounds, INSTANT if options.quick else LONGEST, options.journal)
    result = Result("operators", (__doc__ or "").splitlines()[0])
    outermost = _outermost(costs)
    for way in WAYS:
        chosen = {key: cost for key, cost in costs.items() if key.way == way}
        result.tables.append(_table(way, chosen, rows, outermost))
        result.multiples[way] = _drawn(chosen, outermost)
    result.claims = [] if options.quick else list(_claims(costs, rows, outermost))
    grown = growth.measured(options)
    result.tables.append(growth.table(grown))
    result.claims += [] if options.quick else [growth.claim(grown)]
    result.raw["seconds"] = {" / ".join(key): cost._asdict() for key, cost in costs.items()}
    result.raw["growth"] = {" / ".join(key): value for key, value in grown.items()}
    return result


def rows_of(folder: Path, quick: bool = False) -> Iterator[tuple[Key, Row]]:
    """The rows to be timed."""
    for way, count in WAYS.items():
        for over, operator in operators_of(folder, FEW if quick else count):
            key = Key(operator.name, operator.label, over, way)
            if way == ITEMS and operator.items:
                most = operator.most_items
                yield key, Row(operator.pipeline.start, operator.items, most)
            if way == BATCHES and operator.batches:
                most, batched = operator.most_batches, operator.pipeline.batch(BATCH)
                yield key, Row(batched.start, operator.batches, most)


def operators_of(folder: Path, count: int) -> Iterator[tuple[str, Operator]]:
    """All operators, each with what it is over."""
    for over in (STREAM, RANDOM_ACCESS):
        for module in (one_input, several_inputs, grouping, documents, sources):
            for operator in module.operators(Numbers(over, count, folder)):
                yield over, operator


def check(folder: Path) -> None:
    """Check that both sides deliver the same, as far as randomness allows.

    Raises:
      AssertionError: naming the operator, with the first difference.
    """
    for over, operator in operators_of(folder, FEW):
        for pipeline, by_hand in (
            (operator.pipeline, operator.items),
            (operator.pipeline.batch(BATCH), operator.batches),
        ):
            if by_hand is not None:
                with pipeline.start() as iterator:
                    ours, theirs = (list(islice(each, FEW * 3)) for each in (iterator, by_hand()))
                    assert_same(
                        operator.compared(ours),
                        operator.compared(theirs),
                        f"{operator.label} over {over}",
                    )


def measured(
    rows: dict[Key, Row], rounds: int, longest: float, journal: Journal | None = None
) -> dict[Key, Cost]:
    """Time all rows in turns."""
    epochs: dict[tuple[Key, int], Start] = {}
    for key, row in rows.items():
        epochs |= {(key, 0): row.ours, (key, 1): row.by_hand}
    seconds = take_turns(epochs, rounds, longest, journal, until=0.8)
    return {key: Cost(seconds[key, 0], seconds[key, 1]) for key in rows}


def _outermost(costs: dict[Key, Cost]) -> list[float]:
    """The seconds that the outermost iterator adds to an item, in each round."""
    cost = costs[OUTERMOST]
    return [mine - theirs for mine, theirs in zip(*cost, strict=True)]


def _ratio(key: Key, cost: Cost, outermost: list[float]) -> tuple[float, float, float]:
    """The ratio; item by item, without the outermost iterator, except in its own row."""
    gross = key.way == BATCHES or key == OUTERMOST
    return cost.ratio(None if gross else outermost)


def _table(way: str, costs: dict[Key, Cost], rows: dict[Key, Row], outermost: list[float]) -> Table:
    made: list[tuple[Any, ...]] = []
    each = BATCH if way == BATCHES else 1
    for key, cost in costs.items():
        median, lower, upper = _ratio(key, cost, outermost)
        ours, by_hand = (shown([1e9 * one / each for one in seconds], 1) for seconds in cost)
        most = rows[key].most
        made.append(
            (
                key.label,
                key.over,
                by_hand,
                ours,
                f"{median:.2f}",
                f"{lower:.2f} to {upper:.2f}",
                "" if most == math.inf else f"{most:g}",
                "" if median <= most else "more",
            )
        )
    header = (
        "operator",
        "over",
        "by hand, ns an item",
        "resumable",
        "times",
        "quartiles",
        "claim",
        "met",
    )
    added = 1e9 * statistics.median(outermost)
    note = f"The times are without what the outermost iterator adds to an item: {added:.0f} ns."
    return Table(way, header, made, (note,) if way == ITEMS else ())


def _drawn(costs: dict[Key, Cost], outermost: list[float]) -> dict[str, list[tuple[str, float]]]:
    """For the picture, the multiples of all variants of an operator, and what each is over."""
    marks: dict[str, list[tuple[str, float]]] = {}
    for key, cost in costs.items():
        marks.setdefault(key.name, []).append((key.over, _ratio(key, cost, outermost)[0]))
    return marks


def _claims(
    costs: dict[Key, Cost], rows: dict[Key, Row], outermost: list[float]
) -> Iterator[Claim]:
    """For each limit, the claim about the operator with the largest multiple."""
    limits = sorted({(key.way, row.most) for key, row in rows.items() if row.most < math.inf})
    for way, most in limits:
        found = {
            key: _ratio(key, cost, outermost)[0]
            for key, cost in costs.items()
            if (key.way, rows[key].most) == (way, most)
        }
        worst = max(found, key=lambda key: found[key])
        text = f"{way}: the most of {len(found)}, {worst.label} over {worst.over}"
        yield at_most(text, found[worst], most)
