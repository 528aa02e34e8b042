"""Check that other numbers of ranks resume a stage that deals items out to ranks."""

# A deal hands out sequences in an order that does not depend on the ranks. A `Shard` has a single
# sequence, the global order; the ranks take items in turns. A `Partition` has a sequence for each
# partition, on whichever rank it runs. So the items of ranks are compared with a run of each
# sequence alone.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias, final

from ..core.fingerprint import fingerprint
from ..core.graph import tuned, walk
from ..core.merging import merge_states
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..stages.partition import Partition
from ..stages.shard import Shard
from ..state.encoding import dumps, loads
from ..state.partitions import PARTITIONS
from ..state.value import State
from ..testing.digest import DIGEST_BYTES, item_digest
from .experiments import Seen, result_of
from .processes import ProcessTask, TaskProcesses
from .reasons import RANKS_DIFFER
from .runs import Digests, Watch, draw
from .work import Work

COMPARED: Final = 400
"""About how many items are compared, of all partitions together."""
FEWEST: Final = 4
"""Fewest items compared of each partition that has as many."""
END: Final = object()
"""Stands for the item after the last one."""

Deal: TypeAlias = "Shard[Any] | Partition[Any]"


def deals(stage: Stage[Any]) -> dict[int, Deal]:
    """The stages dealing items out to ranks, by stage number."""
    stages = enumerate(found for found, _ in walk(stage))
    shards = {number: found for number, found in stages if isinstance(found, Shard)}
    return shards | partitions(stage)


def partitions(stage: Stage[Any]) -> dict[int, Partition[Any]]:
    """The partitioning stages, by stage number."""
    stages = enumerate(found for found, _ in walk(stage))
    return {number: found for number, found in stages if isinstance(found, Partition)}


def rank_counts(deal: Deal) -> list[int]:
    """The number of saving ranks, then the numbers of resuming ranks."""
    if isinstance(deal, Shard):
        return [deal.count, *sorted({1, deal.count + 1} - {deal.count})]
    saving = min(max(deal.ranks, 2), deal.count)
    return [saving, *sorted({1, min(saving + 1, deal.count)} - {saving})]


def rank_fields(deal: Deal, index: int, ranks: int, uneven: str | None = None) -> dict[str, Any]:
    """The fields of ``deal`` for rank ``index``; ``uneven`` only if given."""
    fields = {"index": index, "ranks" if isinstance(deal, Partition) else "count": ranks}
    return fields if uneven is None else fields | {"uneven": uneven}


def ranks_may_change(stage: Stage[Any], number: int) -> bool:
    """Whether the whole pipeline takes a state of the shard ``number`` with other ranks."""
    shard = deals(stage)[number]
    other = tuned(stage, {number: rank_fields(shard, 0, shard.count + 1)})
    return fingerprint(other) == fingerprint(stage)


def why_ranks_are_fixed(ranks: int, workers: TaskProcesses) -> str | None:
    """Why the states of the whole pipeline's ranks cannot be joined; None if joining works."""
    return workers.run(ProcessTask(SavedByRanks(ranks))).error


def check_deal(
    stage: Stage[Any], number: int, workers: TaskProcesses, limit: int | None
) -> Seen | None:
    """Save the deal ``number`` with the first of `rank_counts`, and resume with each other count.

    Args:
      stage: the whole pipeline.
      number: of the deal.
      workers: to run tasks.
      limit: the number of items of a global order to look at; None for all.

    Raises:
      Unchecked: if a process died, or nothing could be saved.
    """
    deal = deals(stage)[number]
    saving, *others = rank_counts(deal)
    sequences = deal.count if isinstance(deal, Partition) else 1
    known = [Digests(workers.new_file()) for _ in range(sequences)]

    def result(work: Work) -> Any:
        return result_of(workers.run(ProcessTask(work, number)))

    result(Alone(known, limit))
    if isinstance(deal, Partition):
        most = len(range(0, deal.count, saving)) * _compared(deal)
        saved, position = SavedByRanks(saving, max(most // 2, 1)), None
    else:
        rounds = len(known[0]) // saving // 2
        saved, position = SavedByRanks(None, rounds), rounds * saving
    state = result(saved)
    for ranks in others:
        outcome = workers.run(ProcessTask(Continued(state, ranks, known, position), number))
        if outcome.error is not None and not outcome.died:
            return Seen(position=position, details=outcome.error, reason=RANKS_DIFFER)
        seen: Seen | None = result_of(outcome)
        if seen is not None:
            return seen
    return None


def _compared(partition: Partition[Any]) -> int:
    """How many items of each partition are compared."""
    return max(COMPARED // partition.count, FEWEST)


@final
@dataclass(frozen=True)
class Alone(Work):
    """Run the sequences of the last stage by themselves, a global order up to ``limit`` items."""

    keep: Sequence[Digests]
    limit: int | None

    def do(self, stage: Stage[Any], watch: Watch) -> None:
        for number, digests in enumerate(self.keep):
            sequence, limit = stage.inputs[0], self.limit
            if isinstance(stage, Partition):
                sequence, limit = stage.pipeline(number), _compared(stage)
            with iter(Pipeline(sequence)) as iterator:
                draw(iterator, limit, watch, keep=digests.path)


@final
@dataclass(frozen=True)
class SavedByRanks(Work):
    """The states of all ``ranks`` of partitions after ``steps`` items of each, joined; as bytes.

    Without ``ranks``, the state is that of the rank set in the pipeline.
    """

    ranks: int | None
    steps: int = 5

    def do(self, stage: Stage[Any], watch: Watch) -> bytes:
        parted = partitions(stage)
        states = []
        for index in range(self.ranks or 1):
            if self.ranks is not None:
                fields = {n: rank_fields(one, index, self.ranks) for n, one in parted.items()}
                stage = tuned(stage, fields)
            with iter(Pipeline(stage)) as iterator:
                for _ in islice(iterator, self.steps):
                    pass
                states.append(iterator.get_state())
        return dumps(merge_states(states))


@final
@dataclass(frozen=True)
class Continued(Work):
    """Resume the last stage with ``ranks`` ranks; gives the first difference from the ``known`` sequences.

    Attributes:
      state: where to resume, as bytes.
      ranks: the number of ranks.
      known: the digests of each sequence.
      position: the number of items of the global order before the state; None for partitions.
    """

    state: bytes
    ranks: int
    known: Sequence[Digests]
    position: int | None

    def do(self, stage: Stage[Any], watch: Watch) -> Seen | None:
        known = [bytes(digests.read()) for digests in self.known]
        found = [self._of_rank(stage, index, known) for index in range(self.ranks)]
        wrong = [seen for seen in found if seen is not None]
        return min(wrong, key=lambda seen: seen.item or 0, default=None)

    def _of_rank(self, deal: Any, index: int, known: list[bytes]) -> Seen | None:
        uneven = "keep" if isinstance(deal, Partition) else None
        rank: Any = replace(deal, **rank_fields(deal, index, self.ranks, uneven))
        with Pipeline(rank).resume(loads(self.state)) as iterator:
            for number, place, item in self._delivered(iterator, deal, index):
                digest = b"" if item is END else item_digest(item)
                at = place * DIGEST_BYTES
                if known[number][at : at + DIGEST_BYTES] != digest:
                    return self._seen(number, place, has_ended=item is END)
        return None

    def _delivered(self, iterator: Any, deal: Any, index: int) -> Iterator[tuple[int, int, Any]]:
        """The known items of a rank, each with the number of the sequence and the place there."""
        if self.position is not None:  # up to the last whole round
            for turn in range((len(self.known[0]) - self.position) // self.ranks):
                yield 0, self.position + turn * self.ranks + index, next(iterator, END)
            return
        before = _positions(iterator.get_state())
        for item in iterator:
            after = _positions(iterator.get_state())
            (number,) = [number for number in after if after[number] != before[number]]
            if before[number] >= _compared(deal):
                return
            yield number, before[number], item
            before = after
        yield from ((number, place, END) for number, place in before.items())

    def _seen(self, number: int, place: int, *, has_ended: bool) -> Seen:
        if self.position is not None:
            return Seen(item=place, position=self.position, reason=RANKS_DIFFER)
        details = f"Item {place} of partition {number} is another one than in a run by itself."
        if has_ended:
            details = f"Partition {number} ends after {place} items, and not in a run by itself."
        return Seen(details=details, reason=RANKS_DIFFER)


def _positions(state: State) -> dict[int, int]:
    own = state["pipeline"]
    return dict(zip(own[PARTITIONS], own["positions"], strict=True))
