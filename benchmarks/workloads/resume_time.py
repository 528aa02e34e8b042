"""Seconds from a saved state to the next batch, over the position at which it was saved."""

# There are two works, and each loader is in those that it can do: everything is shuffled, and a stream is
# shuffled in a buffer.

from __future__ import annotations

import statistics
import time
from functools import partial
from itertools import islice
from typing import Any, Final

from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Series, Table
from benchmarks.resuming import BATCH, BUFFER, made, measured, plain
from benchmarks.timings import spread

MINUTES: Final = 12

POSITIONS = (10**2, 10**3, 10**4, 10**5, 10**6)
LONG = 5.0  # seconds; a restore that takes longer is not repeated
GLOBAL: Final = "everything shuffled"
BUFFERED: Final = f"a stream shuffled in a buffer of {BUFFER:,}"
WORKS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    GLOBAL: ("position", ()),
    BUFFERED: ("window", (BUFFER,)),
}
"""By title, the kind of loaders, and what their functions are given besides the length."""


def times_of(
    make: str, sizes: tuple[int, ...], positions: tuple[int, ...], rounds: int
) -> tuple[list[list[float]], bool]:
    """For each position, the seconds of each round; and whether the next batch was always right."""
    loader = made(make, *sizes, 2 * positions[-1])
    iterator, passed, exact = loader.start(), 0, True
    found: list[list[float]] = []
    for position in positions:
        batches = position // BATCH
        for _ in islice(iterator, batches - passed):
            pass
        passed = batches + 1
        saved = loader.save(iterator)
        expected = plain(next(iterator))
        seconds: list[float] = []
        while len(seconds) < rounds and sum(seconds) < LONG:
            began = time.perf_counter()
            batch = next(loader.restore(saved, batches))
            seconds.append(time.perf_counter() - began)
            exact &= plain(batch) == expected
        found.append(seconds)
    return found, exact


def run(options: Options) -> Result:
    """Measure all loaders that are installed."""
    positions = POSITIONS[:2] if options.quick else POSITIONS
    result = Result("resume_time", (__doc__ or "").partition("\n")[0])
    for work, (kind, sizes) in WORKS.items():
        rows: list[tuple[Any, ...]] = []
        raw: dict[str, Any] = {"exact": {}, "seconds": {}}
        lines = []
        for title, (make, python) in measured(options, kind).items():
            call = partial(
                in_fresh_process, times_of, make, sizes, positions, options.rounds, python=python
            )
            try:
                seconds, exact = options.journal.once(work, title, measure=call)
            except Exception as error:
                result.problems.append(f"{title}, {work}: {error}")
                continue
            rows.append((title, *map(_cell, seconds), "yes" if exact else "no"))
            lines.append(Series(title, [*positions], [statistics.median(each) for each in seconds]))
            raw["exact"][title] = "yes" if exact else "no"
            raw["seconds"][title] = dict(zip(map(str, positions), seconds, strict=True))
        result.tables.append(
            Table(
                f"{work}: milliseconds, by items handed out before",
                (
                    "contestant",
                    *(f"{position:,}" for position in positions),
                    "goes on with the same items",
                ),
                rows,
                NOTES.get(work, ()),
            )
        )
        result.series[work] = lines
        result.raw[work] = raw
    return result


NOTES: Final = {
    GLOBAL: (
        "torch's DataLoader has no state: it is started anew, and the batches already seen are passed over. "
        "MosaicML Streaming shuffles its own files in blocks.",
    ),
}


def _cell(seconds: list[float]) -> str:
    """Milliseconds: median, lower and upper quartile."""
    return "{:,.1f} ({:,.1f} to {:,.1f})".format(*(1e3 * each for each in spread(seconds)))
