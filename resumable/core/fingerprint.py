"""The fingerprint of a pipeline: the parts that must be equal where a run is resumed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Final, NamedTuple

from ..state.saved_pipeline import SavedPipeline
from .epochs import ByEpoch
from .evidence import UNKNOWN, Evidence
from .function_state import CallsFunction
from .identity import (
    ALWAYS,
    ANYTHING,
    ENDS,
    EPOCHS,
    ITEMS,
    LATER_EPOCHS,
    NOTHING,
    OVER_EPOCHS,
    PARTS,
    RANK,
    Dependence,
    IdentityField,
)
from .stage import Stage
from .timeline import Timeline
from .transform import PassThrough

SHARED: Final = ALWAYS | ITEMS | EPOCHS
"""Fields for one of these are equal on all ranks; `RANK` or `PARTS` alone identify the rank."""


def fingerprint(stage: Stage[Any], dependence: Dependence = NOTHING) -> str:
    """The identity of a pipeline: its stages with the identity fields that differ from defaults.

    A field equal to its default is left out, so a field added later keeps old states readable. A
    field of `Evidence` counts only where the state has evidence of the same kind.

    Args:
      stage: the last stage.
      dependence: dependence of the state on all stages, as in `Stage.depends_on`.
    """
    return identified(stage, dependence).as_text()


def shared_fingerprint(stage: Stage[Any], *, of_rank: bool = False) -> str:
    """The identity of a pipeline on all ranks, and of the items of each step by number.

    Fields for `RANK` or `PARTS` alone identify the rank and are left out unless ``of_rank``. All
    evidence is left out, since evidence may differ between ranks.
    """
    considered = ANYTHING if of_rank else SHARED
    return _without_evidence(identified(stage, ITEMS | EPOCHS, considered)).as_text()


def holds_items_of_rank(stage: Stage[Any]) -> bool:
    """Whether a stage after `shard` holds items of its rank, so that the states of ranks differ."""
    return shared_fingerprint(stage, of_rank=True) != shared_fingerprint(stage)


def _dependence(stage: Stage[Any]) -> Dependence:
    """The dependence of the state of ``stage``, including the state of its user function.

    A function with state has seen items of its rank and of the rank's partitions. `ENDS` is added
    to any dependence: if ranks end at different steps, a state records how far its own rank was.
    """
    held = PARTS | RANK if isinstance(stage, CallsFunction) and stage.carries_state else NOTHING
    return stage.depends_on | held | (ENDS if stage.depends_on else NOTHING)


class StageIdentity(NamedTuple):
    """The identity of a stage and of the stages before it.

    Attributes:
      name: name of the stage.
      version: version of the shape of the state.
      fields: value and default of each field that must be equal.
      described: all of `Stage.identity`.
      upstreams: identities of the upstreams.
      stage: the identified stage.
      dependence: dependence of later stages.
    """

    name: str
    version: int
    fields: dict[str, tuple[Any, Any]]
    described: Mapping[str, IdentityField]
    upstreams: list[StageIdentity]
    stage: Stage[Any]
    dependence: Dependence

    @property
    def fields_set(self) -> dict[str, Any]:
        """The values of the fields that differ from their defaults."""
        return {name: value for name, (value, default) in self.fields.items() if value != default}

    @property
    def of_rank(self) -> list[str]:
        """The names of the fields that must be equal only because the rank must be the same."""
        considered = self.dependence & (SHARED | LATER_EPOCHS | OVER_EPOCHS)
        return [name for name in self.fields if not self.described[name].when & considered]

    @property
    def epochs(self) -> list[tuple[int, StageIdentity]]:
        """(first epoch, pipeline) pairs; only ``self`` if all epochs have the same pipeline."""
        if not isinstance(self.stage, ByEpoch):
            return [(0, self)]
        return list(zip([0, *self.stage.starts[1:]], self.upstreams, strict=True))

    def timeline(self, fields: Mapping[str, Any]) -> Timeline | None:
        """The timeline in ``fields`` of the changeable argument; None if unreadable."""
        argument = self.stage._run_changes.argument(self.stage)
        return None if argument is None else argument.timeline(fields)

    @property
    def present_timeline(self) -> Timeline | None:
        """`timeline` of the present fields."""
        return self.timeline({name: value for name, (value, _) in self.fields.items()})

    def as_text(self) -> str:
        """The fingerprint."""
        return json.dumps(self._node(), separators=(",", ":"), default=Evidence.as_json)

    def as_saved(self) -> SavedPipeline:
        """The pipeline in the form of a state."""
        return SavedPipeline.read(self.as_text())

    def _node(self) -> list[Any]:
        fields = self.fields_set
        if self.stage._run_changes.may_begin and not fields:
            return self.upstreams[0]._node()
        name = self.name if self.version == 1 else f"{self.name}@{self.version}"
        own = [name, fields] if fields else [name]
        return own + [upstream._node() for upstream in self.upstreams]


def identified(
    stage: Stage[Any], dependence: Dependence, considered: Dependence = ANYTHING
) -> StageIdentity:
    """The identity of the graph up to ``stage``, where later stages have ``dependence``.

    A `PassThrough` has no identity. Fields with no dependence in ``considered`` are left out.
    """
    if isinstance(stage, PassThrough):
        return identified(stage.upstream, dependence, considered)
    if dependence >= ITEMS:
        dependence -= OVER_EPOCHS  # implied by `ITEMS`
    defaults = {field.name: field.default for field in dataclasses.fields(stage)}
    described = stage._identity_fields
    # Sorted, because fingerprints are first compared as text.
    names = [
        name
        for what in sorted((dependence | ALWAYS) & considered)
        for name, field in described.items()
        if what in field.when
    ]
    values = {name: getattr(stage, name) for name in names}
    fields = {
        name: (value, UNKNOWN if isinstance(value, Evidence) else defaults.get(name, MISSING))
        for name, value in values.items()
    }
    inputs = stage.inputs
    own = dependence | _dependence(stage) if inputs else dependence
    upstreams = [identified(upstream, own, considered) for upstream in inputs]
    name, version = type(stage).__name__, stage.version
    return StageIdentity(name, version, fields, described, upstreams, stage, dependence | ALWAYS)


def _without_evidence(identity: StageIdentity) -> StageIdentity:
    fields = {
        name: pair for name, pair in identity.fields.items() if not isinstance(pair[0], Evidence)
    }
    upstreams = list(map(_without_evidence, identity.upstreams))
    return identity._replace(fields=fields, upstreams=upstreams)
