"""Whether a pipeline can go on from a state, and from where on its arguments by position may change."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from ..errors import StateMismatch, UnencodableState
from ..state.merging import EPOCH_REACHED
from ..state.value import LARGEST_COUNT, State, freeze, unpack, unpack_count
from .fingerprint import FoundArgument, explain_mismatch
from .past import Before, Past, SavedPosition, past_of
from .reliance import EPOCHS, ITEMS, LATER_EPOCHS, NOTHING, PARTS, RANK, Reliance
from .stage import Stage

EVERYTHING: Final = ITEMS | EPOCHS | RANK | PARTS
"""What a resume relies on that draws items again."""


class Standing(NamedTuple):
    """Where a run stands, and from where on its arguments by position may change.

    Attributes:
      epoch: of the last item that was handed out.
      arguments: all of them.
    """

    epoch: int
    arguments: list[FoundArgument]


def relied_on_by(ahead: int, epoch: int) -> Reliance:
    """What a state of ``epoch`` relies on in all stages, from which ``ahead`` items are drawn again."""
    return (EVERYTHING if ahead else NOTHING) | (LATER_EPOCHS if epoch else NOTHING)


def saved_position(stage: Stage[Any], state: State) -> SavedPosition:
    """Where ``state``, of a `PipelineIterator` over ``stage``, stands.

    Raises:
      StateMismatch: if it is no such state.
    """
    try:
        state = freeze(state)
    except UnencodableState as error:
        raise StateMismatch(f"this is not a state: {error}", stage) from None
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


def mismatch(stage: Stage[Any], position: SavedPosition) -> str | None:
    """Why ``stage`` cannot go on at ``position``; None if it can."""
    return _compared(stage, position, None)[0]


def standing(stage: Stage[Any], position: SavedPosition) -> Standing:
    """Where a run at ``position`` stands, with all arguments by position of ``stage``.

    Raises:
      StateMismatch: if the pipeline differs in something else, so that it cannot go on.
    """
    found: list[FoundArgument] = []
    reason, past = _compared(stage, position, found)
    if reason:
        raise StateMismatch(f"the state belongs to another pipeline: {reason}", stage)
    assert past is not None
    return Standing(past.epoch(), found)


def _compared(
    stage: Stage[Any], position: SavedPosition, found: list[FoundArgument] | None
) -> tuple[str | None, Past | None]:
    """Why ``stage`` cannot go on, as `explain_mismatch` says; and the past, if it was asked for."""
    past: list[Past] = []

    def then(before: Before) -> Past:
        past.append(past_of(stage, position, before))
        return past[-1]

    relied_on = relied_on_by(position.ahead, position.epoch)
    is_own = partial(_is_own, position.positions)
    reason = explain_mismatch(
        position.fingerprint, stage, relied_on, is_own, then, found, position.epoch + 1
    )
    return reason, next(iter(past), None)


def _is_own(positions: Any, stage: Stage[Any]) -> bool:
    """Whether the ``positions`` of a state show that the rank of ``stage`` has saved it."""
    tells = getattr(stage, "is_own", None)
    return tells is not None and bool(tells(positions))
