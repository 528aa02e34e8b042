"""`resumable demo`: train on real text, be killed at random, and lose nothing.

Trains a small language model on lines of text, once without interruption and once killed by SIGKILL at random
moments. Compares the lines seen by the two trainings, and the weights.

Examples:
  resumable demo
  resumable demo --kills 20 --steps 200
  resumable demo --partitions 8 --keep run
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from .. import from_files
from .. import pipeline as rs
from ..errors import InvalidArgument, ResumableError
from ..views.table import table_lines
from .bigram_model import BigramModel, ModelSaver
from .demo_training import Settings
from .parsers import BATCH_SIZE
from .progress import ProgressBar, progress_bar
from .texts import explain

MOST_WORKERS: Final = 4
"""With partitions, each start has one more worker than the start before, and none after three."""

LATEST_KILL_DELAY: Final = 0.02
"""The kill comes up to this many seconds after the chosen step, in a step, a save or a start."""


def run(options: argparse.Namespace) -> int:
    """Run the demo; returns 0 only if nothing was lost or repeated and the weights agree."""
    files = _files(options.data)
    if not files:
        raise InvalidArgument(f"no text file found: {options.data or 'name some with --data'}")
    if options.keep is None:
        with TemporaryDirectory(prefix="resumable-demo-", ignore_cleanup_errors=True) as name:
            return _compare(options, files, Path(name))
    folder = Path(options.keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise InvalidArgument(f"--keep cannot be used: {explain(error)}") from error
    if not empty:
        raise InvalidArgument(f"--keep must be an empty folder, got {folder}")
    return _compare(options, files, folder)


class TrainingFailed(ResumableError):
    """The training process ended with an error, without being killed."""


@dataclass
class _DemoRun:
    """The reports of the training processes of a run."""

    step: int = 0
    killed_at: list[int] = field(default_factory=list)
    saves: list[float] = field(default_factory=list)
    resumes: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)


def _files(pattern: str | None) -> list[str]:
    if pattern is not None:
        found = glob.glob(os.path.expanduser(pattern), recursive=True)
    else:
        library = sysconfig.get_paths()["stdlib"]
        found = [
            path
            for path in glob.glob(os.path.join(glob.escape(library), "**", "*.py"), recursive=True)
            if "site-packages" not in path and "dist-packages" not in path
        ]
    return sorted(path for path in found if os.path.isfile(path))


def _compare(options: argparse.Namespace, files: list[str], folder: Path) -> int:
    started = time.perf_counter()
    index_dir = str(folder / "index")
    lines = len(from_files.lines(files, encoding=None, index_dir=index_dir))
    if not lines:
        raise InvalidArgument("the text files hold no line")
    settings = Settings(
        files=files,
        folder=str(folder / "uninterrupted"),
        index_dir=index_dir,
        steps=options.steps,
        epochs=None if options.steps else 1,
        every=options.every,
        seed=options.seed,
        partitions=options.partitions,
    )
    steps = options.steps or len(settings.batches(rs.range(lines)))
    whole = replace(settings, steps=steps)
    print(f"{lines:,} lines of {len(files):,} files, {steps:,} steps of {BATCH_SIZE} lines")
    killed = replace(whole, folder=str(folder / "killed"))
    chosen = random.Random(options.seed)
    kills = sorted(chosen.choices(range(1, max(2, steps)), k=options.kills))
    with progress_bar(2 * steps) as bar:
        bar.set_description("uninterrupted run")
        _train(whole, [], bar)
        bar.set_description(f"run with {len(kills)} kills")
        report = _train(killed, kills, bar)
    return _print_table(
        _final_model(whole, lines), _final_model(killed, lines), report, lines, started
    )


def _train(settings: Settings, kills: list[int], bar: ProgressBar) -> _DemoRun:
    """Train to the end, and kill the process just after each step in ``kills``."""
    report = _DemoRun()
    delays = random.Random(settings.seed + 1)
    pending = list(kills)
    while True:
        killed = False
        if settings.partitions is not None:
            report.workers.append(len(report.workers) % MOST_WORKERS)
            settings = replace(settings, workers=report.workers[-1])
        with _started(settings) as process:
            for event in _events(process):
                if event["event"] == "done":
                    process.wait()
                    return report
                _record(report, event, bar)
                if pending and report.step >= pending[0]:
                    time.sleep(delays.uniform(0, LATEST_KILL_DELAY))
                    process.kill()
                    killed = True
                    break
            # Everything reported before the death of the process counts as done.
            for event in _events(process):
                _record(report, event, bar)
        if not killed:
            raise TrainingFailed(
                "the training process failed:\n"
                f"it ended with status {process.returncode} at step {report.step}"
            )
        pending.pop(0)
        report.killed_at.append(report.step)
        bar.set_description(f"killed at step {report.step}")


def _started(settings: Settings) -> subprocess.Popen[str]:
    # In a file, because a command line cannot hold the names of many files.
    path = Path(settings.folder).with_suffix(".json")
    path.write_text(json.dumps(asdict(settings)), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "resumable.cli.demo_training", str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )


def _events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):  # the kill may cut the last line short
            yield json.loads(line)


def _record(report: _DemoRun, event: dict[str, Any], bar: ProgressBar) -> None:
    if event["event"] == "saved":
        report.saves.append(event["seconds"])
        report.sizes.append(event["bytes"])
    elif event["event"] == "resumed":
        report.resumes.append(event["seconds"])
    if event["event"] in ("step", "resumed"):
        bar.update(event["step"] - report.step)
        report.step = event["step"]


def _final_model(settings: Settings, lines: int) -> BigramModel:
    model = BigramModel(lines)
    model.load(ModelSaver(model, Path(settings.folder)).path(settings.steps))
    return model


def _print_table(
    whole: BigramModel, killed: BigramModel, report: _DemoRun, lines: int, started: float
) -> int:
    difference = killed.seen - whole.seen
    lost, repeated = int(-difference[difference < 0].sum()), int(difference[difference > 0].sum())
    identical = whole.weights.tobytes() == killed.weights.tobytes()
    restart = sum(step * BATCH_SIZE % lines for step in report.killed_at)
    workers = ", ".join(map(str, report.workers))
    rows = [
        ("lines seen", f"{int(killed.seen.sum()):,}"),
        ("lines lost", f"{lost:,}"),
        ("lines repeated", f"{repeated:,}"),
        ("final weights bit-identical", "yes" if identical else "NO"),
        ("killed at steps", ", ".join(map(str, report.killed_at)) or "none"),
        *([("workers at each start", workers)] if workers else []),
        ("a checkpoint of the input", f"{max(report.sizes)} bytes"),
        ("a durable save of it", _milliseconds(report.saves)),
        ("a resume from it", _milliseconds(report.resumes)),
        ("restarting the epoch instead", f"would have repeated {restart:,} lines"),
        ("time of the demo", f"{time.perf_counter() - started:.1f} s"),
    ]
    exact = lost == 0 and repeated == 0 and identical
    verdict = "  Nothing was lost or repeated." if exact else "  The runs DIFFER."
    print("", *table_lines(rows, "<", "  "), "", verdict, sep="\n")
    return 0 if exact else 1


def _milliseconds(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.2f} ms (median)" if seconds else "none"
