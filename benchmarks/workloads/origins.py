"""What it costs to ask where the items of a step came from: far ahead, and behind `pack`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import resumable as rs
from benchmarks.result import Options, Result, Table
from benchmarks.timings import spread
from resumable.checkpoint.tracing import traced_step

MINUTES: Final = 1

FAR: Final = 10**9
DOCUMENTS: Final = 10**6
STEPS: Final = 50_000
WINDOW: Final = 1024
AGAIN: Final = 5
"""Questions in a round."""


def far_ahead(steps: int) -> list[float]:
    """Seconds to trace step ``steps`` of what is shuffled, mixed, dealt out and batched, of 10¹² items."""
    inputs = {name: rs.range(10**12).shuffle(seed=seed) for seed, name in enumerate("ab")}
    pipeline = rs.mix(inputs, weights=(7, 3), seed=0).shard(3, 8).batch(64)
    seconds = []
    for number in range(AGAIN):
        began = time.perf_counter()
        (found,) = traced_step(rs.Memory(), lambda _: pipeline.stage, steps + number, 3)
        seconds.append(time.perf_counter() - began)
        assert sum(1 for _ in found.origin.records()) == 64
    return seconds


def behind_pack(steps: int) -> tuple[int, list[float]]:
    """The documents read again for the step after a checkpoint, and the seconds to trace it."""
    read = 0

    def document(number: int) -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"tokens": [number] * (number % 100 + 1)}

    numbers = rs.range(DOCUMENTS).shuffle(seed=0).map(document)
    pipeline = numbers.pack(256, key="tokens", group=WINDOW)
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(steps)) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            if checkpointer.step == steps + 1:
                break
    seconds = []
    for _ in range(AGAIN):
        read = 0
        began = time.perf_counter()
        traced_step(store, lambda _: pipeline.stage, steps + 1)
        seconds.append(time.perf_counter() - began)
    return read, seconds


def run(options: Options) -> Result:
    """Ask in every round."""
    far, packed = (10**3, 100) if options.quick else (FAR, STEPS)
    ahead: list[float] = []
    behind: list[float] = []
    read = 0
    for turn in options.journal.turns(options.rounds):
        ahead += options.journal.once("ahead", turn, measure=_with(far_ahead, far))
        read, seconds = options.journal.once("behind", turn, measure=_with(behind_pack, packed))
        behind += seconds
    rows = [
        (f"step {far:,}, shuffled, mixed, dealt out and batched", 0, _milliseconds(ahead)),
        (
            f"step {packed + 1:,} behind `pack(group={WINDOW:,})`",
            f"{read:,}",
            _milliseconds(behind),
        ),
    ]
    table = Table("a question", ("", "items read again", "ms"), rows)
    raw = {"ahead": ahead, "behind": behind, "read": read}
    return Result("origins", (__doc__ or "").strip(), tables=[table], raw=raw)


def _with(fn: Callable[[int], Any], steps: int) -> Callable[[], Any]:
    return lambda: fn(steps)


def _milliseconds(seconds: list[float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*(1e3 * each for each in spread(seconds)))
