"""Run a pipeline as one of several ranks, each run in a separate process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.graph import cut_after, tuning_without_threads
from ..core.stage import Stage
from .chains import FIRST_HASH_SEED
from .conditions import Conditions
from .deals import deals, rank_fields
from .experiments import TEXTS, Unchecked, result_of
from .processes import TaskOutcome, TaskProcesses
from .runs import Digests, PipelineRun
from .work import ResumedRun, Work, whole_runs

HASH_SEEDS: Final = (FIRST_HASH_SEED, FIRST_HASH_SEED + 1)
"""Hash seeds of uninterrupted runs, and of the runs to compare. The runs are forks of two
processes, so addresses differ.
"""

Life: TypeAlias = Callable[..., ResumedRun]
"""A run from a checkpoint on: `resumed` with some arguments filled in."""


@final
@dataclass(frozen=True)
class RankCount:
    """A number of ranks; ``uneven`` as in `Shard`, None for the setting of the pipeline."""

    count: int
    uneven: str | None = None


class Reference(NamedTuple):
    """The uninterrupted run of a rank, and the digests of the items."""

    run: PipelineRun
    digests: Digests


@final
@dataclass
class RankRuns:
    """The runs of ranks of a pipeline cut after a stage.

    Attributes:
      stage: the whole pipeline.
      workers: to run tasks.
      limit: the number of items of a rank to draw; None for all.
    """

    stage: Stage[Any]
    workers: TaskProcesses
    limit: int | None
    _known: dict[tuple[int, int, frozenset[str]], list[Reference]] = field(
        init=False, default_factory=dict
    )

    def uninterrupted(self, cut: int, ranks: RankCount) -> list[Reference]:
        """The runs of all ``ranks``, without threads and workers.

        Raises:
          Unchecked: if a run fails.
        """
        uneven = frozenset(ranks.uneven or found.uneven for found in deals(self.stage).values())
        key = cut, ranks.count, uneven
        if key not in self._known:
            known = [Digests(self.workers.new_file()) for _ in range(ranks.count)]
            work = partial(whole_runs, limit=self.limit, texts=TEXTS)
            works = [partial(work, keep=digests.path) for digests in known]
            jobs = [
                partial(self.run, one, cut, rank, ranks, compared=False)
                for rank, one in enumerate(works)
            ]
            runs = [result_of(outcome)[0] for outcome in self.workers.run_all(jobs)]
            for run in runs:
                if run.error is not None:
                    raise Unchecked(run.error)
            self._known[key] = [*map(Reference, runs, known)]
        return self._known[key]

    def lives(
        self, works: Sequence[Life], cut: int, ranks: RankCount, *, threads: bool = False
    ) -> list[ResumedRun]:
        """The runs of all ``ranks`` from the newest step on, one after another.

        Raises:
          Unchecked: if a resume is refused, or a process fails.
        """
        lives = [partial(work, rank=rank, ranks=ranks.count) for rank, work in enumerate(works)]
        outcomes = (
            self.run(life, cut, rank, ranks, threads=threads) for rank, life in enumerate(lives)
        )
        return list(map(result_of, outcomes))

    def run(
        self,
        work: Work,
        cut: int,
        rank: int,
        ranks: RankCount,
        *,
        threads: bool = False,
        compared: bool = True,
    ) -> TaskOutcome:
        """The outcome of ``work`` with the pipeline of a rank, in a separate process."""
        stage = cut_after(self.stage, cut)
        tuning = {} if threads else {**tuning_without_threads(stage)}
        for number, deal in deals(stage).items():
            fields = rank_fields(deal, rank, ranks.count, ranks.uneven)
            tuning[number] = {**tuning.get(number, {}), **fields}
        conditions = Conditions(hash_seed=HASH_SEEDS[compared])
        return self.workers.run(work, cut, tuning, conditions)


def items_of(every: Iterable[Digests]) -> Counter[bytes]:
    """How often each item comes in all, by digest."""
    return Counter(chain.from_iterable(every))
