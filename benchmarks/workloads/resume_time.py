"""Seconds from a saved state to the next batch, over the position at which it was saved."""

from __future__ import annotations

import statistics
import time
from itertools import islice

from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Series, Table
from benchmarks.resuming import BATCH, made, measured, plain

POSITIONS = (10**2, 10**3, 10**4, 10**5, 10**6)
LONG = 5.0  # seconds; a restore that takes longer is not repeated


def times_of(
    make: str, positions: tuple[int, ...], rounds: int
) -> tuple[dict[int, list[float]], bool]:
    """For each position, the seconds of each round and whether the next batch was always right."""
    loader = made(make, 2 * positions[-1])
    iterator, passed, exact = loader.start(), 0, True
    found: dict[int, list[float]] = {}
    for position in positions:
        batches = position // BATCH
        for _ in islice(iterator, batches - passed):
            pass
        passed = batches + 1
        saved = loader.save(iterator)
        expected = plain(next(iterator))
        seconds = found[position] = []
        while len(seconds) < rounds and sum(seconds) < LONG:
            began = time.perf_counter()
            batch = next(loader.restore(saved, batches))
            seconds.append(time.perf_counter() - began)
            exact &= plain(batch) == expected
    return found, exact


def run(options: Options) -> Result:
    """Measure all loaders that are installed."""
    positions = POSITIONS[:2] if options.quick else POSITIONS
    measurements = {
        title: in_fresh_process(times_of, make, positions, options.rounds)
        for title, make in measured(options, "position").items()
    }
    seconds = {title: times for title, (times, _) in measurements.items()}
    exact = {title: "yes" if same else "no" for title, (_, same) in measurements.items()}
    medians = {
        title: [statistics.median(each) for each in times.values()]
        for title, times in seconds.items()
    }
    table = Table(
        "milliseconds, by items handed out before",
        ("contestant", *(f"{position:,}" for position in positions), "goes on with the same items"),
        [
            (title, *(f"{1e3 * each:,.1f}" for each in times), exact[title])
            for title, times in medians.items()
        ],
        (
            "Everything is shuffled where the loader can resume that, else a buffer of 10,000. "
            "torch's DataLoader has no state: it is started anew, and the batches already seen are "
            "passed over.",
        ),
    )
    lines = [Series(title, [*positions], times) for title, times in medians.items()]
    return Result(
        "resume_time",
        (__doc__ or "").strip(),
        tables=[table],
        series={"seconds": lines},
        raw={"exact": exact, "seconds": seconds},
    )
