"""Write results as JSON and as Markdown, and read them again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.epochs import LONGEST
from benchmarks.result import Claim, Options, Result, Series, Table

__all__ = ["OtherCircumstances", "markdown", "read_json", "write_json", "write_markdown"]


class OtherCircumstances(Exception):
    """Results are from another machine, other versions, sizes or rounds."""


def write_json(path: Path, where: dict[str, str], results: list[Result], options: Options) -> None:
    """Write everything that was measured."""
    content = {
        **_circumstances(where, options),
        "results": [asdict(result) for result in results],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path, where: dict[str, str], options: Options) -> list[Result]:
    """Read what `write_json` wrote.

    Raises:
      OtherCircumstances: if it was measured on another machine or in another way.
      OSError: if there is nothing to read.
    """
    content = json.loads(path.read_text())
    for name, here in _circumstances(where, options).items():
        if content[name] != here:
            raise OtherCircumstances(f"{path} has the {name} {content[name]}, not {here}")
    return [_result(written) for written in content["results"]]


def _circumstances(where: dict[str, str], options: Options) -> dict[str, Any]:
    return {"machine": where, "rounds": options.rounds, "quick": options.quick}


def _result(written: dict[str, Any]) -> Result:
    series = {
        label: [Series(**each) for each in several] for label, several in written["series"].items()
    }
    tables = [Table(**each) for each in written["tables"]]
    claims = [Claim(**each) for each in written["claims"]]
    return Result(**{**written, "tables": tables, "claims": claims, "series": series})


def write_markdown(
    path: Path, where: dict[str, str], results: list[Result], options: Options
) -> None:
    """Write the tables and claims for readers."""
    lines = ["# Side by side", ""]
    lines += [", ".join(f"{name} {value}" for name, value in where.items()) + ".", ""]
    lines += [
        f"Each configuration ran once in each of {options.rounds} rounds, in turns. A ratio is the "
        "median over the rounds; the quartiles are beside it. An epoch is stopped "
        f"{LONGEST:g} s after its first item, and its time is scaled to all items. MiB is the "
        "private memory of the contestant's process after its last epoch. All contestants of a "
        "workload are from one run; the workloads may be from several runs, on the same machine "
        "with the same versions.",
        "",
    ]
    if options.quick:
        lines += ["Small sizes (`--quick`): the figures mean nothing.", ""]
    for result in results:
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
