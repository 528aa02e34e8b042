"""Verify the example pipelines as a user would, and time each."""

# python -m campaigns.verify_examples, with PYTHONPATH=tests

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from support.command import run_command

EXAMPLES: Final = Path(__file__).parents[1] / "verify" / "examples.py"

# What is wrong with each, and the stage that `verify` must name.
EXPECTED: Final[dict[str, tuple[str, str] | None]] = {
    "images": None,
    "lines_on_disk": None,
    "stream": None,
    "ranks": None,
    "mixture": None,
    "language_model": None,
    "held_on_ranks": None,
    "unseeded": ("unseeded randomness", "Map(fn=with_noise)"),
    "timed": ("time", "Map(fn=stamped)"),
    "set_order": ("hash order", "Map(fn=words)"),
    "counting": ("function keeps state", "Map(fn=numbered)"),
    "growing_vocabulary": ("function keeps state", "Map(fn=looked_up)"),
    "growing_tokeniser": ("function keeps state", "Map(fn="),
    "growing_file": (
        "source changed",
        "LocatedLines(paths=PosixPath('growing.jsonl'), skip_blank=True)",
    ),
    "read_once": ("read once", "FromIterable("),
    "remembering_rank": ("function keeps state", "Map(fn=with_last)"),
    "changes_of_a_rank": ("takes the state of another rank", "Changes()"),
    "swapped_on_ranks": ("ranks differ", "Swapped()"),
    "pulled_in_two_ways": ("depends on how it is pulled", "Whimsical()"),
    "delivered_again": None,
}


def verified(
    name: str,
    *options: str,
    command: Callable[..., subprocess.CompletedProcess[str]] = run_command,
) -> tuple[int, dict[str, Any]]:
    """Exit status and report of ``resumable verify`` on an example, run in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = command(Path(folder), "verify", f"{EXAMPLES}:{name}", "--json", *options)
    if not done.stdout:
        raise AssertionError(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def problem(name: str, status: int, report: dict[str, Any]) -> str | None:
    """What is wrong with the verdict on an example, if anything is."""
    expected, finding = EXPECTED[name], report["finding"]
    if expected is None:
        return None if status == 0 and finding is None else f"status {status}: {finding}"
    if status != 1:
        return f"status {status}"
    reason, stage = expected
    if finding["reason"] != reason or not finding["stage"].startswith(stage):
        return f"expected {expected}, got {finding}"
    return None


def main() -> int:
    """Verify every example; returns 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(EXPECTED))
    wrong = 0
    for name in parser.parse_args().names:
        began = time.perf_counter()
        status, report = verified(name)
        seconds = time.perf_counter() - began
        finding = report["finding"]
        verdict = f"{finding['reason']}: {finding['stage']}" if finding else "exact"
        told = problem(name, status, report)
        wrong += told is not None
        print(f"{name:20} {seconds:5.1f} s  {verdict}{f'  WRONG: {told}' if told else ''}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
