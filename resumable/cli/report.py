"""`resumable report`: a page with the graph, the time, the state and the verdict of a pipeline.

Writes one HTML page that loads nothing else: the graph of a pipeline with the state saved by each stage, the
share of the time that each stage takes, the size of the state and the cost of a save, and the verdict of
`resumable verify` if given. Measures the pipeline, unless --bench gives a measurement. Executes the file or
module. The exit status is 0, or 2 if the pipeline cannot be loaded or run, or a file cannot be read or written.

Examples:
  resumable report train.py -o report.html
  resumable verify train.py --json > verify.json
  resumable report train.py -o report.html --verify verify.json
"""

from __future__ import annotations

import argparse
from typing import Final

from ..bench import BenchReport, check_writable
from ..errors import InvalidArgument
from ..verify import Report
from .bench import loaded, measured
from .report_files import read_json_report
from .report_graph import check_same_stages, report_stages
from .report_page import PipelineReport

SECONDS: Final = 2.0
"""The longest time of a run of the measurement, if the user names none."""


def run(options: argparse.Namespace) -> int:
    """Write the page; returns the exit status."""
    if options.bench is not None and options.seconds is not None:
        raise InvalidArgument(
            f"--seconds is for a measurement that --bench replaces, got both --seconds "
            f"{options.seconds:g} and --bench {options.bench}"
        )
    check_writable(options.output)
    page = _reported(options).html()
    with open(options.output, "w", encoding="utf-8", newline="\n") as file:
        file.write(page)
    return 0


def _reported(options: argparse.Namespace) -> PipelineReport:
    # Files are read first: a mistake in a file is reported before any run.
    bench = verification = None
    if options.bench is not None:
        bench = read_json_report(options.bench, BenchReport, "--bench", "bench")
    if options.verify is not None:
        verification = read_json_report(options.verify, Report, "--verify", "verify")
    pipeline, target = loaded(options)
    stage = pipeline.stage
    if bench is not None and bench.stages:
        check_same_stages(stage, bench.stages[:-1], "--bench", options.bench)
    if verification is not None and verification.stages:
        check_same_stages(stage, verification.stages, "--verify", options.verify)
    if bench is None:
        seconds = SECONDS if options.seconds is None else options.seconds
        bench = measured(pipeline, target, seconds)
    sizes = verification.stages if verification is not None else ()
    return PipelineReport(target, report_stages(stage, bench, sizes), bench, verification)
