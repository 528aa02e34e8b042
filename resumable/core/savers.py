"""Refuse to give a state to a saver that would save it wrongly."""

# Such a saver registers an object silently, and only looks up the method. So the
# lookup is the first chance to refuse, and the caller's frame identifies the saver.
#
# Some savers ask registered objects for their state on every rank, and write the state of rank 0.
# Others fetch a batch from a loader without length before the step has the previous batch.

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, final, overload

from ..errors import ExternalStateError
from ..errors.foreign_states import ForeignSaver, saver_that_asks
from .fingerprint import holds_items_of_rank
from .own_partitions import all_own_partitions
from .stage import Stage


class HasStage(Protocol):
    """An object with a pipeline's state; a callback corrects saved states if ``has_callback``."""

    @property
    def _stage(self) -> Stage[Any] | None:
        """The last stage of the pipeline, if known."""


S = TypeVar("S", bound=HasStage)
P = ParamSpec("P")
R = TypeVar("R")


@final
class GuardedStateDict(Generic[S, P, R]):
    """A method ``state_dict`` withheld from savers whose saved state would not resume the run.

    Args:
      method: the method.
    """

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
        if saver := saver_that_asks(sys._getframe(1)):
            _refuse(one, saver)
        return MethodType(self._method, one)


def refuse_items_of_rank(saver: str, stage: Stage[Any]) -> None:
    """Refuse a pipeline that holds items of its rank, if ``saver`` keeps one state for all ranks.

    Raises:
      ExternalStateError: if the states of ranks differ and cannot be joined.
    """
    if stage._rank_share.ranks > 1 and holds_items_of_rank(stage):
        raise ExternalStateError(
            f"{saver} keeps the state of rank 0 alone, and after shard this pipeline takes more items on "
            "one rank than on another: put shard behind that, or save the state of each rank in a file of "
            "its own"
        )


def _refuse(one: HasStage, saver: ForeignSaver) -> None:
    stage = one._stage
    if saver.for_partitions and stage is not None:
        refuse_items_of_rank(saver.name, stage)
        if stage._rank_share.ranks > 1 and all_own_partitions(stage):
            raise ExternalStateError(
                f"{saver.name} keeps the state of rank 0 alone, and each rank owns other partitions: "
                f"{saver.for_partitions}"
            )
    if saver.for_streams and not getattr(one, "has_callback", False) and length_of(one) is None:
        raise ExternalStateError(
            f"{saver.name} fetches a batch ahead of the step from what has no length, so this state would be one "
            f"batch too far: {saver.for_streams}"
        )


def length_of(one: Any) -> int | None:
    """The length of a loader; None if unknown."""
    try:
        return len(one)
    except TypeError:
        return None
