"""Measure what `stats` costs, and whether its share of waiting is right, on this machine.

Run as `python benchmarks/workloads/scripts/stats_cost.py`; it takes a minute or two. First, three iterators of one
pipeline take turns, one of which measures: for items that take longer and longer, and for batches. What is printed
is how much longer a turn of the one that measures takes than one of the first, as the median over many turns, and the same of
the third, which does not measure, so that it can be seen what the machine's noise makes. Then the worked example: an input that takes 20 or 5 ms an item against steps of 5, 15 and 23 ms,
alone, ahead in a thread, and in two threads and processes. The true share is that of the time in `next`, read from outside.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import resumable as rs  # noqa: E402

ROUNDS = 120
SECONDS_OF_TURN = 0.02
ENDLESS = 10**12


def increment(item: int) -> int:
    """Compute next to nothing."""
    return item + 1


def work(rounds: int) -> int:
    """A step of the loop."""
    total = 0
    for number in range(rounds):
        total += number
    return total


def turn(iterator: Iterator[Any], items: int, rounds: int) -> float:
    """Seconds for so many items, with a step after each."""
    began = time.perf_counter()
    if rounds:
        for _ in islice(iterator, items):
            work(rounds)
    else:
        deque(islice(iterator, items), maxlen=0)
    return time.perf_counter() - began


def cost(pipeline: rs.Pipeline[Any], rounds: int) -> tuple[float, float, float]:
    """Seconds for an item, and the ratios for an iterator that measures and for one that does not."""
    iterators = [iter(pipeline) for _ in range(3)]
    plain, measured, _ = iterators
    measured.measure()
    items = 16
    while turn(plain, items, rounds) < SECONDS_OF_TURN:
        items *= 2
    for one in iterators:
        turn(one, 4 * items, rounds)
    times: list[list[float]] = [[], [], []]
    for number in range(ROUNDS):
        for place in range(3):
            which = (number + place) % 3
            times[which].append(turn(iterators[which], items, rounds))
    ratios = [median(map(truediv, found, times[0])) for found in times]
    return median(times[0]) / items, ratios[1], ratios[2]


class Input:
    """A function that takes its time; it can be sent to processes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, item: int) -> int:
        time.sleep(self.seconds)
        return item


KINDS: dict[str, Callable[[rs.Pipeline[int], Input], rs.Pipeline[int]]] = {
    "alone": lambda numbers, read: numbers.map(read),
    "two threads": lambda numbers, read: numbers.map(read, workers=2),
    "prefetch": lambda numbers, read: numbers.map(read).prefetch(2),
    "two processes": lambda numbers, read: numbers.map(read, workers=2, executor="process"),
}


def shares(kind: str, seconds: float, step: float, steps: int = 100) -> tuple[float, float]:
    """The share that stats give, and that read from outside."""
    waited = 0.0
    with iter(KINDS[kind](rs.range(ENDLESS), Input(seconds))) as iterator:
        next(iterator)  # for which processes start
        iterator.measure()
        began = time.perf_counter()
        for _ in range(steps):
            called = time.perf_counter()
            next(iterator)
            waited += time.perf_counter() - called
            time.sleep(step)
        stats = iterator.stats()
        share = waited / (time.perf_counter() - began)
    return stats["wait_share"], share


def main() -> None:
    """Print the ratios, then the shares."""
    numbers = rs.range(ENDLESS).map(increment)
    for title, pipeline in (
        ("item by item: rs.range(n).map(f), a step of Python after each item", numbers),
        ("batches: rs.range(n).map(f).batch(256), a step of Python after each", numbers.batch(256)),
    ):
        print(title)
        for rounds in (0, 100, 1_000, 10_000):
            seconds, ratio, same = cost(pipeline, rounds)
            line = f"{1e6 * seconds:10,.2f} µs   {ratio:.4f} x with stats"
            print(f"  {line}   ({same:.4f} x for another one without)", flush=True)
    print("the worked example: input, step, share by stats, share from outside")
    worst = 0.0
    for kind in KINDS:
        for seconds in (0.020, 0.005):
            for step in (0.005, 0.015, 0.023):
                said, true = shares(kind, seconds, step)
                worst = max(worst, abs(said - true))
                line = f"{1e3 * seconds:3.0f} ms {1e3 * step:3.0f} ms   {said:6.1%}  {true:6.1%}"
                print(f"  {kind:14} {line}", flush=True)
    print(f"  largest difference: {100 * worst:.2f} points")


if __name__ == "__main__":
    main()
