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
from .identity import NOTHING, Dependence
from .mismatch import Mismatch, Rule
from .runnable import SavedPosition, dependence_of_resume
from .saved_run import SavedRun
from .stage import Stage


class RunPosition(NamedTuple):
    """The position of a run, and the positions from which arguments may change.

    Attributes:
      epoch: the epoch of the last item handed out.
      arguments: all arguments by position.
    """

    epoch: int
    arguments: list[FoundArgument]


def compare(stage: Stage[Any], position: SavedPosition) -> list[Mismatch]:
    """Mismatches of ``stage`` with a run at ``position``; empty if ``stage`` can resume the run."""
    saved, dependence = position.fingerprint, dependence_of_resume(position.ahead, position.epoch)
    if isinstance(saved, str) and saved == fingerprint(stage, dependence):
        return []
    found = _compared(stage, position, dependence, lists_arguments=False)[1]
    return [one for one in found if isinstance(one, Mismatch)]


def run_position(stage: Stage[Any], position: SavedPosition) -> RunPosition:
    """The run at ``position``, with all arguments by position of ``stage``.

    Raises:
      StateMismatch: if the pipeline has any other difference, and so cannot resume the run.
    """
    dependence = dependence_of_resume(position.ahead, position.epoch)
    run, found = _compared(stage, position, dependence, lists_arguments=True)
    for mismatch in (one for one in found if isinstance(one, Mismatch)):
        # `compare` knows more of unchanged stages, so its mismatch may say from which epoch on a
        # change is allowed.
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
    dependence: Dependence = NOTHING,
    is_own: IsOwn = lambda stage: False,
) -> str | None:
    """Why ``stage`` lacks the fingerprint ``saved``, at any position of a run; None if it fits.

    Args:
      saved: the fingerprint of a state.
      stage: the last stage.
      dependence: as in `fingerprint`.
      is_own: whether a state without a rank is of the rank of a stage.
    """
    if isinstance(saved, str) and saved == fingerprint(stage, dependence):
        return None
    try:
        tree = SavedPipeline.read(saved)
    except UnreadableFingerprint as error:
        return str(error)
    found = differences(tree, identified(stage, dependence), is_own)
    return next((str(mismatch) for one in found for mismatch in one.mismatches), None)


def with_rank(saved: Any, stage: Stage[Any]) -> Any:
    """The fingerprint ``saved`` of a state known to be of this rank, with the rank added."""
    mismatch = explain_mismatch(saved, stage, is_own=lambda deal: True)
    return saved if mismatch else fingerprint(stage)


def _compared(
    stage: Stage[Any], position: SavedPosition, dependence: Dependence, *, lists_arguments: bool
) -> tuple[SavedRun | None, list[Mismatch | FoundArgument]]:
    """The run, and the mismatches of ``stage``, with all arguments by position if listed."""
    try:
        tree = SavedPipeline.read(position.fingerprint)
    except UnreadableFingerprint as error:
        return None, [Mismatch(Rule.READABLE, "pipeline", reason=str(error), whole_run=True)]
    differing = differences(
        tree, identified(stage, dependence), partial(_is_own, position.positions)
    )
    run = SavedRun(stage, position, lists_arguments)
    if fixed := [mismatch for one in differing if (mismatch := one.fixed(run))]:
        return None, [*fixed]
    found = list[Mismatch | FoundArgument]()
    try:
        for one in differing:
            for each in one.in_run(run):
                found.append(each)  # one by one, to keep results found before an error
    except StateMismatch:
        # The positions may belong to the former input of a repeat.
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
    """Whether the ``positions`` of a state show that the rank of ``stage`` has saved the state."""
    tells = getattr(stage, "is_own", None)
    return tells is not None and bool(tells(positions))
