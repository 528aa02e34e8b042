"""Changes of a pipeline since a state was saved from which the pipeline can resume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline, below, in_epoch
from .epochs import ByEpoch
from .evidence import Evidence
from .fingerprint import SHARED, fingerprint
from .identity import SO_FAR, Dependence
from .pipelines_by_epoch import PIPELINES, follows_from_repeats, holds_by_epoch
from .stage import Stage
from .transform import PassThrough


class ChangedArgument(NamedTuple):
    """An argument that differs from a saved state.

    Attributes:
      stage: name of the stage with the argument.
      path: of the stage.
      argument: as errors call it.
      saved: the value in the state: a timeline as users write it, any other value as in the
        fingerprint; None if the fingerprint leaves the value out.
      new: the present value.
    """

    stage: str
    path: str
    argument: str
    saved: Any
    new: Any


def changed_arguments(
    saved: str, stage: Stage[Any], dependence: Dependence
) -> list[ChangedArgument]:
    """Differences of the fingerprints ``saved`` and of ``stage``, the last stage first.

    Left out are evidence of the content of data, and fields that identify the rank.

    Args:
      saved: fingerprint of a state that fits.
      stage: the last stage.
      dependence: dependence of the state on all stages, as in `fingerprint`.
    """
    return changes_between(saved, fingerprint(stage, dependence), stage)


def changes_between(saved: str, present: str, stage: Stage[Any]) -> list[ChangedArgument]:
    """`changed_arguments` for two fingerprints, whose fields ``stage`` explains.

    Args:
      saved: fingerprint of a state.
      present: fingerprint of a later state, or of ``stage``.
      stage: a stage that can resume from both.
    """
    if saved == present:
        return []
    trees = SavedPipeline.read(saved), SavedPipeline.read(present)
    found = _in_epochs(*trees, stage, "pipeline")
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _in_epochs(
    theirs: SavedPipeline, ours: SavedPipeline, stage: Stage[Any], path: str
) -> list[ChangedArgument]:
    """Differences between two stages that may be pipelines by epoch."""
    saved, present = theirs.epochs, ours.epochs
    if len(saved) == len(present) == 1:
        return list(_between(theirs, ours, stage, path))
    found = list[ChangedArgument]()
    then, now = ({first for first, _ in pairs} for pairs in (saved, present))
    epochs = then & now
    if all(map(follows_from_repeats, (tree for tree in (theirs, ours) if len(tree.epochs) > 1))):
        epochs = {first for first, tree in [*saved, *present] if holds_by_epoch(tree)}
    elif then != now:
        values = PIPELINES.written_value(tuple(saved)), PIPELINES.written_value(tuple(present))
        found.append(ChangedArgument(BY_EPOCH, path, PIPELINES.argument, *values))
    stages = [(0, stage)]
    if isinstance(stage, ByEpoch):
        stages = list(zip([0, *stage.starts[1:]], stage.upstreams, strict=True))
    for first in sorted(epochs):
        left, right = in_epoch(saved, first), in_epoch(present, first)
        found += _between(left, right, in_epoch(stages, first), path)
    return found


def _between(
    theirs: SavedPipeline, ours: SavedPipeline, stage: Stage[Any], path: str
) -> Iterator[ChangedArgument]:
    while isinstance(stage, PassThrough):  # left out of fingerprints
        stage = stage.upstream
    name = type(stage).__name__
    if stage._run_changes.may_begin:  # left out of fingerprints too while without effect
        theirs, ours = theirs.with_stage(name), ours.with_stage(name)
    if theirs.name != ours.name:
        yield ChangedArgument(ours.name, path, "stage", theirs.name, ours.name)
        return
    # The stage may have been planned for a later epoch, and have been exchanged since.
    if name != ours.name:
        return
    saved, present = theirs.fields, ours.fields
    argument = stage._run_changes.argument(stage)
    then, now = (argument.timeline(saved), argument.timeline(present)) if argument else (None, None)
    if argument and then and now and then != now:
        values = argument.written_value(then), argument.written_value(now)
        yield ChangedArgument(name, path, argument.argument, *values)
    for field, described in stage._identity_fields.items():
        is_timeline = then and described.when >= SO_FAR
        of_all = described.when & SHARED and not isinstance(getattr(stage, field), Evidence)
        if of_all and not is_timeline and saved.get(field) != present.get(field):
            shown = described.shown_as or field
            yield ChangedArgument(name, path, shown, saved.get(field), present.get(field))
    before, inputs = theirs.inputs, ours.inputs
    if len(before) != len(inputs):
        yield ChangedArgument(name, path, "number of inputs", len(before), len(inputs))
    for number, pair in enumerate(zip(before, inputs, strict=False)):
        yield from _in_epochs(*pair, stage.inputs[number], below(path, inputs, number))
