"""Write results as JSON and as Markdown, and read them again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.epochs import LONGEST
from benchmarks.result import Result, Table

__all__ = ["Measured", "markdown", "read_json", "write_json", "write_markdown"]


@dataclass(frozen=True)
class Measured:
    """The results of one run.

    Attributes:
      machine: where it was, and the versions.
      rounds: at most, of each configuration.
      quick: whether the sizes were small, so that the figures mean nothing.
      date: when it ended.
      code: a digest of the code that was measured.
    """

    machine: dict[str, str]
    rounds: int
    quick: bool
    date: str
    code: str
    results: list[Result]


def write_json(path: Path, runs: list[Measured]) -> None:
    """Write everything that was measured."""
    content = {"runs": [asdict(run) for run in runs]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> list[Measured]:
    """Read what `write_json` wrote.

    Raises:
      OSError: if there is nothing to read.
    """
    return [
        Measured(**{**run, "results": [Result.read(written) for written in run["results"]]})
        for run in json.loads(path.read_text())["runs"]
    ]


def write_markdown(path: Path, runs: list[Measured]) -> None:
    """Write the tables and claims for readers."""
    lines = ["# Side by side", ""]
    lines += [
        "Each configuration ran once in each round, in turns. A ratio is the median over the rounds; the "
        f"quartiles are next to it. An epoch is stopped {LONGEST:g} s after its first item, and its time is "
        "scaled to all items. MiB is the most private memory of the contestant's process after an epoch.",
        "",
    ]
    for run in runs:
        lines += [", ".join(f"{name} {value}" for name, value in run.machine.items()) + ".", ""]
        code = f"; code {run.code}" if run.code else ""
        lines += [f"Measured {run.date}, in up to {run.rounds} rounds{code}.", ""]
        if run.quick:
            lines += ["Small sizes (`--quick`): the figures mean nothing.", ""]
        for result in run.results:
            lines += [f"## {result.name}", "", markdown(result)]
    path.write_text("\n".join(lines))


def markdown(result: Result) -> str:
    """Tables, claims and problems of one workload."""
    lines = [result.title, ""]
    for table in result.tables:
        lines += [f"### {table.title}", "", *_rows(table), ""]
        lines += [*table.notes, ""] if table.notes else []
    lines += [f"- {claim}" for claim in result.claims]
    lines += [f"- crashed: {_first_and_last(problem)}" for problem in result.problems]
    return "\n".join([*lines, ""])


def _first_and_last(problem: str) -> str:
    """The contestant and the exception."""
    return f"{problem.partition(':')[0]}: {problem.strip().splitlines()[-1]}"


def _rows(table: Table) -> list[str]:
    cells = [table.header, *(tuple(map(str, row)) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]
