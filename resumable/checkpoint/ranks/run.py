"""Name a run of several ranks, so fitting parts of a step are recognised."""

# A run is the work of a number of ranks with a pipeline after a resume from one checkpoint.
# Checkpoint, pipeline and number of ranks alone make the name, so each rank computes the name
# alone. The rank in the pipeline is left out. A resume is exact. So the state of a rank at a step
# of a run is always the same, however often the rank was restarted, and parts of one run and step
# fit together. No other parts fit: with another number of ranks, another batch size or another
# start, the same step has seen other items.

from __future__ import annotations

import hashlib
from typing import Any

from ...core.fingerprint import shared_fingerprint
from ...core.stage import Stage
from ...errors import InvalidArgument
from ...stages.global_order import rank_share_of
from ...state.encoding import dumps
from ..envelope import Checkpoint
from .part import HALF, WHOLE, RankPart


def part_of(
    rank: int, ranks: int, stage: Stage[Any], resumed: Checkpoint | None, run: str
) -> RankPart:
    """The part that ``rank`` of ``ranks`` saves from now on.

    Args:
      rank: the rank of this process.
      ranks: number of ranks.
      stage: the last stage of the pipeline.
      resumed: the whole checkpoint of the resume; None for the start.
      run: the run that saved ``resumed``.

    Raises:
      InvalidArgument: if the pipeline belongs to another rank.
    """
    if ranks == 1:
        return WHOLE
    share = rank_share_of(stage)
    if share.ranks > 1 and share != (rank, ranks):
        raise InvalidArgument(
            f"rank and ranks must be those of shard in the pipeline, shard({share.rank}, {share.ranks}), "
            f"got rank={rank} and ranks={ranks}"
        )
    work = _work(ranks, shared_fingerprint(stage))
    # The run of the checkpoint has the same work in a step, with as many ranks. So the run
    # continues.
    if run.endswith(work):
        return RankPart(rank, ranks, run)
    return RankPart(rank, ranks, _digest(_identity(resumed, run)) + work)


def former_work(ranks: int, stage: Stage[Any]) -> str:
    """The digits of version 0.2, different for each rank if a stage held items of the rank."""
    return _work(ranks, shared_fingerprint(stage, of_rank=True))


def _work(ranks: int, identity: str) -> str:
    return _digest(f"{ranks} {identity}".encode())


def _identity(checkpoint: Checkpoint | None, run: str) -> bytes:
    """Bytes that distinguish ``checkpoint``, saved in ``run``, from every other checkpoint."""
    if checkpoint is None:
        return b""
    if run:  # states may differ by rank
        return f"{run} {checkpoint.step}".encode()
    return dumps({"step": checkpoint.step, "state": checkpoint.state})


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=HALF // 2).hexdigest()
