"""Whether other numbers of ranks continue the partitions of a pipeline."""

# Each partition delivers its items in its own order, whoever runs it. So they are compared with the
# partition run by itself, whatever order the ranks deliver them in.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, final

from ..core.graph import tuned, walk
from ..core.merging import merge_states
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..stages.partition import Partition
from ..state.encoding import dumps, loads
from ..state.partitions import PARTITIONS
from ..state.value import State
from .digest import item_digest
from .processes import ProcessTask, TaskProcesses, first_error
from .reasons import RANKS_DIFFER
from .report import Finding
from .runs import Watch
from .work import Work

COMPARED: Final = 400
"""About how many items are compared, of all partitions together."""
FEWEST: Final = 4
"""Items of each partition that are compared at least, if it has as many."""


def partitions(stage: Stage[Any]) -> list[tuple[int, Partition[Any]]]:
    """The partitions of a pipeline, by their numbers."""
    return [(n, found) for n, (found, _) in enumerate(walk(stage)) if isinstance(found, Partition)]


def rank_counts(found: Partition[Any]) -> list[int]:
    """The number of ranks that save, and then the numbers of ranks that resume."""
    saving = min(max(found.ranks, 2), found.count)
    return [saving, *sorted({1, min(saving + 1, found.count)} - {saving})]


def why_ranks_are_fixed(ranks: int, workers: TaskProcesses) -> str | None:
    """Why the states of the whole pipeline's ranks cannot be joined; None if they can."""
    return workers.run(ProcessTask(JoinRankStates(ranks))).error


def check_partitions(
    stage: Stage[Any], number: int, counts: Sequence[int], workers: TaskProcesses
) -> Finding | str | None:
    """Save the partitions with the first of ``counts`` ranks, and resume with each of the others.

    Returns what is wrong, or a text that says why it could not be checked.
    """
    found, path = [*walk(stage)][number]
    assert isinstance(found, Partition)
    most = max(COMPARED // found.count, FEWEST)
    saving, *others = counts
    alone = workers.run(ProcessTask(Alone(most), number))
    steps = max(len(range(0, found.count, saving)) * most // 2, 1)
    saved = workers.run(ProcessTask(JoinRankStates(saving, steps), number))
    if (failure := first_error([alone, saved])) is not None:
        return failure
    work = [Continued(saved.result, count, alone.result, most) for count in others]
    outcomes = [workers.run(ProcessTask(one, number)) for one in work]
    if (failure := first_error([outcome for outcome in outcomes if outcome.died])) is not None:
        return failure
    told = [outcome.error or outcome.result for outcome in outcomes]
    if not any(told):
        return None
    return Finding.of(RANKS_DIFFER, found, path, next(filter(None, told)))


def _of_rank(stage: Stage[Any], index: int, ranks: int) -> Pipeline[Any]:
    changes = {number: {"index": index, "ranks": ranks} for number, _ in partitions(stage)}
    return Pipeline(tuned(stage, changes))


@final
@dataclass(frozen=True)
class Alone(Work):
    """The digests of the first ``most`` items of each partition, run by itself."""

    most: int

    def do(self, stage: Stage[Any], watch: Watch) -> list[list[bytes]]:
        assert isinstance(stage, Partition)
        digests = []
        for number in range(stage.count):
            with iter(Pipeline(stage.pipeline(number))) as iterator:
                digests.append(list(map(item_digest, islice(iterator, self.most))))
        return digests


@final
@dataclass(frozen=True)
class JoinRankStates(Work):
    """The states of all ``ranks`` after ``steps`` items of each, joined; as bytes."""

    ranks: int
    steps: int = 5

    def do(self, stage: Stage[Any], watch: Watch) -> bytes:
        states = []
        for index in range(self.ranks):
            with iter(_of_rank(stage, index, self.ranks)) as iterator:
                for _ in islice(iterator, self.steps):
                    pass
                states.append(iterator.get_state())
        return dumps(merge_states(states))


@final
@dataclass(frozen=True)
class Continued(Work):
    """Resume the partitions with other ranks; says which item differs from ``alone``."""

    state: bytes
    ranks: int
    alone: list[list[bytes]]
    most: int

    def do(self, stage: Stage[Any], watch: Watch) -> str | None:
        for index in range(self.ranks):
            assert isinstance(stage, Partition)
            rank = replace(stage, index=index, ranks=self.ranks, uneven="keep")
            with Pipeline(rank).resume(loads(self.state)) as iterator:
                if (told := self._difference(iterator)) is not None:
                    return told
        return None

    def _difference(self, iterator: Any) -> str | None:
        """Follow one rank up to the last item that is known of one of its partitions."""
        before = _positions(iterator.get_state())
        for item in iterator:
            after = _positions(iterator.get_state())
            (number,) = [number for number in after if after[number] != before[number]]
            place, known = before[number], self.alone[number]
            if place >= self.most:
                return None
            if known[place : place + 1] != [item_digest(item)]:
                return f"Item {place} of partition {number} is another one than in a run by itself."
            before = after
        for number, position in before.items():
            if position < len(self.alone[number]):
                return (
                    f"Partition {number} ends after {position} items, and not in a run by itself."
                )
        return None


def _positions(state: State) -> dict[int, int]:
    own = state["pipeline"]
    return dict(zip(own[PARTITIONS], own["positions"], strict=True))
