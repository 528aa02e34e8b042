"""`resumable bench`: the speed of a pipeline, the time of each stage, and the cost of a save.

Runs a pipeline as fast as possible, first unchanged, then with each stage timed. Then saves and resumes the
pipeline in the middle of the measured items. The share of a stage is the part of the loop's time in which the
loop waits for the stage; while prefetch waits for a thread, the time counts for the stage at work in the
thread. Executes the file or module. The exit status is 0, or 2 if the pipeline cannot be loaded or run.

Examples:
  resumable bench train.py
  resumable bench train.py:pipeline --seconds 20 --plot stages.png
  resumable bench train:make_pipeline --arg workers=4 --json > bench.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any, Final

from ..bench import BenchReport, brief, check_plot, draw, measure, percent
from ..bench.report import StageTime
from ..pipeline import Pipeline
from ..views.table import table_lines
from .output import print_outcome
from .progress import progress_bar
from .target import target_of
from .texts import show_duration

HEADINGS: Final = ("stage", "share", "per item", "bytes", "")
MOSTLY: Final = 0.5


def run(options: argparse.Namespace) -> int:
    """Measure the pipeline and print the outcome; returns the exit status."""
    if options.plot is not None:
        check_plot(options.plot)
    pipeline, target = loaded(options)
    report = measured(pipeline, target, options.seconds, options.items)
    print_outcome(options.json, report.as_json, _lines(report))
    if options.plot is not None:
        draw(report, options.plot)
    return 0


def loaded(options: argparse.Namespace) -> tuple[Pipeline[Any], str]:
    """The pipeline named by the command line, and the name.

    Output of the pipeline goes to standard error: only the outcome goes to standard output.
    """
    with redirect_stdout(sys.stderr):
        target = target_of(options)
        return target.load(), str(target)


def measured(
    pipeline: Pipeline[Any], target: str, seconds: float, items: int | None = None
) -> BenchReport:
    """Measure ``pipeline``, and show the progress."""
    with redirect_stdout(sys.stderr), progress_bar(None, unit="runs") as bar:

        def tell(text: str) -> None:
            bar.set_description(text)
            bar.update(1)

        return measure(pipeline, target=target, seconds=seconds, items=items, tell=tell)


def _lines(report: BenchReport) -> Iterator[str]:
    if report.stages:
        yield from table_lines([HEADINGS, *_rows(report)], "<>>>")
        yield ""
    notes = [("note", note) for note in report.notes]
    shown = [*figures(report), *figures_of_saving(report), *notes]
    yield from table_lines(shown, "<", "  ")
    yield ""
    yield f"  {report.advice}"


def _rows(report: BenchReport) -> Iterator[tuple[str, ...]]:
    shares = percent([stage.share for stage in report.stages])
    for stage, share in zip(report.stages, shares, strict=True):
        yield (
            brief(stage.stage),
            f"{share} %",
            show_duration(stage.seconds),
            "" if stage.bytes is None else str(stage.bytes),
            "in a thread" if stage.beside > MOSTLY else "",
        )


def work_of(stage: StageTime) -> str:
    """How long ``stage`` works for an item of the pipeline, and where, in words."""
    return show_duration(stage.seconds) + (" in a thread" if stage.beside > MOSTLY else "")


def figures(report: BenchReport) -> Iterator[tuple[str, str]]:
    """The names and figures of the speed."""
    more = "" if report.complete else ", and there are more"
    yield "items", f"{report.items:,} in {show_duration(report.seconds)}{more}"
    if report.items_per_second is not None:
        yield "items/s", report.rate
    if report.first_seconds is not None:
        yield "the first item, not counted there", show_duration(report.first_seconds)
    if report.cpu_share is not None:
        yield "computing", f"{report.cpu_share:.0%} of the time".replace("%", " %")
    if report.slowdown is not None:
        yield "with its stages timed", slowdown_text(report.slowdown)


def slowdown_text(slowdown: float) -> str:
    """How much slower the pipeline was with timed stages."""
    if slowdown >= 1:
        return f"{slowdown:.2f} times as slow; what timing takes is subtracted"
    return f"{1 / slowdown:.2f} times as fast" if slowdown > 0 else "in no time"


def figures_of_saving(report: BenchReport) -> Iterator[tuple[str, str]]:
    """The names and figures of a save and a resume."""
    saving = report.saving
    if saving is None:
        return
    yield "bytes of state", f"{saving.state_bytes:,} (after {saving.position:,} items)"
    yield "a get_state", f"{show_duration(saving.get_state_seconds)} (median)"
    yield "a durable save", f"{show_duration(saving.save_seconds)} (median)"
    yield "a resume, to its first item", show_duration(saving.resume_seconds)
    if saving.reread is not None:
        yield "source items read again on resume", f"{saving.reread:,}"
