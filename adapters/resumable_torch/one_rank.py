"""Refuse that the state of one rank is kept for all, where ranks have different ones."""

from __future__ import annotations

import sys
from typing import Any, Final

import resumable as rs
from resumable.core.fingerprint import shared_fingerprint
from resumable.core.stage import Stage
from resumable.stages.partition import has_partitions
from resumable.stages.places import deal_of

__all__ = ["refuse_one_rank"]

ACCELERATE: Final = "accelerate.checkpointing"
"""The module that asks what was registered with Accelerate for its state: on every rank, to write that of
rank 0."""

# Accelerate looks only whether what is registered has the methods, and tells it nothing. So the first save
# is the first moment at which it can be refused, by who calls.


def refuse_one_rank(pipeline: rs.Pipeline[Any] | None) -> None:
    """Refuse that Accelerate calls the method that calls this, if ranks differ in the state of ``pipeline``.

    Raises:
      ExternalStateError: if it does, saying what to register.
    """
    if sys._getframe(2).f_globals.get("__name__") != ACCELERATE:
        return
    if pipeline is None or deal_of(pipeline.stage).ranks == 1:
        return
    if _holds_items_of_rank(pipeline.stage):
        raise rs.ExternalStateError(
            "Accelerate keeps the state of rank 0 alone, and after shard this pipeline takes more items on "
            "one rank than on another: put shard behind that, or save the state of each rank in a file of "
            "its own"
        )
    if has_partitions(pipeline.stage):
        raise rs.ExternalStateError(
            "Accelerate keeps the state of rank 0 alone, and each rank owns other partitions: "
            "register_for_checkpointing(JoinedState(loader)) keeps those of all"
        )


def _holds_items_of_rank(stage: Stage[Any]) -> bool:
    """Whether a stage behind `shard` holds items of its rank, so that no state is that of all."""
    return shared_fingerprint(stage, of_rank=True) != shared_fingerprint(stage)
