"""The table of what each loader loses or repeats: ``python -m benchmarks.exactness [NAME ...]``.

Tries the loaders of `benchmarks.exact_loaders` whose packages this interpreter has, and prints a row for each.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version

from benchmarks.exact_loaders import CONTESTANTS, Contestant
from resumable.testing import LoaderReport, check_loader
from resumable.testing.loaders import LoaderDiffers

CASES = {
    "in an epoch": "epoch 0, after batch 15 of",
    "in a later epoch": "epoch 1, after batch",
    "last batch": "at the last batch",
    "after the epoch": "after the loop",
    "2 resumes": "2 resumes",
}


def main(names: list[str]) -> None:
    """Print a row for each loader, or for those whose functions are named."""
    print(f"| loader | version | {' | '.join(CASES)} | other workers | bytes |")
    print(f"| --- | --- |{' --- |' * (len(CASES) + 2)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RESUMABLE_EXACT_LOADERS"] = folder
        for one in CONTESTANTS:
            if names and one.make.__name__ not in names:
                continue
            try:
                known = version(one.distribution).partition("+")[0]
            except PackageNotFoundError:
                if one.distribution != "resumable-loader":
                    continue
                known = "this"
            print(f"| {one.title} | {known} | {' | '.join(_cells(one))} |", flush=True)


def _cells(one: Contestant) -> list[str]:
    if one.write is not None:
        one.write()
    try:
        report = check_loader(
            one.make, workers=(0, 2), ranks=(1,), positions=1, timeout=60, **one.options
        )
    except LoaderDiffers as error:
        report = error.report
    print(report, file=sys.stderr, flush=True)
    return [*(_outcome(report, case) for case in CASES.values()), _changed(report), _bytes(report)]


def _outcome(report: LoaderReport, case: str) -> str:
    """What came of a case without a change, for each number of workers if they differ."""
    found = [row for row in report.rows if row.case.startswith(case) and "→" not in row.change]
    return " / ".join(dict.fromkeys(row.outcome for row in found)) or "not tried"


def _changed(report: LoaderReport) -> str:
    found = [row.outcome for row in report.rows if "workers" in row.change and "→" in row.change]
    kinds = dict.fromkeys(outcome.partition(" ")[0].rstrip(",") for outcome in found)
    return " / ".join(sorted(kinds)) or "not tried"


def _bytes(report: LoaderReport) -> str:
    return f"{max((row.state_bytes or 0 for row in report.rows), default=0):,}"


if __name__ == "__main__":
    main(sys.argv[1:])
