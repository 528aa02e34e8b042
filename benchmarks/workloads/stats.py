"""What the stats of an iterator cost, compared with none, for items and batches that take longer and longer."""

# Three iterators of one pipeline take turns. One of them measures; the third does not, and shows what the noise of
# the machine makes.

from __future__ import annotations

from functools import partial
from typing import Final

import resumable as rs
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.timings import spread
from benchmarks.workloads.scripts.stats_cost import ENDLESS, cost, increment

MINUTES: Final = 5

STEPS: Final = (0, 100, 1_000, 10_000)
"""Additions of Python in a step of the loop."""
MOST_TIMES: Final = 4.0
"""As long for an item, which takes some 0.1 µs without stats."""
MOST_PERCENT: Final = 5.0
"""More for a batch."""


def run(options: Options) -> Result:
    """Measure each in every round."""
    numbers = rs.range(ENDLESS).map(increment)
    works = {"an item": numbers, "a batch of 256": numbers.batch(256)}
    result = Result("stats", (__doc__ or "").partition("\n")[0])
    rows = []
    found: dict[str, list[tuple[float, float, float]]] = {}
    for turn in options.journal.turns(options.rounds):
        for work, pipeline in [*works.items()][: 1 if options.quick else None]:
            for steps in STEPS[:1] if options.quick else STEPS:
                measure = partial(cost, pipeline, steps)
                taken = options.journal.once(work, steps, turn, measure=measure)
                found.setdefault(f"{work}, {steps:,} additions", []).append(taken)
    for title, each in found.items():
        seconds, with_stats, same = zip(*each, strict=True)
        rows.append(
            (
                title,
                "{:,.2f} ({:,.2f} to {:,.2f})".format(*(1e6 * one for one in spread([*seconds]))),
                _more(with_stats),
                _more(same),
            )
        )
    header = ("a step after", "µs", "longer with stats, %", "another without, %")
    result.tables.append(Table("stats", header, rows))
    result.raw["found"] = found
    if not options.quick:
        ratios = {title: spread([one[1] for one in each])[0] for title, each in found.items()}
        batches = [ratio for title, ratio in ratios.items() if title.startswith("a batch")]
        result.claims = list[Claim](
            [
                at_most("an item with stats / without", ratios["an item, 0 additions"], MOST_TIMES),
                at_most(
                    "the most that stats add to a batch",
                    100 * (max(batches) - 1),
                    MOST_PERCENT,
                    "%",
                ),
            ]
        )
    return result


def _more(ratios: tuple[float, ...]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*spread([100 * (ratio - 1) for ratio in ratios]))
