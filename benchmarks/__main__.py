"""Run workloads for `resumable`, the bare loop and every installed peer, side by side."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.digest import MultisetsDiffer
from benchmarks.discovery import load, names
from benchmarks.machine import machine
from benchmarks.plots import write_plots
from benchmarks.report import (
    OtherCircumstances,
    markdown,
    read_json,
    write_json,
    write_markdown,
)
from benchmarks.result import Options, Result


def main() -> int:
    """Print and write the tables; returns the exit status.

    It is 1 if items differ, a contestant crashed, there is nothing to update, or a claim is not met
    and ``--strict`` is given.
    """
    arguments = _parse()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resumable-benchmarks-") as folder:
        options = Options(Path(folder), arguments.rounds, arguments.quick, arguments.peers)
        where = machine(options.peers)
        print("\n".join(f"{name}: {value}" for name, value in where.items()), flush=True)
        results: dict[str, Result] = {}
        if arguments.update:
            try:
                before = read_json(arguments.output / "results.json", where, options)
            except (OSError, OtherCircumstances) as error:
                print(f"Nothing to update: {error}.", file=sys.stderr)
                return 1
            results = {result.name: result for result in before}
        for name in arguments.workloads:
            print(f"\n## {name}\n", flush=True)
            try:
                result: Result = load("workloads", name).run(options)
            except MultisetsDiffer as error:
                print(f"The items differ: {error}.", file=sys.stderr)
                return 1
            results[name] = result
            print(markdown(result), flush=True)
            _write(arguments.output, where, [results[name] for name in sorted(results)], options)
    if arguments.quick:
        print("Small sizes: the figures mean nothing.")
    print(f"The results are in {arguments.output}.")
    return _status([results[name] for name in arguments.workloads], arguments.strict)


def _write(folder: Path, where: dict[str, str], results: list[Result], options: Options) -> None:
    write_json(folder / "results.json", where, results, options)
    write_markdown(folder / "results.md", where, results, options)
    write_plots(folder, results)


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
    parser.add_argument("--quick", action="store_true", help="small sizes, no claims")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder of the tables and plots (default: benchmarks/results for a whole run and with "
        "--update, else benchmarks/results/partial)",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="keep the results of the other workloads from the last whole run; the machine, the "
        "versions and the rounds must be the same",
    )
    parser.add_argument("--strict", action="store_true", help="fail if a claim is not met")
    arguments = parser.parse_args()
    if arguments.update and arguments.peers is not None:
        parser.error("--update needs all peers, so it cannot be used with --peers")
    whole = arguments.peers is None and arguments.workloads == names("workloads")
    if arguments.output is None:
        published = Path("benchmarks/results")
        publish = (whole or arguments.update) and not arguments.quick
        arguments.output = published if publish else published / "partial"
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
