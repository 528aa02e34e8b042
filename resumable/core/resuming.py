"""Whether a pipeline can resume a run, and how the run may be changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..errors import StateMismatch
from ..state.saved_pipeline import SavedPipeline, UnreadableFingerprint
from .comparing import IsOwn, differences
from .differences import FoundArgument
from .fingerprint import fingerprint, identified
from .mismatch import Mismatch, Rule
from .reliance import NOTHING, Reliance
from .runnable import SavedPosition, relied_on_by
from .saved_run import SavedRun
from .stage import Stage


class RunPosition(NamedTuple):
    """Where a run stands, and from where on its arguments by position may change.

    Attributes:
      epoch: of the last item that was handed out.
      arguments: all of them.
    """

    epoch: int
    arguments: list[FoundArgument]


def compare(stage: Stage[Any], position: SavedPosition) -> list[Mismatch]:
    """Where ``stage`` does not fit a run at ``position``; empty if it can resume the run."""
    saved, relied_on = position.fingerprint, relied_on_by(position.ahead, position.epoch)
    if isinstance(saved, str) and saved == fingerprint(stage, relied_on):
        return []
    found = _compared(stage, position, relied_on, lists_arguments=False)[1]
    return [one for one in found if isinstance(one, Mismatch)]


def run_position(stage: Stage[Any], position: SavedPosition) -> RunPosition:
    """Where a run at ``position`` stands, with all arguments by position of ``stage``.

    Raises:
      StateMismatch: if the pipeline differs in something else, so that it cannot resume the run.
    """
    relied_on = relied_on_by(position.ahead, position.epoch)
    run, found = _compared(stage, position, relied_on, lists_arguments=True)
    for mismatch in (one for one in found if isinstance(one, Mismatch)):
        # A resume knows more of stages that have not changed, so it may say from which epoch on this may be so.
        same = (
            one for one in compare(stage, position) if (one.within or one).path == mismatch.path
        )
        reason = next(same, mismatch)
        raise StateMismatch(f"the state belongs to another pipeline: {reason}", stage)
    assert run is not None
    return RunPosition(run.epoch, [one for one in found if isinstance(one, FoundArgument)])


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
    stage: Stage[Any], position: SavedPosition, relied_on: Reliance, *, lists_arguments: bool
) -> tuple[SavedRun | None, list[Mismatch | FoundArgument]]:
    """The run, and where ``stage`` does not fit it, with all arguments by position if they are listed."""
    try:
        tree = SavedPipeline.read(position.fingerprint)
    except UnreadableFingerprint as error:
        return None, [Mismatch(Rule.READABLE, "pipeline", reason=str(error), whole_run=True)]
    differing = differences(
        tree, identified(stage, relied_on), partial(_is_own, position.positions)
    )
    run = SavedRun(stage, position, lists_arguments)
    if fixed := [mismatch for one in differing if (mismatch := one.fixed(run))]:
        return None, [*fixed]
    found = list[Mismatch | FoundArgument]()
    try:
        for one in differing:
            for each in one.in_run(run):
                found.append(each)  # one by one, since what was found before an error counts
    except StateMismatch:
        # The positions may belong to the input of a repeat that has changed.
        if not any(isinstance(one, Mismatch) for one in found):
            if not run.problems:
                raise
            found.append(run.problems[0])
    for problem in run.problems[:1]:
        found = [
            replace(one, try_before=problem.try_before) if isinstance(one, Mismatch) else one
            for one in found
        ]
    return run, found


def _is_own(positions: Any, stage: Stage[Any]) -> bool:
    """Whether the ``positions`` of a state show that the rank of ``stage`` has saved it."""
    tells = getattr(stage, "is_own", None)
    return tells is not None and bool(tells(positions))
