"""A pipeline that can be run, and the position of a state of its iterators."""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar, final

from ..errors import InvalidArgument, StateMismatch, UnencodableState
from ..state.leased_numbers import LEASES
from ..state.partitions import EPOCH_REACHED
from ..state.value import LARGEST_COUNT, MAX_DEPTH, State, freeze, unpack, unpack_count
from .fingerprint import fingerprint
from .foreign_source import inexact_sources
from .graph import walk
from .identity import EPOCHS, ITEMS, LATER_EPOCHS, NOTHING, PARTS, RANK, Dependence
from .lookup import looks_up
from .saved_state import saved_state
from .stage import Stage

T = TypeVar("T")

# The other 50 levels are for a checkpoint around the state, and for values in the state saved by
# functions and sources.
MOST_LEVELS: Final = MAX_DEPTH - 50


EVERYTHING: Final = ITEMS | EPOCHS | RANK | PARTS
"""Dependence of a resume that draws items again."""


class SavedPosition(NamedTuple):
    """The position of a state.

    Attributes:
      fingerprint: of the pipeline that was saved.
      epoch: the epoch in which the iterator was started.
      step: number of items handed out.
      ahead: number of items handed out since ``positions`` were taken.
      positions: the positions of the stages.
      epoch_reached: the epoch of the last item, if the state has it.
    """

    fingerprint: Any
    epoch: int
    step: int
    ahead: int
    positions: State
    epoch_reached: int | None


def saved_position(stage: Stage[Any], state: State) -> SavedPosition:
    """The position of ``state``, of a `PipelineIterator` over ``stage``.

    Raises:
      StateMismatch: if ``state`` is not such a state.
    """
    try:
        state = freeze(state)
    except UnencodableState as error:
        raise StateMismatch(f"this is not a state: {error}", stage) from None
    if isinstance(state, dict) and LEASES in state:
        raise StateMismatch(
            "this is a state of leases, with items that were handed out and not done: pass it to "
            "rs.Leases(pipeline, state=state)"
        )
    names = ("fingerprint", "epoch", "step", "ahead", "pipeline", EPOCH_REACHED)
    saved, epoch, step, ahead, positions, reached = unpack(
        stage, state, *names, optional=EPOCH_REACHED
    )
    step = unpack_count(stage, "step", step)
    ahead = unpack_count(stage, "ahead", ahead, step, f"step={step}")
    epoch = unpack_count(stage, "epoch", epoch, LARGEST_COUNT)
    if EPOCH_REACHED in state:
        reached = unpack_count(stage, EPOCH_REACHED, reached, LARGEST_COUNT)
    return SavedPosition(saved, epoch, step, ahead, positions, reached)


def dependence_of_resume(ahead: int, epoch: int) -> Dependence:
    """Dependence, on all stages, of a state of ``epoch`` before ``ahead`` items drawn again."""
    return (EVERYTHING if ahead else NOTHING) | (LATER_EPOCHS if epoch else NOTHING)


@final
class RunnablePipeline(Generic[T]):
    """A pipeline whose states can be saved, with facts that all its iterators need, found out once.

    Args:
      stage: the last stage.

    Attributes:
      stage: as given.
      inexact: the sources whose position cannot be restored, with their paths.
      resumes_before: whether a stage resumes before its items, as in `SavedState`.

    Raises:
      InvalidArgument: if a state would be nested too deeply to be saved, giving the number of
        levels and the maximum.
    """

    def __init__(self, stage: Stage[T]) -> None:
        levels = state_levels(stage)
        if levels > MOST_LEVELS:
            raise InvalidArgument(
                f"the state of a pipeline must be nested at most {MOST_LEVELS} levels deep, got {levels}; "
                "a stage adds one or more, unless a later stage looks its items up by index"
            )
        self.stage = stage
        self.inexact = list(inexact_sources(stage))
        self.resumes_before = any(saved_state(found).resumes_before for found, _ in walk(stage))
        self._fingerprints: dict[Dependence, str] = {}

    def fingerprint(self, dependence: Dependence) -> str:
        """The `fingerprint` of a state that relies on ``dependence`` in all stages."""
        if dependence not in self._fingerprints:
            self._fingerprints[dependence] = fingerprint(self.stage, dependence)
        return self._fingerprints[dependence]


def state_levels(stage: Stage[Any]) -> int:
    """The most levels of dicts and lists that a state of ``stage`` may have.

    Values saved by functions and sources are not counted.
    """
    deepest = 0
    waiting = [(stage, 0)]
    while waiting:
        found, levels = waiting.pop()
        if looks_up(found):
            levels += 1
        else:
            levels += saved_state(found).levels
            waiting += [(upstream, levels) for upstream in found.inputs]
        deepest = max(deepest, levels)
    return deepest
