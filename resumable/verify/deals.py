"""Check that other numbers of ranks resume a stage that deals items out to ranks."""

# A deal hands out sequences in an order that does not depend on the ranks. A `Shard` has a single
# sequence, the global order; the ranks take items in turns. A `Partition` has a sequence for each
# partition, on whichever rank it runs. So the items of ranks are compared with a run of each
# sequence alone.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

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
from .processes import TaskProcesses
from .reasons import RANKS_DIFFER
from .runs import Digests, Watch, draw
from .work import Work

COMPARED: Final = 400
"""About how many items are compared, of all partitions together."""
FEWEST: Final = 4
"""Fewest items compared of each partition that has as many."""
END: Final = object()
"""Stands for the item after the last one."""

DealingStage: TypeAlias = "Shard[Any] | Partition[Any]"


def deals(stage: Stage[Any]) -> dict[int, DealingStage]:
    """The stages dealing items out to ranks, by stage number."""
    return {
        number: found
        for kind in (Shard, Partition)
        for number, (found, _) in enumerate(walk(stage))
        if isinstance(found, kind)
    }


def partitions(stage: Stage[Any]) -> dict[int, Partition[Any]]:
    """The partitioning stages, by stage number."""
    return {number: deal for number, deal in deals(stage).items() if isinstance(deal, Partition)}


def rank_counts(deal: DealingStage) -> list[int]:
    """The number of saving ranks, then the numbers of resuming ranks."""
    if isinstance(deal, Shard):
        return [deal.count, *sorted({1, deal.count + 1} - {deal.count})]
    saving = min(max(deal.ranks, 2), deal.count)
    return [saving, *sorted({1, min(saving + 1, deal.count)} - {saving})]


def rank_fields(
    deal: DealingStage, index: int, ranks: int, uneven: str | None = None
) -> dict[str, Any]:
    """The fields of ``deal`` for rank ``index``; ``uneven`` only if given."""
    fields = {"index": index, "ranks" if isinstance(deal, Partition) else "count": ranks}
    return fields if uneven is None else fields | {"uneven": uneven}


def ranks_may_change(stage: Stage[Any], number: int) -> bool:
    """Whether the whole pipeline takes a state of the shard ``number`` with other ranks."""
    shard = deals(stage)[number]
    other = tuned(stage, {number: rank_fields(shard, 0, shard.count + 1)})
    return fingerprint(other) == fingerprint(stage)


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
        return result_of(workers.run(work, number))

    result(partial(keep_sequences, known=known, limit=limit))
    if isinstance(deal, Partition):
        most = len(range(0, deal.count, saving)) * _compared(deal)
        saved, position = partial(joined_state, ranks=saving, steps=max(most // 2, 1)), None
    else:
        rounds = len(known[0]) // saving // 2
        saved, position = partial(joined_state, ranks=None, steps=rounds), rounds * saving
    work = partial(unlike_sequences, state=result(saved), known=known, position=position)
    for ranks in others:
        outcome = workers.run(partial(work, ranks=ranks), number)
        if outcome.error is not None and not outcome.died:
            return Seen(position=position, details=outcome.error, reason=RANKS_DIFFER)
        seen: Seen | None = result_of(outcome)
        if seen is not None:
            return seen
    return None


def _compared(partition: Partition[Any]) -> int:
    """How many items of each partition are compared."""
    return max(COMPARED // partition.count, FEWEST)


def keep_sequences(
    stage: Stage[Any], watch: Watch, *, known: Sequence[Digests], limit: int | None
) -> None:
    """Run the sequences of the last stage alone, a global order up to ``limit`` items."""
    for number, digests in enumerate(known):
        sequence, most = stage.inputs[0], limit
        if isinstance(stage, Partition):
            sequence, most = stage.pipeline(number), _compared(stage)
        with iter(Pipeline(sequence)) as iterator:
            draw(iterator, most, watch, keep=digests.path)


def joined_state(stage: Stage[Any], watch: Watch, *, ranks: int | None, steps: int = 5) -> bytes:
    """The states of all ``ranks`` of partitions after ``steps`` items of each, joined; as bytes.

    Without ``ranks``, the state is that of the rank set in the pipeline.
    """
    parted = partitions(stage)
    states = []
    for index in range(ranks or 1):
        if ranks is not None:
            fields = {number: rank_fields(one, index, ranks) for number, one in parted.items()}
            stage = tuned(stage, fields)
        with iter(Pipeline(stage)) as iterator:
            for _ in islice(iterator, steps):
                pass
            states.append(iterator.get_state())
    return dumps(merge_states(states))


def unlike_sequences(
    stage: Stage[Any],
    watch: Watch,
    *,
    state: bytes,
    ranks: int,
    known: Sequence[Digests],
    position: int | None,
) -> Seen | None:
    """Resume the last stage with ``ranks`` ranks; gives the first difference from the ``known`` sequences.

    Args:
      stage: the pipeline.
      watch: unused.
      state: where to resume, as bytes.
      ranks: the number of ranks.
      known: the digests of each sequence.
      position: the number of items of the global order before the state; None for partitions.
    """
    expected = [bytes(digests.read()) for digests in known]
    uneven = "keep" if isinstance(stage, Partition) else None
    wrong = []
    for index in range(ranks):
        deal: Any = stage
        rank: Any = replace(deal, **rank_fields(deal, index, ranks, uneven))
        with Pipeline(rank).resume(loads(state)) as iterator:
            if position is None:
                delivered = _of_partitions(iterator, _compared(deal))
            else:  # up to the last whole round
                end = len(known[0]) - (len(known[0]) - position) % ranks
                places = range(position + index, end, ranks)
                delivered = ((0, place, next(iterator, END)) for place in places)
            for number, place, item in delivered:
                digest = b"" if item is END else item_digest(item)
                at = place * DIGEST_BYTES
                if expected[number][at : at + DIGEST_BYTES] != digest:
                    wrong.append(_seen(number, place, position, has_ended=item is END))
                    break
    return min(wrong, key=lambda seen: seen.item or 0, default=None)


def _of_partitions(iterator: Any, most: int) -> Iterator[tuple[int, int, Any]]:
    """The items of a rank, each with the number of the partition and the place there, below ``most``."""
    before = _positions(iterator.get_state())
    for item in iterator:
        after = _positions(iterator.get_state())
        (number,) = [number for number in after if after[number] != before[number]]
        if before[number] >= most:
            return
        yield number, before[number], item
        before = after
    yield from ((number, place, END) for number, place in before.items())


def _seen(number: int, place: int, position: int | None, *, has_ended: bool) -> Seen:
    if position is not None:
        return Seen(item=place, position=position, reason=RANKS_DIFFER)
    details = f"Item {place} of partition {number} is another one than in a run by itself."
    if has_ended:
        details = f"Partition {number} ends after {place} items, and not in a run by itself."
    return Seen(details=details, reason=RANKS_DIFFER)


def _positions(state: State) -> dict[int, int]:
    own = state["pipeline"]
    return dict(zip(own[PARTITIONS], own["positions"], strict=True))
