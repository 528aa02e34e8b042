"""Chains of generations: a run is stopped, resumed, and stopped again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, cast, final

from ..core.graph import Variation
from .conditions import Conditions
from .processes import TaskOutcome, TaskProcesses
from .runs import Digests
from .work import ResumedRun, resumed

FIRST_HASH_SEED: Final = 2
"""Hash seed of the first generation of a chain; each generation adds 1."""
EVERYWHERE: Final = 40
"""Most items of a run that is also resumed in one process at every position."""
MOST_EVERYWHERE: Final = 400
"""The most positions at which a longer run is resumed in one process."""


class Link(NamedTuple):
    """A resume: the chain, the position, the tuning, and the outcome."""

    chain: int
    position: int
    way: Variation
    outcome: TaskOutcome

    @property
    def result(self) -> ResumedRun | None:
        return cast("ResumedRun | None", self.outcome.result)

    @property
    def differs(self) -> bool:
        """Whether the resume did not continue the run; False if the process died."""
        result = self.result
        if result is None:
            return not self.outcome.died
        return result.first != self.position or result.run.differs


def plan_chains(
    items: int, positions: int, generations: int, rng: random.Random
) -> list[list[int]]:
    """The positions at which to stop: chains of ``generations`` stops, ``positions`` stops in all."""
    edges = [0, min(1, items), max(items - 1, 0), items]
    stops = edges[:positions] + [rng.randint(0, items) for _ in range(positions - len(edges))]
    # The edges are spread over the chains, as the rest is.
    count = -(-len(stops) // generations)
    return [sorted(stops[number::count]) for number in range(count)]


def plan_everywhere(items: int, random_access: bool) -> tuple[int, ...]:
    """Positions to resume at in one process: all of a short run, some of a longer run.

    Streams get fewer positions, since a resume may read all earlier items again.
    """
    most = max(items // 4, EVERYWHERE) if random_access else EVERYWHERE
    if items <= most:
        return tuple(range(items + 1))
    return tuple(range(0, items, -(-items // min(most, MOST_EVERYWHERE))))


@final
@dataclass(frozen=True)
class Chains:
    """Resumes of one run, in fresh processes.

    Attributes:
      workers: to run tasks.
      saved_in: the folder with the checkpoints of the run.
      expected: the digests of the run's items.
      end: the number of items of the run; None to run to the end.
      ways: to tune the pipeline; each generation takes the next one.
      update: called after each resume.
    """

    workers: TaskProcesses
    saved_in: str
    expected: Digests
    end: int | None
    ways: Sequence[Variation]
    update: Callable[[int], object]

    def follow(self, chain: int, stops: Sequence[int]) -> list[Link]:
        """Resume at each of ``stops`` from the previous run's checkpoint; the last runs to `end`.

        Args:
          chain: the number of the chain; chains begin with different ways.
          stops: numbers of items, ascending; `saved_in` has a checkpoint at the first stop.
        """
        folder = self.workers.moved(self.saved_in, stops[0])
        links: list[Link] = []
        for number, (stop, until) in enumerate(zip(stops, [*stops[1:], self.end], strict=True)):
            way = self.ways[(chain + number) % len(self.ways)]
            work = partial(resumed, folder=folder, expected=self.expected, until=until)
            conditions = Conditions(hash_seed=FIRST_HASH_SEED + number)
            outcome = self.workers.run(work, tuning=way.tuning, conditions=conditions)
            links.append(Link(chain, stop, way, outcome))
            self.update(1)
            if links[-1].differs or outcome.died:
                break
        return links
