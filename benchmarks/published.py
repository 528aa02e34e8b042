"""Look up figures in the published results, and write them as pages have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.discovery import BARE, OURS, load, names
from benchmarks.report import Measured, read_json
from benchmarks.timings import spread

__all__ = ["NONE", "Published", "Ratios", "figure", "row_of", "table_of", "with_quartiles"]

RESULTS: Final = Path(__file__).parent / "results" / "results.json"
NONE: Final = "\N{EN DASH}"
"""Where there is no figure."""

Spread = tuple[float, float, float]
"""Median, lower and upper quartile."""


def figure(value: float) -> str:
    """Two or three digits of a figure."""
    digits = 2 if abs(value) < 1.995 else 1 if abs(value) < 9.95 else 0
    return f"{value:,.{digits}f}"


def with_quartiles(found: Spread) -> str:
    """A median with its quartiles in brackets."""
    median, lower, upper = map(figure, found)
    return f"{median} ({lower} to {upper})"


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [row_of(header), row_of(["---"] * len(header)), *map(row_of, rows)]
    return "\n".join(lines)


def row_of(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Ratios:
    """The seconds of all rounds of a race, by label, and whose labels they are."""

    seconds: Mapping[str, list[float]]

    def over(self, label: str, other: str) -> Spread:
        """The time of one as a multiple of another's."""
        pairs = zip(self.seconds[label], self.seconds[other], strict=True)
        return spread([mine / theirs for mine, theirs in pairs])

    def best(self, other: str = BARE) -> dict[str, Spread]:
        """The better configuration of each contestant but the bare loop, the fastest first."""
        found: dict[str, Spread] = {}
        for label in self.seconds:
            owner = label.partition(",")[0]
            ratio = self.over(label, other)
            if owner != BARE and (owner not in found or ratio < found[owner]):
                found[owner] = ratio
        return dict(sorted(found.items(), key=lambda entry: entry[1]))


class Published:
    """The published results.

    Args:
      path: of the file of results.
    """

    def __init__(self, path: Path = RESULTS) -> None:
        self.runs: list[Measured] = read_json(path)

    def raw(self, workload: str, *keys: str) -> Any:
        """What was measured, under ``keys``; of the first run that has it.

        Raises:
          KeyError: if no run has it.
        """
        for run in self.runs:
            for result in run.results:
                if result.name == workload:
                    found: Any = result.raw
                    for key in keys:
                        found = found.get(key) if isinstance(found, dict) else None
                    if found is not None:
                        return found
        raise KeyError(f"{workload}: {' / '.join(keys)} is in no published result")

    def by_title(self, workload: str, *keys: str) -> dict[str, Any]:
        """The entries of a dict in the raw results, of all runs together."""
        found: dict[str, Any] = {}
        for run in self.runs:
            for result in run.results:
                if result.name == workload:
                    here: Any = result.raw
                    for key in keys:
                        here = here.get(key, {})
                    found = {**here, **found}
        return found

    def race(self, workload: str, variant: str) -> Ratios:
        """The times of a race."""
        return Ratios(self.raw(workload, variant, "seconds"))

    def measured_in(self) -> dict[str, list[str]]:
        """The workloads of each run, by what is said of its machine and versions."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            said = ", ".join(f"{name} {value}" for name, value in run.machine.items())
            found.setdefault(said, []).extend(result.name for result in run.results)
        return found

    def runs_of(self, workload: str) -> list[Measured]:
        """The runs that have results of a workload."""
        return [run for run in self.runs if workload in {result.name for result in run.results}]


TITLES: Final = {name: load("peers", name).NAME for name in names("peers")} | {OURS: OURS}
"""What contestants are called, by module."""
