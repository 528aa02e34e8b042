"""What a workload returns: tables, claims, and series for the plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.journal import Journal

__all__ = ["Claim", "Options", "Result", "Series", "Table", "at_least", "at_most", "skipped"]

TIMES = "times"


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
      folder: for data and other files that are removed afterwards.
      rounds: how often each configuration runs.
      quick: use small sizes, to see that everything works; the figures then mean nothing.
      peers: names of modules in ``benchmarks/peers``; None for all.
      journal: what the workload has measured so far.
    """

    folder: Path
    rounds: int = 5
    quick: bool = False
    peers: tuple[str, ...] | None = None
    journal: Journal = field(default_factory=Journal, compare=False)


@dataclass(frozen=True)
class Claim:
    """A line of the budget.

    Attributes:
      figure: what was measured; None if there was nothing to measure.
      met: whether it holds; None if nothing was measured.
    """

    text: str
    figure: float | None
    unit: str
    met: bool | None

    def __str__(self) -> str:
        word = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        figure = "" if self.figure is None else f" ({self.figure:,.4g} {self.unit})"
        return f"{word}: {self.text}{figure}"


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers under a heading, and sentences below them."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Measured points of one line in a plot of costs against size."""

    name: str
    sizes: list[int]
    values: list[float]


@dataclass
class Result:
    """The result of one workload.

    Attributes:
      ratios: for the plot of marks: for each work, each contestant's time as a multiple of the
        bare loop's, as median, lower and upper quartile.
      multiples: for the plot of operators: for each way and operator, what each variant is over,
        and its time as a multiple of the time by hand.
      series: for the plots against size, by the label of the vertical axis.
      problems: peers that crashed, with the reason.
      raw: everything measured, for the JSON file.
    """

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    ratios: dict[str, dict[str, tuple[float, float, float]]] = field(default_factory=dict)
    multiples: dict[str, dict[str, list[tuple[str, float]]]] = field(default_factory=dict)
    series: dict[str, list[Series]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, written: dict[str, Any]) -> Result:
        """A result as JSON has it."""
        tables = [
            Table(**{**each, "rows": [tuple(row) for row in each["rows"]]})
            for each in written["tables"]
        ]
        series = {
            label: [Series(**each) for each in several]
            for label, several in written["series"].items()
        }
        claims = [Claim(**each) for each in written["claims"]]
        return cls(**{**written, "tables": tables, "claims": claims, "series": series})


def skipped(name: str, title: str, reason: str) -> Result:
    """The result of a workload that cannot run here."""
    return Result(name, title, [Table("not measured", ("because",), [(reason,)])])


def at_most(text: str, figure: float | None, limit: float, unit: str = TIMES) -> Claim:
    """A claim that ``figure`` is no more than ``limit``."""
    met = None if figure is None else figure <= limit
    return Claim(f"{text} ≤ {limit:g} {unit}", figure, unit, met)


def at_least(text: str, figure: float | None, limit: float, unit: str = TIMES) -> Claim:
    """A claim that ``figure`` is no less than ``limit``."""
    met = None if figure is None else figure >= limit
    return Claim(f"{text} ≥ {limit:g} {unit}", figure, unit, met)
