"""Measure what `device_prefetch` of `resumable_torch` hides of the copies to a GPU, and what it costs next to a loop by hand.

Run as `PYTHONPATH=.:adapters python benchmarks/workloads/scripts/torch_prefetch_cost.py`, with PyTorch installed; it takes about a minute.
Four loops take turns: one that copies each batch when it is asked for, one over `device_prefetch`, one that copies ahead from
pinned memory in a stream of its own, written by hand, and one that has its batch on the device already. Without a GPU there is nothing to
copy, and the figures say what the Python of `device_prefetch` costs. All items are checked as they come.
"""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice, repeat
from operator import truediv
from statistics import median, quantiles
from typing import Any

import torch
from resumable_torch import PipelineDataset, ResumableDataLoader, device_prefetch

import resumable as rs

BATCHES = 16
SIZE = 2
STEPS_MS = (1, 5, 20)
TURNS = 60
STEPS_OF_TURN = 6


def pipeline(rows: int, features: int) -> rs.Pipeline[Any]:
    """Batches of zeros without end; the first element of each is its number."""
    batches = [torch.zeros(rows, features) for _ in range(BATCHES)]
    for number, batch in enumerate(batches):
        batch[0, 0] = number
    return rs.from_sequence(batches).repeat()


def loader(rows: int, features: int) -> ResumableDataLoader[Any]:
    """These batches by a loader without workers."""
    return ResumableDataLoader(PipelineDataset(pipeline(rows, features)), batch_size=None)


def in_line(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Copy each batch when it is asked for."""
    for batch in batches:
        yield batch.to(device)


def by_hand(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Copy ahead in a stream of its own, as in the recipes of PyTorch."""
    if device.type != "cuda":
        queue = deque(batch.to(device) for batch in islice(batches, SIZE))
        while queue:
            yield queue.popleft()
            queue.extend(batch.to(device) for batch in islice(batches, 1))
        return
    side: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    ahead: deque[Any] = deque()

    def copy_one() -> None:
        for batch in islice(batches, 1):
            with torch.cuda.stream(side):
                copied = batch.pin_memory().to(device, non_blocking=True)
                ahead.append((copied, side.record_event()))

    for _ in range(SIZE):
        copy_one()
    while ahead:
        copied, done = ahead.popleft()
        stream = torch.cuda.current_stream(device)
        stream.wait_event(done)
        copied.record_stream(stream)
        yield copied
        copy_one()


class Step:
    """A step that takes a while on the device.

    Args:
      device: where it runs.
      rounds: how many products it computes.
    """

    def __init__(self, device: torch.device, rounds: int) -> None:
        size = 2048 if device.type == "cuda" else 64
        self.weights = torch.rand(size, size, device=device) / size
        self.rounds = rounds

    def __call__(self, batch: Any) -> Any:
        """What tells which batch it was, with the work done after it."""
        product = self.weights
        for _ in range(self.rounds):
            product = product @ self.weights
        return batch[0, 0] + 0 * product[0, 0]


def synchronize(device: torch.device) -> None:
    """Wait until the device has nothing left to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def step_of(seconds: float, device: torch.device, batch: Any) -> Step:
    """A step that takes about so many seconds."""
    rounds = 1
    while rounds < 1 << 20:
        step = Step(device, rounds)
        step(batch)
        synchronize(device)
        began = time.perf_counter()
        step(batch)
        synchronize(device)
        took = time.perf_counter() - began
        if took > seconds:
            return Step(device, max(1, round(rounds * seconds / took)))
        rounds *= 2
    return Step(device, rounds)


def seconds_of_turns(
    loops: list[Iterator[Any]], step: Step, device: torch.device, *, check: list[bool]
) -> list[list[float]]:
    """The seconds a step of each loop in each turn."""
    times: list[list[float]] = [[] for _ in loops]
    taken = [0] * len(loops)
    for turn in range(TURNS):
        for place in range(len(loops)):
            which = (turn + place) % len(loops)
            synchronize(device)
            began = time.perf_counter()
            found = [step(batch) for batch in islice(loops[which], STEPS_OF_TURN)]
            synchronize(device)
            times[which].append((time.perf_counter() - began) / STEPS_OF_TURN)
            numbers = [int(one) for one in found]
            wanted = [(taken[which] + number) % BATCHES for number in range(STEPS_OF_TURN)]
            assert not check[which] or numbers == wanted, f"{numbers} in the place of {wanted}"
            taken[which] += STEPS_OF_TURN
    return [one[5:] for one in times]


def ratio(times: list[float], others: list[float]) -> str:
    """The ratio of two loops, as the median over turns with its quartiles."""
    low, middle, high = quantiles(map(truediv, times, others), n=4)
    return f"{middle:.3f} x ({low:.3f} to {high:.3f})"


def main() -> None:
    """Print every figure."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(f"Python {platform.python_version()}, PyTorch {torch.__version__}, {name}")
    rows, features = (8192, 1024) if device.type == "cuda" else (64, 128)
    print(f"{4e-6 * rows * features:.2f} MB a batch, {SIZE} ahead; ms a step")
    for milliseconds in STEPS_MS:
        first = next(iter(pipeline(rows, features)))
        step = step_of(milliseconds / 1e3, device, first.to(device))
        loops = [
            in_line(iter(pipeline(rows, features)), device),
            iter(device_prefetch(loader(rows, features), device, SIZE)),
            by_hand(iter(loader(rows, features)), device),
            repeat(first.to(device)),
        ]
        inline, ahead, hand, none = seconds_of_turns(
            loops, step, device, check=[True, True, True, False]
        )
        copies = median(inline) - median(none)
        hidden = (median(inline) - median(ahead)) / copies
        shown = (
            f"{hidden:.0%} of the copies hidden"
            if copies > 0.02 * median(none)
            else "no copies to speak of"
        )
        print(
            f"  step of {milliseconds:2}: in line {1e3 * median(inline):.2f}, device_prefetch {1e3 * median(ahead):.2f}, "
            f"by hand {1e3 * median(hand):.2f}, without copies {1e3 * median(none):.2f}; device_prefetch / by hand "
            f"{ratio(ahead, hand)}; {shown}",
            flush=True,
        )


if __name__ == "__main__":
    main()
