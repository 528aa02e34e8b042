"""Write results as JSON and as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.passes import LONGEST
from benchmarks.result import Options, Result, Table

__all__ = ["markdown", "write_json", "write_markdown"]


def write_json(path: Path, where: dict[str, str], results: list[Result], options: Options) -> None:
    """Everything that was measured."""
    content = {
        "machine": where,
        "rounds": options.rounds,
        "quick": options.quick,
        "results": [asdict(result) for result in results],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_markdown(
    path: Path, where: dict[str, str], results: list[Result], options: Options
) -> None:
    """The tables and claims for readers."""
    lines = ["# Side by side", ""]
    lines += [", ".join(f"{name} {value}" for name, value in where.items()) + ".", ""]
    lines += [
        f"Each configuration ran once in each of {options.rounds} rounds, in turns. A ratio is the "
        "median over the rounds; quartiles stand beside it. A pass is stopped "
        f"{LONGEST:g} s after its first item, and its time scaled to all items. MiB is the private memory of the "
        "contestant's process after its last pass.",
        "",
    ]
    if options.quick:
        lines += ["Small sizes (`--quick`): the figures say nothing.", ""]
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
    """Who, and the exception."""
    return f"{problem.partition(':')[0]}: {problem.strip().splitlines()[-1]}"


def _rows(table: Table) -> list[str]:
    cells = [table.header, *(tuple(map(str, row)) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]
