"""Refuse to keep the state of one rank for all ranks if the states differ."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import resumable as rs
from resumable.core.savers import GuardedStateDict, refuse_saver_of_rank_0

from .lightning_guard import asks_ahead
from .trainer_epochs import length_of

__all__ = ["NotPrepared", "keeps_rank_state"]


class HasPipeline(Protocol):
    """What has the state of a pipeline."""

    @property
    def pipeline(self) -> rs.Pipeline[Any] | None:
        """The pipeline, if it is known."""


S = TypeVar("S", bound=HasPipeline)
P = ParamSpec("P")
R = TypeVar("R")


def keeps_rank_state(
    method: Callable[Concatenate[S, P], R],
) -> GuardedStateDict[S, P, R]:
    """Mark a method ``state_dict`` that gives the state of this rank.

    If the states of ranks differ, Accelerate does not get it: an `ExternalStateError` says what to
    register. Nor does Lightning without its callback, if there is no length.
    """
    return GuardedStateDict(method, _check)


class NotPrepared:
    """A loader that Accelerate may not wrap in one of its own."""

    @property
    def _is_accelerate_prepared(self) -> bool:
        # Accelerate asks for this before it wraps a loader, and nobody else does.
        raise rs.InvalidArgument(
            f"a {type(self).__name__} must not be given to prepare, which deals its batches out to the ranks "
            "once more, runs ahead of the loop, and leaves the state of this loader behind: loop over it as "
            "it is, and register_for_checkpointing(loader)"
        )


def _check(one: HasPipeline, caller: FrameType) -> None:
    refuse_saver_of_rank_0(None if one.pipeline is None else one.pipeline.stage, caller)
    if asks_ahead(caller) and not getattr(one, "has_callback", False) and length_of(one) is None:
        raise rs.ExternalStateError(
            "Lightning fetches a batch ahead of the step from what has no length, so this state would be one batch "
            "too far: the callback ResumeInput() saves that of a ResumableDataLoader"
        )
