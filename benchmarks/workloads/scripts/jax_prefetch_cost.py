"""Measure what `device_prefetch` costs against the same loop by hand, and what it hides of the copies.

Run as `PYTHONPATH=.:adapters python benchmarks/workloads/scripts/jax_prefetch_cost.py`, with JAX installed; it takes about two
minutes. Three loops take turns of a few milliseconds, so that other work on the machine slows all alike: one over `device_prefetch`, and two over the generator that Flax has for it, written by hand
over the same pipeline; the second of these tells what the machine's noise makes. Each reads its loss at each step, so nothing
hides the time of Python. The first line is of loops that only take their batches.
The processor's time of the loop's thread says what `device_prefetch` adds also where other work makes the clock useless. On a GPU, and with `--gpu`, batches of arrays have 32 MB. There a second part compares with a
loop that copies each batch in line and waits for it, and with one that has its batch on the device already.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from operator import sub, truediv
from statistics import median, quantiles
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from resumable_jax import DevicePrefetch, device_prefetch

import resumable as rs

STEPS_MS = 1, 5, 20
SECONDS_OF_TURN = 0.005
SECONDS_OF_TURNS = 6.0
LEAST_TURNS = 40
SIZE = 2
RECORDS = 2_000
STATES = 200

Times: TypeAlias = list[float]

ready: Callable[[Any], Any] = jax.block_until_ready


def arrays(rows: int, features: int, batches: int) -> rs.Pipeline[Any]:
    """Shuffled batches of arrays with random access, without end."""
    generator = np.random.default_rng(0)
    columns = {
        "x": generator.random((batches * rows, features), np.float32),
        "y": generator.random(batches * rows, np.float32),
    }
    return rs.from_arrays(columns).shuffle(0).batch(rows).repeat()


def parsed(line: str) -> dict[str, Any]:
    """One record of a stream."""
    record = json.loads(line)
    return {"x": np.array(record["x"], np.float32), "y": np.float32(record["y"])}


def stream(rows: int, features: int) -> rs.Pipeline[Any]:
    """Lines of JSON, parsed, shuffled in a window and batched, without end."""
    lines = [
        json.dumps({"x": [number % 7] * features, "y": number % 5}) for number in range(RECORDS)
    ]
    records = rs.from_iterable(lambda: iter(lines)).map(parsed)
    return records.shuffle(1, window=512).batch(rows, drop_last=True).repeat()


def _train(weights: Any, batch: Any, rounds: Any) -> tuple[Any, Any]:
    """A step that takes the longer, the more rounds it has."""

    def error(weights: Any) -> Any:
        return ((batch["x"] @ weights).mean(1) - batch["y"]).mean()

    loss, slope = jax.value_and_grad(error)(weights)
    drawn = jax.lax.fori_loop(0, rounds, lambda _, hidden: jnp.tanh(hidden @ weights), batch["x"])
    return weights - 1e-3 * slope, loss + 1e-9 * drawn.mean()


train = jax.jit(_train)


class Loop:
    """A loop that can be gone on with, and reads its loss at each step.

    Args:
      batches: what it goes over.
      features: columns of ``x``.
      rounds: of each step; None for a loop that only takes its batches.
    """

    def __init__(self, batches: Iterator[Any], features: int, rounds: int | None) -> None:
        self._batches = batches
        self._rounds = rounds
        self._weights = jnp.eye(features) / 2

    def run(self, steps: int) -> tuple[float, float]:
        """Seconds for so many steps, and those in which the processor ran this thread."""
        began, ran = time.perf_counter(), time.thread_time()
        for batch in islice(self._batches, steps):
            if self._rounds is None:
                ready(batch)
            else:
                self._weights, loss = train(self._weights, batch, self._rounds)
                loss.block_until_ready()
        return time.perf_counter() - began, time.thread_time() - ran


def by_hand(iterator: Iterator[Any], size: int) -> Iterator[Any]:
    """Do as `flax.jax_utils.prefetch_to_device`, for one device."""
    queue: deque[Any] = deque()

    def enqueue(count: int) -> None:
        for batch in islice(iterator, count):
            queue.append(jax.device_put(batch))

    enqueue(size)
    while queue:
        yield queue.popleft()
        enqueue(1)


def in_line(iterator: Iterator[Any]) -> Iterator[Any]:
    """Copy each batch when it is asked for, and wait for it."""
    for batch in iterator:
        yield ready(jax.device_put(batch))


def rounds_for(seconds: float, features: int, batch: Any) -> int:
    """How many rounds make a step of so many seconds."""

    def step(rounds: int) -> float:
        loop = Loop(repeat(jax.device_put(batch)), features, rounds)
        return min(loop.run(1)[0] for _ in range(10))

    low, rounds = step(1), 1
    while (found := step(rounds)) < seconds:
        rounds *= 2
    if rounds == 1:
        return 1
    return max(1, round(rounds * (seconds - low) / max(found - low, 1e-9)))


def taken_in_turns(loops: list[Loop], most_seconds: float) -> tuple[list[Times], list[Times]]:
    """The seconds a step in each turn of each loop, by the clock and by the processor's."""
    once = min(loop.run(1)[0] for loop in loops for _ in range(5))
    steps = max(1, round(SECONDS_OF_TURN / once))
    times: list[Times] = [[] for _ in loops]
    ran: list[Times] = [[] for _ in loops]
    until = time.perf_counter() + most_seconds
    while time.perf_counter() < until or len(times[0]) < LEAST_TURNS:
        turn = len(times[0])
        for place in range(len(loops)):
            which = (turn + place) % len(loops)
            passed, running = loops[which].run(steps)
            times[which].append(passed / steps)
            ran[which].append(running / steps)
    return times, ran


def described(times: list[float], others: list[float]) -> str:
    """The ratio of two loops, as the median over turns with its quartiles."""
    low, middle, high = quantiles(map(truediv, times, others), n=4)
    return f"{middle:.4f} x ({low:.4f} to {high:.4f})"


def costs(
    pipeline: rs.Pipeline[Any], most_seconds: float
) -> Iterator[tuple[int | None, DevicePrefetch, list[Times], list[Times]]]:
    """For steps of each length, what `device_prefetch` and both loops by hand take; see `taken_in_turns`."""
    with iter(pipeline) as iterator:
        batch = next(iterator)
    features = batch["x"].shape[1]
    for milliseconds in (None, *STEPS_MS):
        rounds = milliseconds and rounds_for(milliseconds / 1e3, features, batch)
        ahead = device_prefetch(iter(pipeline), SIZE)
        sources = [ahead, by_hand(iter(pipeline), SIZE), by_hand(iter(pipeline), SIZE)]
        loops = [Loop(source, features, rounds) for source in sources]
        yield milliseconds, ahead, *taken_in_turns(loops, most_seconds)


def cost(title: str, pipeline: rs.Pipeline[Any], most_seconds: float) -> None:
    """Print what `device_prefetch` costs for steps of each length."""
    with iter(pipeline) as iterator:
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(next(iterator)))
    print(f"{title}, {size / 1e6:.2f} MB a batch: device_prefetch / by hand (by hand / by hand)")
    for milliseconds, newest, times, ran in costs(pipeline, most_seconds):
        ahead = newest
        (ours, theirs, same), (our_processor, their_processor, _) = times, ran
        low, more, high = quantiles(map(sub, our_processor, their_processor), n=4)
        step = f"step of {milliseconds:2} ms" if milliseconds else "no step     "
        print(
            f"  {step}: {described(ours, theirs)}   [{described(same, theirs)}]; by hand "
            f"{1e6 * median(theirs):,.0f} µs, of which the processor runs the loop for {1e6 * median(their_processor):,.0f}, "
            f"and {1e6 * more:+.1f} ({1e6 * low:+.1f} to {1e6 * high:+.1f}) with device_prefetch: "
            f"{1 + more / median(theirs):.4f} x; {len(ours)} turns",
            flush=True,
        )
    print(f"  get_state: {1e6 * seconds_of_states(ahead):.0f} µs", flush=True)


def seconds_of_states(ahead: DevicePrefetch) -> float:
    """The median time of a state, where one is taken after each batch."""
    found = []
    for _ in islice(ahead, STATES):
        began = time.perf_counter()
        ahead.get_state()
        found.append(time.perf_counter() - began)
    return median(found)


def overlap(rows: int, features: int, batches: int, most_seconds: float) -> None:
    """Print how much of the copies goes on while the loop computes."""
    pipeline = rs.from_arrays(
        {
            "x": np.zeros((batches * rows, features), np.float32),
            "y": np.zeros(batches * rows, np.float32),
        }
    )
    pipeline = pipeline.batch(rows).repeat()
    with iter(pipeline) as iterator:
        batch = next(iterator)
    print("copies and steps: in line, with device_prefetch, without any copy")
    for milliseconds in STEPS_MS:
        rounds = rounds_for(milliseconds / 1e3, features, batch)
        sources: list[Iterator[Any]] = [
            in_line(iter(pipeline)),
            device_prefetch(iter(pipeline), SIZE),
            repeat(jax.device_put(batch)),
        ]
        loops = [Loop(source, features, rounds) for source in sources]
        times, _ = taken_in_turns(loops, most_seconds)
        inline, ahead, none = (1e3 * median(found) for found in times)
        copies = inline - none
        hidden = (
            f"{(inline - ahead) / copies:.0%}" if copies > 0.02 * none else "nothing to speak of"
        )
        print(
            f"  step of {milliseconds:2} ms: {inline:.2f}, {ahead:.2f}, {none:.2f} ms; of what copies cost, "
            f"{hidden} is hidden; device_prefetch / in line {described(times[1], times[0])}",
            flush=True,
        )


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="large batches, also elsewhere")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS_OF_TURNS, help="of each comparison, at least"
    )
    options = parser.parse_args()
    device = jax.devices()[0]
    is_large = options.gpu or device.platform == "gpu"
    print(
        f"Python {platform.python_version()}, JAX {jax.__version__}, NumPy {np.__version__}, "
        f"{device.platform}: {device.device_kind}, {jax.device_count()} of them"
    )
    rows, features, batches = (8192, 1024, 4) if is_large else (64, 128, 64)
    cost("arrays, shuffled", arrays(rows, features, batches), options.seconds)
    cost("stream of JSON, window shuffle", stream(64, 128), options.seconds)
    if is_large:
        overlap(rows, features, batches, options.seconds)


if __name__ == "__main__":
    main()
