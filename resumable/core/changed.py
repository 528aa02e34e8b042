"""What was changed of a pipeline since a state was saved that it can go on from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..state.nodes import below, node_parts
from .epochs import ByEpoch
from .evidence import Evidence
from .fingerprint import SHARED, fingerprint
from .reliance import SO_FAR, Reliance
from .saved_epochs import (
    BY_EPOCH,
    PIPELINES,
    follows_from_repeats,
    holds_by_epoch,
    in_saved_epoch,
    nodes_by_epoch,
)
from .stage import Stage
from .transform import PassThrough


class ChangedArgument(NamedTuple):
    """An argument that is another one than in a saved state.

    Attributes:
      stage: name of the stage whose argument it is.
      path: of the stage.
      argument: as errors call it.
      saved: its value in the state: if it says from where on it holds, as users write it; otherwise as the
        fingerprint has it, None if that leaves it out.
      new: its value now.
    """

    stage: str
    path: str
    argument: str
    saved: Any
    new: Any


def changed_arguments(saved: str, stage: Stage[Any], relied_on: Reliance) -> list[ChangedArgument]:
    """What differs between the fingerprint ``saved`` and that of ``stage``, the last stage first.

    Evidence of what data were is left out, and so are fields that say which rank it is.

    Args:
      saved: of a state that fits.
      stage: the last stage.
      relied_on: what the state relies on in all stages, as in `fingerprint`.
    """
    return changes_between(saved, fingerprint(stage, relied_on), stage)


def changes_between(saved: str, present: str, stage: Stage[Any]) -> list[ChangedArgument]:
    """The same of two fingerprints, of which ``stage`` says what their fields are.

    Args:
      saved: of a state.
      present: of a later one, or of ``stage``.
      stage: that can go on from both.
    """
    if saved == present:
        return []
    found = _in_epochs(json.loads(saved), json.loads(present), stage, "pipeline")
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _in_epochs(theirs: Any, ours: Any, stage: Stage[Any], path: str) -> list[ChangedArgument]:
    """What differs between two nodes that may have pipelines by epoch."""
    saved, present = nodes_by_epoch(theirs), nodes_by_epoch(ours)
    if len(saved) == len(present) == 1:
        return list(_between(theirs, ours, stage, path))
    found = list[ChangedArgument]()
    then, now = ({first for first, _ in pairs} for pairs in (saved, present))
    epochs = then & now
    written = [node for node in (theirs, ours) if len(nodes_by_epoch(node)) > 1]
    if all(map(follows_from_repeats, written)):
        epochs = {first for first, node in [*saved, *present] if holds_by_epoch(node)}
    elif then != now:
        values = PIPELINES.written_value(tuple(saved)), PIPELINES.written_value(tuple(present))
        found.append(ChangedArgument(BY_EPOCH, path, PIPELINES.argument, *values))
    stages = [(0, stage)]
    if isinstance(stage, ByEpoch):
        stages = list(zip([0, *stage.starts[1:]], stage.upstreams, strict=True))
    for first in sorted(epochs):
        left, right, own = (in_saved_epoch(pairs, first) for pairs in (saved, present, stages))
        found += _between(left, right, own, path)
    return found


def _between(theirs: Any, ours: Any, stage: Stage[Any], path: str) -> Iterator[ChangedArgument]:
    while isinstance(stage, PassThrough):  # which a fingerprint leaves out
        stage = stage.upstream
    if stage._run_changes.may_begin:  # one that does nothing is left out too
        theirs, ours = (_with_stage(node, type(stage).__name__) for node in (theirs, ours))
    (was, saved, before), (name, present, upstreams) = node_parts(theirs), node_parts(ours)
    was, name = was.partition("@")[0], name.partition("@")[0]
    if was != name:
        yield ChangedArgument(name, path, "stage", was, name)
        return
    # It may be planned for a later epoch, and have been exchanged since.
    if type(stage).__name__ != name:
        return
    argument = stage._run_changes.argument(stage)
    then, now = (argument.timeline(saved), argument.timeline(present)) if argument else (None, None)
    if argument and then and now and then != now:
        values = argument.written_value(then), argument.written_value(now)
        yield ChangedArgument(name, path, argument.argument, *values)
    for field, described in stage._identity_fields.items():
        told = then and described.when >= SO_FAR
        of_all = described.when & SHARED and not isinstance(getattr(stage, field), Evidence)
        if of_all and not told and saved.get(field) != present.get(field):
            shown = described.shown_as or field
            yield ChangedArgument(name, path, shown, saved.get(field), present.get(field))
    if len(before) != len(upstreams):
        yield ChangedArgument(name, path, "number of inputs", len(before), len(upstreams))
    for number, (left, right) in enumerate(zip(before, upstreams, strict=False)):
        yield from _in_epochs(left, right, stage.inputs[number], below(path, upstreams, number))


def _with_stage(node: Any, name: str) -> Any:
    """The ``node`` of a stage that has this ``name``; it stands for its input if it was left out."""
    return node if node_parts(node)[0].partition("@")[0] == name else [name, node]
