"""Where a run of one or several ranks stands, and from where on its arguments may change."""

# Each rank has read as far as its own place, so the run stands at the largest of them. The ranks that
# are asked are those that saved the checkpoint, and those to which the pipeline deals now. The code of one
# rank tells the pipelines of all, which differ only in the rank of their deals.

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..core.argument_change import EpochsChange
from ..core.differences import EpochSpan, FoundArgument
from ..core.resuming import RunPosition, run_position
from ..core.runnable import saved_position
from ..core.stage import Stage
from ..errors import StateMismatch
from ..stages.global_order import deal_of, for_rank, is_dealt
from .envelope import Checkpoint
from .opening import say_what_does_not_fit, state_for
from .ranks.parts import WholeSteps
from .reading import newest_readable
from .store import Store


class RunStanding(NamedTuple):
    """Where a run stands at its newest valid checkpoint.

    Attributes:
      step: of the checkpoint.
      time: when it was saved, in seconds since 1 January 1970.
      epoch: of the last item that was handed out, of the furthest rank.
      ranks: the number of ranks that saved it.
      joined: whether any number of ranks can go on from it; else only as many, each from its own state.
      arguments: what may change of the pipeline, where all ranks can go on with it.
    """

    step: int
    time: float
    epoch: int
    ranks: int
    joined: bool
    arguments: list[FoundArgument]


def run_standing(store: Store, stage: Stage[Any]) -> RunStanding | None:
    """Where the run in ``store`` stands, which ``stage`` is to go on with; None if there is no checkpoint.

    It changes nothing. There is a warning for each damaged checkpoint that is passed over.

    Raises:
      StateMismatch: if the checkpoint belongs to a pipeline that differs in more than in arguments by
        position.
      NoValidCheckpoint: if there are checkpoints and all are damaged.
      NewerFormat: if a later version of the library wrote the newest one.
      InvalidArgument: if the items cannot be dealt to as many ranks as saved it.
    """
    steps = WholeSteps(store)
    checkpoints = newest_readable(steps, steps.checkpoints)
    if checkpoints is None:
        return None
    first = checkpoints[0]
    ranks = steps.saved_as(first.step).ranks
    try:
        found = [
            _standing(checkpoint, one, from_this_rank=count == ranks > 1)
            for checkpoint, one, count in _ranks(checkpoints, stage, ranks)
        ]
    except StateMismatch as error:
        say_what_does_not_fit(first.step, store, error)
        raise
    epoch = max(one.epoch for one in found)
    joined = len(checkpoints) == 1
    arguments = _of_all_ranks([one.arguments for one in found])
    return RunStanding(first.step, first.time, epoch, ranks, joined, arguments)


def _of_all_ranks(of_each: list[list[FoundArgument]]) -> list[FoundArgument]:
    """What may change on all ranks, from what may on each.

    Ranks may be in different epochs. Of several pipelines by epoch, the one that the furthest rank is in can still
    change; those before it are of the past.
    """
    groups = dict[tuple[Any, ...], list[FoundArgument]]()
    for one in chain.from_iterable(of_each):
        groups.setdefault((one.stage, one.path, one.within), []).append(one)
    furthest = [
        each[0]._replace(value=each[0].value.furthest([one.value for one in each]))
        for each in groups.values()
    ]
    begun = {
        (one.stage, one.path): one.value.reached
        for one in furthest
        if isinstance(one.value, EpochsChange)
    }

    def is_latest(span: EpochSpan) -> bool:
        reached = begun.get((span.stage, span.path))
        return reached is None or span.first < reached <= span.following

    return [one for one in furthest if all(map(is_latest, one.within))]


def _ranks(
    checkpoints: list[Checkpoint], stage: Stage[Any], ranks: int
) -> Iterator[tuple[Checkpoint, Stage[Any], int]]:
    """What each rank resumes from, its pipeline, and the number of ranks."""
    if len(checkpoints) > 1:
        counts = {ranks}
    else:
        counts = {deal_of(stage).ranks, ranks if is_dealt(stage) else 1}
    for count in sorted(counts):
        for rank in range(count):
            one = for_rank(stage, rank, count)
            if one is not None:
                yield checkpoints[rank % len(checkpoints)], one, count


def _standing(checkpoint: Checkpoint, stage: Stage[Any], *, from_this_rank: bool) -> RunPosition:
    """Where the rank of ``stage`` stands, as its resume would find it."""
    state = state_for(stage, checkpoint, from_this_rank=from_this_rank)
    return run_position(stage, saved_position(stage, state))
