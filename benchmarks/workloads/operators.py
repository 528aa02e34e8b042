"""Each operator and source beside the plainest generator or NumPy loop with the same result."""

# All in one process, in turns: what is compared stands next to each other in a round. By hand means what
# a Python programmer writes for this work alone, with itertools and NumPy but without a ready-made
# operator: a generator, item by item; before `batch(256)`, lists of 256 of its items as arrays, or what
# NumPy does for numbers that are known by their index. An order that is random is drawn by NumPy, a mix
# draws by a schedule that is ready, an item with randomness of its own has a generator of its own, and
# what is computed ahead comes from a thread through a queue.
#
# What the outermost iterator adds to every item, so that it can be saved there, has a row of its own, and is
# taken off the time of every other operator.

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.by_hand import documents, growth, one_input, several_inputs, sources
from benchmarks.by_hand.operator import (
    BATCH,
    RANDOM_ACCESS,
    STREAM,
    Numbers,
    Operator,
    Pass,
)
from benchmarks.by_hand.turns import INSTANT, take_turns
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.timings import spread
from resumable.testing.comparing import assert_same

ITEMS, BATCHES = "item by item", "before batch(256)"
WAYS: Final = {ITEMS: 51_200, BATCHES: 512_000}
"""How many items a pass has."""
FEW: Final = 2_560
ROUNDS: Final = 2
"""As many times the rounds of others: a pass here is short."""
LONGEST: Final = 0.25
"""Seconds after which a pass is stopped."""


class Key(NamedTuple):
    """Which operator, over what, and how; the label tells its variants apart."""

    name: str
    label: str
    over: str
    way: str


OUTERMOST: Final = Key("range", "range", RANDOM_ACCESS, ITEMS)
"""Nothing but what the outermost iterator adds."""


@dataclass(frozen=True)
class Row:
    """An operator in one way: the library's pass and the one by hand."""

    ours: Pass
    by_hand: Pass
    most: float


class Cost(NamedTuple):
    """Seconds of an item or a batch, of each round."""

    ours: list[float]
    by_hand: list[float]

    def ratio(self, less: list[float] | None = None) -> tuple[float, float, float]:
        """Median and quartiles of ours as a multiple, ``less`` taken off ours in each round."""
        taken_off = less or [0.0] * len(self.ours)
        rounds = zip(self.ours, self.by_hand, taken_off, strict=True)
        return spread([(mine - off) / theirs for mine, theirs, off in rounds])


def run(options: Options) -> Result:
    """Compare what they deliver, then time all, then the growth."""
    check(options.folder)
    rows = dict(rows_of(options.folder, quick=options.quick))
    rounds = 1 if options.quick else ROUNDS * options.rounds
    costs = measured(rows, rounds, INSTANT if options.quick else LONGEST)
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
    """What is timed."""
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
    """All, with what each is over."""
    for over in (STREAM, RANDOM_ACCESS):
        for module in (one_input, several_inputs, documents, sources):
            for operator in module.operators(Numbers(over, count, folder)):
                yield over, operator


def check(folder: Path) -> None:
    """Both deliver the same, as far as what is random allows.

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


def measured(rows: dict[Key, Row], rounds: int, longest: float) -> dict[Key, Cost]:
    """By turns."""
    passes: dict[tuple[Key, int], Pass] = {}
    for key, row in rows.items():
        passes |= {(key, 0): row.ours, (key, 1): row.by_hand}
    seconds = take_turns(passes, rounds, longest)
    return {key: Cost(seconds[key, 0], seconds[key, 1]) for key in rows}


def _outermost(costs: dict[Key, Cost]) -> list[float]:
    """What the outermost iterator adds to an item, in each round."""
    cost = costs[OUTERMOST]
    return [mine - theirs for mine, theirs in zip(*cost, strict=True)]


def _ratio(key: Key, cost: Cost, outermost: list[float]) -> tuple[float, float, float]:
    """That of an item is net of the outermost iterator, whose own row is not."""
    gross = key.way == BATCHES or key == OUTERMOST
    return cost.ratio(None if gross else outermost)


def _table(way: str, costs: dict[Key, Cost], rows: dict[Key, Row], outermost: list[float]) -> Table:
    made: list[tuple[Any, ...]] = []
    each = BATCH if way == BATCHES else 1
    for key, cost in costs.items():
        median, lower, upper = _ratio(key, cost, outermost)
        ours, by_hand = (1e9 * statistics.median(seconds) / each for seconds in cost)
        most = rows[key].most
        made.append(
            (
                key.label,
                key.over,
                f"{by_hand:,.1f}",
                f"{ours:,.1f}",
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
    note = f"The times are net of what the outermost iterator adds to an item: {added:.0f} ns."
    return Table(way, header, made, (note,) if way == ITEMS else ())


def _drawn(costs: dict[Key, Cost], outermost: list[float]) -> dict[str, list[tuple[str, float]]]:
    """For the picture: the multiples of all variants of an operator, and what each is over."""
    marks: dict[str, list[tuple[str, float]]] = {}
    for key, cost in costs.items():
        marks.setdefault(key.name, []).append((key.over, _ratio(key, cost, outermost)[0]))
    return marks


def _claims(
    costs: dict[Key, Cost], rows: dict[Key, Row], outermost: list[float]
) -> Iterator[Claim]:
    """Of each limit the operator that comes closest to it, or passes it by most."""
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
