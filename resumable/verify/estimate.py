"""Estimate how long a verification will take, from the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

PROCESSES_OF_RANKS: Final = 20
"""How many processes are started to try several ranks."""
RUNS_OF_RANKS: Final = 8
"""How many runs of the whole pipeline several ranks make together."""


class Estimate(NamedTuple):
    """How long the rest takes if nothing differs.

    Attributes:
      seconds: approximate time.
      positions: number of stops to resume from.
      fewer: a smaller number of stops, for `fewer_seconds`; None if ``positions`` is small already.
      cut_at: number of items compared, if the first run was stopped by time; otherwise None.
    """

    seconds: float
    positions: int
    fewer: int | None = None
    fewer_seconds: float | None = None
    cut_at: int | None = None


@final
@dataclass(frozen=True)
class ProcessCost:
    """What a fresh process costs.

    Attributes:
      start: seconds until the process has loaded the pipeline.
      items: number of items of a run.
      run: seconds of a run.
      reads_again: whether a resume reads all earlier items again.
      at_once: number of processes at the same time.
      shards: number of shards; each is resumed with other numbers of ranks.
      deals: whether items are dealt out to ranks; several ranks are then run too.
      restart: seconds until a process that resumes has loaded the pipeline; None for `start`.
    """

    start: float
    items: int
    run: float
    reads_again: bool = False
    at_once: int = 1
    shards: int = 0
    deals: bool = False
    restart: float | None = None

    def seconds(self, chains: Sequence[Sequence[int]]) -> float:
        """Seconds of the saving run, of ``chains`` of resumes, and of later measurements."""
        resuming = sum(map(self._of_chain, chains)) / max(min(self.at_once, len(chains)), 1)
        alone = self.start + self.run
        # The saving run, two runs for the costs, and a counting run; a shard takes five or more.
        once = resuming + 4 * alone + 6 * alone * self.shards
        if self.deals:  # ranks with a common checkpoint, and resuming ranks
            once += PROCESSES_OF_RANKS * self._start_again + RUNS_OF_RANKS * self.run
        return once

    def _of_chain(self, stops: Sequence[int]) -> float:
        ends = [*stops[1:], self.items]
        passed = sum(
            until - (0 if self.reads_again else stop)
            for stop, until in zip(stops, ends, strict=True)
        )
        return self._start_again * len(stops) + self.run * passed / max(self.items, 1)

    @property
    def _start_again(self) -> float:
        return self.start if self.restart is None else self.restart
