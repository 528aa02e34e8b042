"""Refuse to keep the state of one rank for all ranks if the states differ."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, MethodType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, final, overload

import resumable as rs
from resumable.core.fingerprint import holds_items_of_rank
from resumable.stages.global_order import deal_of
from resumable.stages.partition import has_partitions

__all__ = ["NotPrepared", "keeps_rank_state", "refuse_items_of_rank"]


class HasPipeline(Protocol):
    """What has the state of a pipeline."""

    @property
    def pipeline(self) -> rs.Pipeline[Any] | None:
        """The pipeline, if it is known."""


S = TypeVar("S", bound=HasPipeline)
P = ParamSpec("P")
R = TypeVar("R")

SAVING: Final = "accelerate.checkpointing"
"""Accelerate's module that asks registered objects for their state: on every rank, to write that of rank 0."""
REGISTERING: Final = "accelerate.accelerator", "register_for_checkpointing"
"""Accelerate's module and function that look up the method when an object is registered."""

# Accelerate does not tell an object that it is registered: it only looks up the method. So the
# lookup is the first moment at which it can be refused, and the caller shows that Accelerate looks.


@final
class _StateDict(Generic[S, P, R]):
    """A method ``state_dict`` that Accelerate must not use where ranks have different states."""

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, one: None, owner: type) -> Callable[Concatenate[S, P], R]: ...

    @overload
    def __get__(self, one: S, owner: type) -> Callable[P, R]: ...

    def __get__(self, one: S | None, owner: type) -> Any:
        if one is None:
            return self._method
        if _is_accelerate(sys._getframe(1)):
            _refuse_one_rank(one.pipeline)
        return MethodType(self._method, one)


def keeps_rank_state(
    method: Callable[Concatenate[S, P], R],
) -> _StateDict[S, P, R]:
    """Mark a method ``state_dict`` that gives the state of this rank.

    If the states of ranks differ, Accelerate does not get it: an `ExternalStateError` says what to
    register.
    """
    return _StateDict(method)


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


def _is_accelerate(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return module == SAVING or (module, frame.f_code.co_name) == REGISTERING


def _refuse_one_rank(pipeline: rs.Pipeline[Any] | None) -> None:
    refuse_items_of_rank("Accelerate", pipeline)
    if pipeline is not None and _is_dealt(pipeline) and has_partitions(pipeline.stage):
        raise rs.ExternalStateError(
            "Accelerate keeps the state of rank 0 alone, and each rank owns other partitions: "
            "register_for_checkpointing(JoinedState(loader)) keeps those of all"
        )


def refuse_items_of_rank(saver: str, pipeline: rs.Pipeline[Any] | None) -> None:
    """Refuse a pipeline that holds items of its rank, where ``saver`` keeps one state for all ranks.

    Raises:
      ExternalStateError: if the states of ranks differ and cannot be joined.
    """
    if pipeline is not None and _is_dealt(pipeline) and holds_items_of_rank(pipeline.stage):
        raise rs.ExternalStateError(
            f"{saver} keeps the state of rank 0 alone, and after shard this pipeline takes more items on "
            "one rank than on another: put shard behind that, or save the state of each rank in a file of "
            "its own"
        )


def _is_dealt(pipeline: rs.Pipeline[Any]) -> bool:
    return deal_of(pipeline.stage).ranks > 1
