"""`resumable verify`: stop a pipeline anywhere, resume in fresh processes, and compare.

Makes a reference run of a pipeline, and saves a second run at random positions. Resumes from the checkpoint files
in fresh processes, stops and resumes there again, and also tries other numbers of workers and ranks and other
prefetch depths. If the pipeline deals items out to ranks, two ranks save one checkpoint together. Compares every
item; after a difference, finds the first stage at fault and the cause. If a function returns a loader of another
library, resumes the loader in fresh processes and prints a table of lost and repeated samples; of the options, --arg,
--items and --json apply then. Executes the file or module many times. The exit status is 0 if the
pipeline or loader is exact, 1 if not, 2 if it cannot be loaded or run.

Examples:
  resumable verify train.py
  resumable verify train.py:pipeline --items 1000
  resumable verify train:make_pipeline --arg seed=1 --positions 6 --json
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..testing.loaders import LoaderDiffers, check_loader
from ..verify import Estimate, Finding, Report, TargetError, verify
from ..views.table import table_lines
from .output import print_outcome
from .progress import progress_bar
from .target import target_of
from .texts import show_age

MOST_PROCESSES: Final = 4
LONG: Final = 20.0
"""From so many seconds on, the estimate says how to take less time."""


def run(options: argparse.Namespace) -> int:
    """Verify the pipeline and print the outcome; returns the exit status."""
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        report = verify(
            target_of(options),
            items=options.items,
            positions=options.positions,
            generations=options.generations,
            seed=options.seed,
            processes=min(os.cpu_count() or 1, MOST_PROCESSES),
            bars=_bar,
            tell=lambda estimate: print(estimate_text(estimate), file=sys.stderr, flush=True),
        )
    except TargetError as error:
        if error.make is None:
            raise
        return _check_loader(error.make, options)
    print_outcome(options.json, report.as_json, _lines(report))
    return 0 if report.exact else 1


def _check_loader(make: Callable[..., Any], options: argparse.Namespace) -> int:
    """Check a loader and print the table; returns the exit status."""
    try:
        report = check_loader(make, limit=options.items or 10_000)
    except LoaderDiffers as error:
        report = error.report
    print_outcome(options.json, report.as_json, str(report).splitlines())
    return 0 if report.exact else 1


@contextmanager
def _bar(text: str, total: int | None) -> Iterator[Callable[[int], object]]:
    with progress_bar(total, unit="") as bar:
        bar.set_description(text)
        yield bar.update


def estimate_text(estimate: Estimate) -> str:
    """The estimate as text, with ways to shorten a long time."""
    among = "" if estimate.cut_at is None else f" among the first {estimate.cut_at:,} items"
    text = (
        f"about {show_age(max(estimate.seconds, 1))} to go, for {estimate.positions} positions{among}; "
        "more if something differs"
    )
    if estimate.cut_at is not None:
        text = f"it has not ended so far, and nothing tells whether it does\n{text}"
    if estimate.seconds < LONG:
        return text
    if estimate.fewer_seconds is not None:
        text += f" (--positions {estimate.fewer}: about {show_age(max(estimate.fewer_seconds, 1))})"
    return f"{text}; --items N looks at the first N items only"


def _lines(report: Report) -> Iterator[str]:
    rows = [("stage", "bytes", "its part of the state")]
    for stage in report.stages:
        size = "?" if stage.bytes is None else str(stage.bytes)
        rows.append((stage.stage, size, stage.cost))
    yield from table_lines(rows, "<>")
    yield ""
    if report.resumed:
        yield from (f"  resumed {way}" for way in report.resumed)
        yield ""
    yield from table_lines([*figures(report)], "<", "  ")
    yield ""
    for suspicion in report.suspicions:
        yield f"  Look at this: {suspicion}"
    if report.finding is None:
        yield "  Nothing differs."
        return
    yield from finding_lines(report.finding)


def figures(report: Report) -> Iterator[tuple[str, str]]:
    """The names and figures of tries and measurements."""
    yield "items", f"{report.items:,}" + ("" if report.complete else ", and there are more")
    tried = f"{report.positions} of {report.planned}"
    if report.positions == report.planned:
        tried = str(report.positions or "none")
    yield "positions tried", tried
    if report.positions:
        yield "differences", str(report.differences)
    yield "fresh processes", str(report.processes)
    if report.reread is not None:
        yield "source items read again on resume", f"{report.reread:,} (most)"
    if report.state_bytes is not None:
        yield "bytes of state", f"{report.state_bytes:,} (most)"
    if report.get_state_seconds is not None:
        yield "a get_state", f"{report.get_state_seconds * 1e6:.1f} µs (median)"
    if report.resume_seconds is not None:
        yield "a resume, to its first item", f"{report.resume_seconds * 1e3:.2f} ms (median)"
    for line in report.left_out:
        yield "in and out", line
    for note in report.notes:
        yield "note", note


def finding_lines(finding: Finding) -> Iterator[str]:
    """Why the pipeline is not exact, as text."""
    yield f"  Not exact: {finding.reason}."
    yield f"  It first appears at {finding.stage} at {finding.path}."
    yield f"  {finding.evidence}"
    if finding.position is not None:
        yield f"    resumed after  {finding.position:,} items"
    if finding.item is not None:
        yield f"    item           {finding.item:,}, counted after that stage"
    if finding.expected is not None:
        yield f"    expected       {finding.expected}"
    if finding.item is not None:
        yield f"    got            {finding.got if finding.got is not None else 'nothing'}"
    yield f"  {finding.hint}"
    for failure in finding.unchecked:
        yield f"  Could not be checked: {failure}."
