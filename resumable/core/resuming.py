"""Whether a pipeline can resume a run, and how the run may be changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..errors import StateMismatch
from ..state.saved_pipeline import SavedPipeline, UnreadableFingerprint
from .comparing import IsOwn, differences
from .differences import FoundArgument, fixed_mismatches, mismatches_in
from .fingerprint import fingerprint, identified
from .mismatch import Mismatch, Rule
from .reliance import NOTHING, Reliance
from .saved_run import PipelineThen, SavedPosition, SavedRun, relied_on_by
from .stage import Stage


class RunPosition(NamedTuple):
    """Where a run stands, and from where on its arguments by position may change.

    Attributes:
      epoch: of the last item that was handed out.
      arguments: all of them.
    """

    epoch: int
    arguments: list[FoundArgument]


def compare(
    stage: Stage[Any], position: SavedPosition, present: str | None = None
) -> list[Mismatch]:
    """Where ``stage`` does not fit a run at ``position``; empty if it can resume the run.

    Args:
      stage: the last stage.
      position: of a state.
      present: the fingerprint of ``stage`` with what a state at ``position`` relies on, if it is known.
    """
    saved, relied_on = position.fingerprint, relied_on_by(position.ahead, position.epoch)
    if isinstance(saved, str) and saved == (present or fingerprint(stage, relied_on)):
        return []
    return _compared(stage, position, relied_on, None)[1]


def run_position(stage: Stage[Any], position: SavedPosition) -> RunPosition:
    """Where a run at ``position`` stands, with all arguments by position of ``stage``.

    Raises:
      StateMismatch: if the pipeline differs in something else, so that it cannot resume the run.
    """
    relied_on = relied_on_by(position.ahead, position.epoch)
    arguments: list[FoundArgument] = []
    run, found = _compared(stage, position, relied_on, arguments)
    if found or run is None:
        raise StateMismatch(f"the state belongs to another pipeline: {found[0]}", stage)
    return RunPosition(run.epoch, arguments)


def explain_mismatch(
    saved: Any,
    stage: Stage[Any],
    relied_on: Reliance = NOTHING,
    is_own: IsOwn = lambda stage: False,
) -> str | None:
    """Why ``stage`` is not the pipeline with the fingerprint ``saved``, wherever a run stands; None if it is.

    Args:
      saved: the fingerprint of a state.
      stage: the last stage.
      relied_on: as in `fingerprint`.
      is_own: whether the state is of the rank of a stage, if it does not name its rank.
    """
    if isinstance(saved, str) and saved == fingerprint(stage, relied_on):
        return None
    try:
        tree = SavedPipeline.read(saved)
    except UnreadableFingerprint as error:
        return str(error)
    found = differences(tree, identified(stage, relied_on), is_own)
    return next((str(mismatch) for one in found for mismatch in one.mismatches), None)


def with_rank(saved: Any, stage: Stage[Any]) -> Any:
    """The fingerprint ``saved`` of a state that is known to be of this rank, with the rank in it."""
    mismatch = explain_mismatch(saved, stage, is_own=lambda deal: True)
    return saved if mismatch else fingerprint(stage)


def _compared(
    stage: Stage[Any],
    position: SavedPosition,
    relied_on: Reliance,
    arguments: list[FoundArgument] | None,
) -> tuple[SavedRun | None, list[Mismatch]]:
    """The run, and where ``stage`` does not fit it. Adds arguments by position, which then may disagree."""
    try:
        tree = SavedPipeline.read(position.fingerprint)
    except UnreadableFingerprint as error:
        return None, [Mismatch(Rule.READABLE, "pipeline", reason=str(error), whole_run=True)]
    found = differences(tree, identified(stage, relied_on), partial(_is_own, position.positions))
    then = PipelineThen(stage, position.epoch + 1, arguments is not None)
    if fixed := list(fixed_mismatches(found, then)):
        return None, fixed
    run, mismatches = SavedRun(stage, position, then), list[Mismatch]()
    try:
        mismatches += mismatches_in(run, found, [] if arguments is None else arguments)
    except StateMismatch:
        # It may be a state of a pipeline that differs in what its repeats repeat.
        mismatches = mismatches or then.problems[:1]
        if not mismatches:
            raise
    if mismatches and then.problems:
        mismatches[0] = replace(mismatches[0], try_before=then.problems[0].try_before)
    return run, mismatches


def _is_own(positions: Any, stage: Stage[Any]) -> bool:
    """Whether the ``positions`` of a state show that the rank of ``stage`` has saved it."""
    tells = getattr(stage, "is_own", None)
    return tells is not None and bool(tells(positions))
