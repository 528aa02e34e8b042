"""The seconds of all rounds of one work, and the ratios between contestants."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from benchmarks.delivered import Tally
from benchmarks.discovery import BARE, OURS
from benchmarks.result import Table

__all__ = ["Timings", "shown", "spread", "table_of"]


def spread(ratios: list[float]) -> tuple[float, float, float]:
    """Median and quartiles."""
    if len(ratios) == 1:
        return ratios[0], ratios[0], ratios[0]
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return statistics.median(ratios), lower, upper


def shown(values: list[float], digits: int) -> str:
    """A median with its quartiles in brackets."""
    median, lower, upper = spread(values)
    return f"{median:,.{digits}f} ({lower:,.{digits}f} to {upper:,.{digits}f})"


@dataclass(frozen=True)
class Timings:
    """The timings of one work.

    Attributes:
      items: how many are timed in each epoch.
      seconds: of each round, by the label of the configuration.
      owner: the name of the contestant's module, by label.
      unsupported: why a contestant cannot do the work, by label.
      crashed: the traceback of a contestant that failed, by label.
      memory: private bytes of each contestant's process after the last round.
      tallies: what was counted in an epoch, by label.
    """

    items: int
    seconds: dict[str, list[float]]
    owner: dict[str, str]
    unsupported: dict[str, str]
    crashed: dict[str, str]
    memory: dict[str, int]
    tallies: dict[str, Tally] = field(default_factory=dict)

    def ratio(self, label: str, other: str) -> tuple[float, float, float]:
        """Median and quartiles of the time of ``label`` as a multiple of that of ``other``."""
        pairs = zip(self.seconds[label], self.seconds[other], strict=True)
        return spread([mine / theirs for mine, theirs in pairs])

    @property
    def of_bare(self) -> float | None:
        """Our time as a multiple of the bare loop's."""
        ours = self._ours
        return self.ratio(ours, BARE)[0] if ours else None

    def of_peer(self, *peers: str) -> float | None:
        """The time of the best configuration of these peers as a multiple of ours."""
        found = [
            self.ratio(label, self._ours)[0]
            for label in self.seconds
            if self.owner[label] in peers and self._ours
        ]
        return min(found, default=None)

    @property
    def of_best_peer(self) -> float | None:
        """The time of the fastest configuration of any peer as a multiple of ours."""
        return self.of_peer(*(set(self.owner.values()) - {BARE, OURS}))

    def paddings(self, peer: str) -> list[float]:
        """The share of padding in each configuration of a contestant."""
        return [
            tally.padding
            for label, tally in self.tallies.items()
            if self.owner.get(label) == peer and tally.padding is not None
        ]

    @property
    def better(self) -> list[str]:
        """The label of each contestant's fastest configuration."""
        best: dict[str, str] = {}
        for label in sorted(self.seconds, key=lambda label: self.ratio(label, BARE)[0]):
            best.setdefault(self.owner[label], label)
        return list(best.values())

    @property
    def ours(self) -> list[float]:
        """Our seconds; empty if we cannot do the work."""
        return self.seconds.get(self._ours, [])

    @property
    def _ours(self) -> str:
        return next((label for label in self.seconds if self.owner[label] == OURS), "")


def table_of(title: str, timings: Timings) -> Table:
    """A row for each configuration, the fastest first, then who did not take part."""
    header: tuple[str, ...] = (
        "contestant",
        "items/s",
        "time ÷ bare",
        "time ÷ resumable",
        "MiB",
    )
    tokens = any(tally.padding is not None for tally in timings.tallies.values())
    if tokens:
        header += ("padding", "batches")
    rows: list[tuple[object, ...]] = []
    ours = timings._ours
    for label, seconds in sorted(
        timings.seconds.items(), key=lambda entry: statistics.median(entry[1])
    ):
        median, lower, upper = timings.ratio(label, BARE)
        of_ours = "{:.2f} ({:.2f} to {:.2f})".format(*timings.ratio(label, ours)) if ours else ""
        counted = _cells(timings.tallies[label]) if tokens else ()
        rows.append(
            (
                label,
                shown([timings.items / each for each in seconds], 0),
                f"{median:.2f} ({lower:.2f} to {upper:.2f})",
                of_ours,
                f"{timings.memory[timings.owner[label]] / 2**20:.0f}",
                *counted,
            )
        )
    rows += [(label, "crashed", *[""] * (len(header) - 2)) for label in timings.crashed]
    reasons = "; ".join(f"{label} ({reason})" for label, reason in timings.unsupported.items())
    notes = (f"Without those that cannot do it: {reasons}.",) if reasons else ()
    return Table(title, header, rows, notes)


def _cells(tally: Tally) -> tuple[str, str]:
    """What was counted of the tokens."""
    return f"{tally.padding:.2%}", f"{tally.number:,}"
