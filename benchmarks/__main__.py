"""Run workloads for `resumable`, the bare loop and every installed peer, side by side.

A run that was killed goes on with the same command: what was measured is kept after each measurement.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.discovery import is_installed, names
from benchmarks.environments import OWN, command_that_makes
from benchmarks.machine import machine
from benchmarks.plots import write_plots
from benchmarks.report import Measured, markdown, write_json, write_markdown
from benchmarks.result import Options, Result
from benchmarks.runs import code_digest, opened_run
from resumable.errors import NameInUse

PUBLISHED = Path("benchmarks/results")


def main() -> int:
    """Print and write the tables; returns the exit status.

    It is 1 if items differ, a workload or a contestant crashed, another process measures there, or a
    claim is not met and ``--strict`` is given.
    """
    arguments = _parse()
    place = (arguments.output / "run" / "data").absolute()
    options = Options(place, arguments.rounds, arguments.quick, arguments.peers)
    circumstances: dict[str, Any] = {
        "machine": machine(options.peers),
        "rounds": options.rounds,
        "quick": options.quick,
        "peers": None if options.peers is None else list(options.peers),
        "code": code_digest(),
    }
    _say(circumstances["machine"], options)
    try:
        return _measured(arguments, options, circumstances)
    except NameInUse as error:
        print(error, file=sys.stderr)
        return 1


def _say(where: dict[str, str], options: Options) -> None:
    print("\n".join(f"{name}: {value}" for name, value in where.items()), flush=True)
    for peer in {*OWN} & {*names("peers")}:
        if (options.peers is None or peer in options.peers) and not is_installed(peer):
            print(f"{peer} is left out; it is installed by: {command_that_makes(peer)}", flush=True)


def _measured(
    arguments: argparse.Namespace, options: Options, circumstances: dict[str, Any]
) -> int:
    folder: Path = arguments.output / "run"
    results: list[Result] = []
    failed: dict[str, str] = {}
    left = list(arguments.workloads)
    with opened_run(folder, options, circumstances, 60 * arguments.hours) as run:
        while left:
            name = left[0]
            print(f"\n## {name}\n", flush=True)
            try:
                result = run.result_of(name, left)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
                print(failed[name], file=sys.stderr, flush=True)
            else:
                results.append(result)
                print(markdown(result), flush=True)
            del left[0]
        place = folder if failed else arguments.output
        measured = Measured(
            circumstances["machine"],
            options.rounds,
            options.quick,
            time.strftime("%Y-%m-%d"),
            circumstances["code"],
            sorted(results, key=lambda result: result.name),
        )
        write_json(place / "results.json", [measured])
        write_markdown(place / "results.md", [measured])
        write_plots(place, measured.results)
    if not failed:
        shutil.rmtree(folder)
    if options.quick:
        print("Small sizes: the figures mean nothing.")
    print(f"The results are in {place}.")
    for name, reason in failed.items():
        print(f"{name} has no result: {reason}", file=sys.stderr)
    if failed:
        print("The same command tries that again, and measures nothing else.", file=sys.stderr)
    return 1 if failed else _status(results, arguments.strict)


def _status(results: list[Result], strict: bool) -> int:
    problems = [problem for result in results for problem in result.problems]
    for problem in problems:
        print(f"crashed: {problem}", file=sys.stderr)
    unmet = [claim for result in results for claim in result.claims if claim.met is False]
    return 1 if problems or (strict and unmet) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--workloads", type=_chosen("workloads"), default=names("workloads"), metavar="A,B"
    )
    parser.add_argument("--peers", type=_chosen("peers"), help="default: all that are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--hours",
        type=float,
        default=3.0,
        help="that all may take; each workload has its part, and fewer rounds if they do not fit",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, no claims")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder of the tables and plots (default: benchmarks/results for a whole run, else "
        "benchmarks/results/partial); what is measured is kept in its folder run until all is there",
    )
    parser.add_argument("--strict", action="store_true", help="fail if a claim is not met")
    arguments = parser.parse_args()
    whole = arguments.peers is None and list(arguments.workloads) == names("workloads")
    if arguments.output is None:
        publish = whole and not arguments.quick
        arguments.output = PUBLISHED if publish else PUBLISHED / "partial"
    return arguments


def _chosen(folder: str) -> Callable[[str], tuple[str, ...]]:
    """Parse names of modules, separated by commas; a hyphen stands for an underscore."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(name.strip().replace("-", "_") for name in text.split(",") if name.strip())
        if unknown := set(chosen) - set(names(folder)):
            raise argparse.ArgumentTypeError(
                f"unknown {', '.join(sorted(unknown))}; there are {', '.join(names(folder))}"
            )
        return chosen

    return parse


if __name__ == "__main__":
    sys.exit(main())
