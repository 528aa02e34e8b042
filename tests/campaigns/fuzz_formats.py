"""Damage files of every format in every way, read what is left, and count what comes of it.

Run it as ``PYTHONPATH=.:tests python -m campaigns.fuzz_formats --count 1000000 --seed 0``.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from campaigns.children import tried_in_children
from campaigns.damaged_files import COMPRESSED
from support.format_facts import FORMAT_FACTS, Target

__all__ = ["TARGETS", "Report", "fuzz"]


TARGETS: Final[Mapping[str, Target]] = {
    **FORMAT_FACTS.merged(lambda facts: facts.damaged() if facts.is_installed else {}),
    **COMPRESSED,
}


class Report(NamedTuple):
    """What came of a campaign.

    Attributes:
      counts: of files tried, of items, and of records refused.
      failures: what must not have happened, with the file in hexadecimal digits.
      slowest_seconds: of the processor, of one file.
    """

    counts: Counter[str]
    failures: list[str]
    slowest_seconds: float


def fuzz(target: Target, count: int, seed: int) -> Report:
    """Read ``count`` damaged files that follow from ``seed``."""

    real = target.real

    def damaged(number: int) -> bytes:
        return target.damaged(Random(f"{seed}/{number}"), real)

    def read(number: int) -> tuple[int, int] | str:
        try:
            return target.read(damaged(number), Path(folder))
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"

    counts, failures, slowest = Counter[str](), list[str](), 0.0
    with TemporaryDirectory() as folder:
        for number, tried in enumerate(tried_in_children(read, count)):
            counts["files"] += 1
            if isinstance(tried.result, list):
                good, bad = tried.result
                counts.update(items=good, refused=bad)
                slowest = max(slowest, tried.seconds)
            else:
                reason = tried.result or f"its process ended with {tried.status}"
                failures.append(f"{reason}: {damaged(number).hex()}")
    return Report(counts, failures, slowest)


def main() -> int:
    """Run a campaign for each format, print the reports; the exit status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="damaged files of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", default=sorted(TARGETS), choices=sorted(TARGETS))
    options = parser.parse_args()
    failed = False
    for name in options.formats:
        counts, failures, slowest = fuzz(TARGETS[name], options.count, options.seed)
        for failure in failures[:20]:
            print(failure)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        print(f"{name}: {dict(counts)}, failed {len(failures)}")
        print(f"slowest {slowest:.3f} s, peak {peak:.0f} MB", flush=True)
        failed |= bool(failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
