"""Feed hostile bytes to every reader of checkpoints, and count what comes of it.

Run it as ``PYTHONPATH=.:tests python -m campaigns.fuzz_checkpoints --count 1000000 --seed 0``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from campaigns.hostile_bytes import GENERATORS, pipelines, real_checkpoints

import resumable as rs
from resumable.checkpoint import envelope
from resumable.checkpoint.reading import read_checkpoint
from resumable.state.value import State

__all__ = ["Report", "fuzz"]

REFUSALS = (rs.CorruptCheckpoint, rs.NewerFormat)


@dataclass(frozen=True)
class Report:
    """What came of a campaign.

    Attributes:
      tried: inputs.
      decoded: those that were read as a checkpoint.
      resumed: pairs of a decoded state and a pipeline that took it.
      refused: how often, by the name of the exception.
      failures: what must not have happened, with the input in hexadecimal digits.
      slowest_seconds: of one input, through all readers.
      peak_bytes: memory of the process at its largest.
    """

    tried: int
    decoded: int
    resumed: int
    refused: dict[str, int]
    failures: list[str]
    slowest_seconds: float
    peak_bytes: int


class Campaign:
    """Reads inputs in every way there is, and keeps count."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._iterators = [(iter(pipeline), iter(pipeline).get_state()) for pipeline in pipelines()]

    def attempt(
        self, data: bytes, allowed: tuple[type[Exception], ...], call: Callable[[], Any]
    ) -> Any:
        """What ``call`` returns; None if it raised, which is a failure unless it is ``allowed``."""
        try:
            return call()
        except allowed as error:
            self.counts[type(error).__name__] += 1
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {str(error)[:200]}: {data.hex()}")
        return None

    def read(self, data: bytes) -> None:
        """Read ``data`` as a checkpoint, as a state, and as the state of each pipeline."""
        self.attempt(data, REFUSALS, lambda: rs.loads(data[envelope.HEADER.size : -32]))
        store = rs.Memory()
        store.save(1, data)
        self.attempt(data, REFUSALS, lambda: read_checkpoint(store, 1))
        checkpoint = self.attempt(data, REFUSALS, lambda: envelope.decode(data))
        if checkpoint is None:
            return
        self.counts["decoded"] += 1
        self.attempt(data, (), lambda: envelope.encode(checkpoint))
        for iterator, start in self._iterators:
            self._resume(data, checkpoint.state, iterator, start)

    def _resume(
        self, data: bytes, state: State, iterator: rs.PipelineIterator[Any], start: State
    ) -> None:
        def resume() -> bool:
            iterator.set_state(state)
            return True

        if self.attempt(data, (rs.StateMismatch,), resume):
            self.counts["resumed"] += 1
        elif repr(iterator.get_state()) != repr(start):
            self.failures.append(f"a refused state left a trace: {data.hex()}")
        iterator.set_state(start)

    def close(self) -> None:
        for iterator, _ in self._iterators:
            iterator.close()


def fuzz(
    count: int, seed: int, progress: Callable[[int, int], None] = lambda tried, failed: None
) -> Report:
    """Read ``count`` inputs that follow from ``seed``.

    Args:
      count: of inputs.
      seed: of the choice of inputs.
      progress: called every 10,000 inputs with the number tried and the number of failures.
    """
    random, real, campaign = Random(seed), real_checkpoints(), Campaign()
    slowest = 0.0
    for number in range(count):
        data = GENERATORS[number % len(GENERATORS)](random, real)
        began = time.perf_counter()
        campaign.read(data)
        slowest = max(slowest, time.perf_counter() - began)
        if number % 10_000 == 9_999:
            progress(number + 1, len(campaign.failures))
    campaign.close()
    counts = campaign.counts
    return Report(
        tried=count,
        decoded=counts.pop("decoded", 0),
        resumed=counts.pop("resumed", 0),
        refused=dict(counts),
        failures=campaign.failures,
        slowest_seconds=slowest,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def main() -> int:
    """Run a campaign, print its report; the exit status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    def progress(tried: int, failed: int) -> None:
        if tried % 100_000 == 0:
            print(f"{tried:,} tried, {failed} failed", file=sys.stderr)

    report = fuzz(options.count, options.seed, progress)
    for failure in report.failures[:20]:
        print(failure)
    print(f"tried {report.tried:,}, decoded {report.decoded:,}, resumed {report.resumed:,}")
    print(f"refused {report.refused}, failed {len(report.failures)}")
    print(f"slowest {report.slowest_seconds:.3f} s, peak {report.peak_bytes / 1e6:.0f} MB")
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())
