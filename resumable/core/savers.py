"""Refuse to give a state to a saver that would not save it right."""

# Such a saver does not tell an object that it is registered: it only looks up the method. So the
# lookup is the first moment at which it can be refused, and the caller shows who looks.
#
# Accelerate asks registered objects for their state on every rank, and writes that of rank 0. Lightning
# fetches a batch from what has no length before the step has the one before.

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, MethodType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, final, overload

from ..errors import ExternalStateError
from .fingerprint import holds_items_of_rank
from .own_partitions import all_own_partitions
from .stage import Stage


class HasStage(Protocol):
    """What iterates a pipeline."""

    @property
    def _stage(self) -> Stage[Any]:
        """The last stage of the pipeline."""


S = TypeVar("S")
OverStage = TypeVar("OverStage", bound=HasStage)
P = ParamSpec("P")
R = TypeVar("R")

SAVING: Final = "accelerate.checkpointing"
"""Accelerate's module that asks registered objects for their state."""
REGISTERING: Final = "accelerate.accelerator", "register_for_checkpointing"
"""Accelerate's module and function that look up the method when an object is registered."""
LIGHTNING: Final = (
    "lightning.pytorch.utilities.combined_loader",
    "pytorch_lightning.utilities.combined_loader",
)
"""Lightning's module that asks loaders for their state, by the names under which it is installed."""


@final
class GuardedStateDict(Generic[S, P, R]):
    """A method ``state_dict`` whose caller is looked at.

    Args:
      method: the method.
      check: called with the object and the frame of the caller; raises to refuse.
    """

    def __init__(
        self,
        method: Callable[Concatenate[S, P], R],
        check: Callable[[S, FrameType], object],
    ) -> None:
        self._method = method
        self._check = check
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, one: None, owner: type) -> Callable[Concatenate[S, P], R]: ...

    @overload
    def __get__(self, one: S, owner: type) -> Callable[P, R]: ...

    def __get__(self, one: S | None, owner: type) -> Any:
        if one is None:
            return self._method
        self._check(one, sys._getframe(1))
        return MethodType(self._method, one)


def refuses_savers(
    method: Callable[Concatenate[OverStage, P], R],
) -> GuardedStateDict[OverStage, P, R]:
    """Mark a method ``state_dict`` of what a training loop iterates.

    It is refused to savers that would keep a state which does not resume the run.
    """
    return GuardedStateDict(method, _refuse)


def refuse_saver_of_rank_0(stage: Stage[Any] | None, caller: FrameType) -> None:
    """Refuse Accelerate if the states of ranks differ.

    Args:
      stage: the last stage of the pipeline; None if it is not known.
      caller: who looks up `state_dict`.

    Raises:
      ExternalStateError: saying what to register.
    """
    if not _is_accelerate(caller) or stage is None:
        return
    refuse_items_of_rank("Accelerate", stage)
    if stage._deal.ranks > 1 and all_own_partitions(stage):
        raise ExternalStateError(
            "Accelerate keeps the state of rank 0 alone, and each rank owns other partitions: "
            "register_for_checkpointing(JoinedState(loader)) keeps those of all"
        )


def refuse_items_of_rank(saver: str, stage: Stage[Any]) -> None:
    """Refuse a pipeline that holds items of its rank, where ``saver`` keeps one state for all ranks.

    Raises:
      ExternalStateError: if the states of ranks differ and cannot be joined.
    """
    if stage._deal.ranks > 1 and holds_items_of_rank(stage):
        raise ExternalStateError(
            f"{saver} keeps the state of rank 0 alone, and after shard this pipeline takes more items on "
            "one rank than on another: put shard behind that, or save the state of each rank in a file of "
            "its own"
        )


def _refuse(one: HasStage, caller: FrameType) -> None:
    refuse_saver_of_rank_0(one._stage, caller)
    if caller.f_globals.get("__name__") in LIGHTNING:
        raise ExternalStateError(
            "Lightning fetches a batch ahead of the step, so the state of this iterator is one batch too far: "
            "pass ResumableDataLoader(PipelineDataset(pipeline), None), with the callback ResumeInput()"
        )


def _is_accelerate(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return module == SAVING or (module, frame.f_code.co_name) == REGISTERING
