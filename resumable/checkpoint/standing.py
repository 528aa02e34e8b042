"""The position of a run of one or several ranks, and from where on its arguments may change."""

# Each rank has read up to its own position, so the position of the run is the largest. The ranks
# that saved the checkpoint are asked, and the ranks to which the pipeline deals now. The code of
# one rank suffices, since the pipelines of all ranks differ only in the rank of their deals.

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
from ..stages.global_order import for_rank, is_dealt, rank_share_of
from .envelope import Checkpoint
from .opening import say_what_does_not_fit, state_for
from .ranks.parts import WholeSteps
from .reading import newest_readable
from .store import Store


class RunStanding(NamedTuple):
    """The position of a run at its newest valid checkpoint.

    Attributes:
      step: of the checkpoint.
      time: of the save, in seconds since 1 January 1970.
      epoch: of the last item handed out on the furthest rank.
      ranks: number of ranks of the save.
      joined: whether any number of ranks can resume from the checkpoint; else only the same number,
        each rank from its own state.
      arguments: arguments of the pipeline that may change, so all ranks can still resume.
    """

    step: int
    time: float
    epoch: int
    ranks: int
    joined: bool
    arguments: list[FoundArgument]


def run_standing(store: Store, stage: Stage[Any]) -> RunStanding | None:
    """The position of the run in ``store``, to be resumed by ``stage``; None without a checkpoint.

    The call changes nothing. Each damaged checkpoint is passed over with a warning.

    Raises:
      StateMismatch: if the checkpoint belongs to a pipeline with differences other than in
        arguments by position.
      NoValidCheckpoint: if checkpoints exist and all are damaged.
      NewerFormat: if a later version of the library wrote the newest checkpoint.
      InvalidArgument: if the items cannot be dealt to as many ranks as saved the checkpoint.
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
        say_what_does_not_fit(f"the checkpoint of step {first.step} in {store!r}", error)
        raise
    epoch = max(one.epoch for one in found)
    joined = len(checkpoints) == 1
    arguments = _of_all_ranks([one.arguments for one in found])
    return RunStanding(first.step, first.time, epoch, ranks, joined, arguments)


def _of_all_ranks(of_each: list[list[FoundArgument]]) -> list[FoundArgument]:
    """The arguments that may change on all ranks, from the arguments of each rank.

    Ranks may be in different epochs. Of several pipelines by epoch, the pipeline of the furthest
    rank's epoch can still change; earlier pipelines are past.
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
    """Checkpoint and pipeline of each rank, and the number of ranks."""
    if len(checkpoints) > 1:
        counts = {ranks}
    else:
        counts = {rank_share_of(stage).ranks, ranks if is_dealt(stage) else 1}
    for count in sorted(counts):
        for rank in range(count):
            one = for_rank(stage, rank, count)
            if one is not None:
                yield checkpoints[rank % len(checkpoints)], one, count


def _standing(checkpoint: Checkpoint, stage: Stage[Any], *, from_this_rank: bool) -> RunPosition:
    """The position of the rank of ``stage``, as its resume would find it."""
    state = state_for(stage, checkpoint, from_this_rank=from_this_rank)
    return run_position(stage, saved_position(stage, state))
