"""What it costs to ask where the items of a step came from, far ahead and behind `pack`.

Run as ``python -m benchmarks.workloads.scripts.origins_cost`` in the root of the checkout.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import resumable as rs
from resumable.checkpoint.tracing import traced_step

ROUNDS = 21
FAR = 10**9
DOCUMENTS = 10**6
WINDOW = 1024


def far_ahead() -> None:
    """Step 10**9 of what is shuffled, mixed, dealt out and batched, of 10**12 items."""
    inputs = {name: rs.range(10**12).shuffle(seed=seed) for seed, name in enumerate("ab")}
    pipeline = rs.mix(inputs, weights=(7, 3), seed=0).shard(3, 8).batch(64)
    seconds = []
    for round_ in range(ROUNDS):
        started = time.perf_counter()
        (found,) = traced_step(rs.Memory(), pipeline.stage, FAR + round_, 3)
        seconds.append(time.perf_counter() - started)
        assert sum(1 for _ in found.origin.records()) == 64
    low, middle, high = statistics.quantiles(seconds, n=4)
    print(f"step {FAR:,}: {middle * 1e3:.2f} ms (quartiles {low * 1e3:.2f} to {high * 1e3:.2f})")


def behind_pack() -> None:
    """The step after a checkpoint, in the midst of a million packed documents."""
    read = 0

    def document(number: int) -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"tokens": [number] * (number % 100 + 1)}

    pipeline = (
        rs.range(DOCUMENTS).shuffle(seed=0).map(document).pack(256, key="tokens", window=WINDOW)
    )
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(50_000)) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            if checkpointer.step == 50_001:
                break
    read = 0
    started = time.perf_counter()
    traced_step(store, pipeline.stage, 50_001)
    took = time.perf_counter() - started
    print(f"behind pack: {read:,} documents read again, window={WINDOW}, {took * 1e3:.1f} ms")


if __name__ == "__main__":
    far_ahead()
    behind_pack()
