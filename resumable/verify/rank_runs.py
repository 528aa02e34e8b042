"""Run a pipeline as one of several ranks, uninterrupted or in lives that end by a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, final

from ..core.graph import Tuning, cut_after, tuning_without_threads
from ..core.stage import Stage
from .chains import FIRST_HASH_SEED
from .conditions import Conditions
from .digest import DIGEST_BYTES
from .experiments import Unchecked
from .lives import Life, Lived, lived_in
from .partitions import partitions
from .processes import ProcessTask, TaskOutcome, TaskProcesses
from .ranks import shards
from .runs import Digests, PipelineRun
from .work import WholeRuns, Work

TEXTS: Final = 10_000
"""Items of a run that are kept as text, to show one of them."""
HASH_SEEDS: Final = (FIRST_HASH_SEED, FIRST_HASH_SEED + 1)
"""Hash seeds of uninterrupted runs, and of the runs compared with them. They are forks of two
processes, so their addresses differ."""


class Reference(NamedTuple):
    """The uninterrupted run of one rank, and the digests of its items."""

    run: PipelineRun
    digests: Digests


def deals(stage: Stage[Any]) -> dict[int, Any]:
    """The stages that deal items out to ranks, a `Shard` or a `Partition` each, by their numbers."""
    return dict(shards(stage)) | dict(partitions(stage))


@final
@dataclass(frozen=True)
class RankCount:
    """A number of ranks.

    Attributes:
      count: number of ranks.
      uneven: as in `Shard`; None for that of the pipeline.
    """

    count: int
    uneven: str | None = None


@final
@dataclass
class RankRuns:
    """The runs of ranks of a pipeline cut after one of its stages.

    Attributes:
      stage: the whole pipeline.
      workers: to run tasks.
      limit: the number of items of a rank to draw; None for all.
    """

    stage: Stage[Any]
    workers: TaskProcesses
    limit: int | None
    _known: dict[tuple[int, int, int, frozenset[str]], Reference] = field(
        init=False, default_factory=dict
    )

    def uninterrupted(self, cut: int, ranks: RankCount) -> list[Reference]:
        """The runs of all ``ranks``, without threads and workers.

        Raises:
          Unchecked: if one fails.
        """
        jobs = [partial(self._reference, cut, rank, ranks) for rank in range(ranks.count)]
        return [_conclusive(reference) for reference in self.workers.run_all(jobs)]

    def _reference(self, cut: int, rank: int, ranks: RankCount) -> Reference | str:
        uneven = {ranks.uneven or found.uneven for found in deals(self.stage).values()}
        key = cut, rank, ranks.count, frozenset(uneven)
        if key not in self._known:
            digests = Digests(self.workers.new_file())
            work = WholeRuns(self.limit, digests.path, texts=TEXTS)
            outcome = self.run(work, cut, rank, ranks, compared=False)
            if outcome.error is not None:
                return outcome.error
            run: PipelineRun = outcome.result[0]
            if run.error is not None:
                return run.error
            self._known[key] = Reference(run, digests)
        return self._known[key]

    def live(
        self,
        cut: int,
        ranks: RankCount,
        rank: int,
        until: int | None,
        *,
        folder: str,
        every: int,
        expected: Digests | None = None,
        keep: str | None = None,
        threads: bool = False,
    ) -> Lived:
        """A `Life` of ``rank`` that is killed at item ``until``, or goes on to the end.

        Raises:
          Unchecked: if its resume is refused, or its process could not do it.
        """
        account = self.workers.new_file()
        life = Life(folder, rank, ranks.count, every, until, self.limit, account, expected, keep)
        outcome = self.run(life, cut, rank, ranks, threads=threads)
        lived = lived_in(life)
        if lived is None:
            raise Unchecked(outcome.error or "nothing is known of it")
        if lived.refused is not None:
            raise Unchecked(lived.refused)
        return lived

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
        """The outcome of ``work`` with the pipeline of a rank, in a process of its own."""
        conditions = Conditions(hash_seed=HASH_SEEDS[compared])
        tuning = self._tuning(cut, rank, ranks, threads=threads)
        return self.workers.run(ProcessTask(work, cut, tuning, conditions))

    def _tuning(self, cut: int, rank: int, ranks: RankCount, *, threads: bool) -> Tuning:
        stage = cut_after(self.stage, cut)
        tuning: dict[int, dict[str, Any]] = {}
        if not threads:
            tuning = {
                number: dict(changes) for number, changes in tuning_without_threads(stage).items()
            }
        apart = dict(partitions(stage))
        for number, found in deals(stage).items():
            count = "ranks" if number in apart else "count"
            dealt = {"index": rank, count: ranks.count, "uneven": ranks.uneven or found.uneven}
            tuning.setdefault(number, {}).update(dealt)
        return tuning


def _conclusive(reference: Reference | str) -> Reference:
    if isinstance(reference, str):
        raise Unchecked(reference)
    return reference


def items_of(references: Sequence[Reference], first: int = 0) -> Counter[bytes]:
    """How often each item comes after the ``first`` of each run, by its digest."""
    found: Counter[bytes] = Counter()
    for _, digests in references:
        found.update(each(digests.after(first)))
    return found


def each(digests: Digests) -> Iterator[bytes]:
    """The digests, one after another."""
    joined = digests.read()
    for at in range(0, len(joined), DIGEST_BYTES):
        yield bytes(joined[at : at + DIGEST_BYTES])
