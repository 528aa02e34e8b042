"""Compare a pipeline with a saved pipeline."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import partial
from typing import Any, Final, TypeAlias, final

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline, below, in_epoch
from .differences import (
    ArgumentDifference,
    Difference,
    FixedDifference,
    InputsDifference,
    ReachedField,
)
from .epochs_difference import EpochCount, EpochsDifference, PipelinesOfEpochs
from .evidence import Evidence
from .fingerprint import StageIdentity
from .identity import (
    ENDS,
    LATER_EPOCHS,
    NOTHING,
    OVER_EPOCHS,
    PARTS,
    RANK,
    SO_FAR,
    Dependence,
    IdentityField,
)
from .library_stages import changes_of
from .mismatch import Mismatch, Rule
from .stage import Stage, own_partitions
from .timeline import UNBOUNDED, Timeline

IsOwn: TypeAlias = Callable[[Stage[Any]], bool]

OF_RANK: Final = RANK | PARTS | ENDS
"""Dependences on the division of items among ranks and partitions."""


def differences(saved: SavedPipeline, present: StageIdentity, is_own: IsOwn) -> list[Difference]:
    """Differences of ``present`` from ``saved``, the last stage first, and changeable arguments.

    Args:
      saved: the pipeline of a state.
      present: the present pipeline.
      is_own: whether the state is of the rank of a stage, for states without a rank, as version 0.2
        wrote.
    """
    return list(_in_epochs(saved, present, EpochCount(), is_own))


def _in_epochs(
    saved: SavedPipeline,
    ours: StageIdentity,
    counting: EpochCount,
    is_own: IsOwn,
    path: str = "pipeline",
) -> Iterator[Difference]:
    """The differences of two pipelines whose epochs ``counting`` counts."""
    theirs, present = saved.epochs, ours.epochs
    is_of_all = len(theirs) == len(present) == 1
    is_damaged = len(theirs) == 1 and saved.name == BY_EPOCH
    if is_damaged or (is_of_all and counting.repeat is None):
        yield from _Comparison(saved, ours, path, counting.divides, is_own).differences()
        return
    starts = sorted({first for first, _ in [*theirs, *present]})
    spans = []
    for first, following in zip(starts, [*starts[1:], UNBOUNDED], strict=True):
        pair = in_epoch(theirs, first), in_epoch(present, first)
        found = _Comparison(*pair, path, counting.divides, is_own).differences()
        spans.append(PipelinesOfEpochs(first, following, list(found)))
    mismatches = [mismatch for span in spans for mismatch in span.mismatches]
    yield EpochsDifference(
        mismatches, ours.stage, path=path, counting=counting, trees=(saved, ours), spans=spans
    )


@final
@dataclass(frozen=True)
class _Comparison:
    """Two stages at one place, compared together with earlier stages.

    Attributes:
      in_state: the saved stage.
      ours: the present stage.
      path: of the stage.
      divides: the later stage that divides the items into partitions, if any.
      is_own: as in `differences`.
    """

    in_state: SavedPipeline
    ours: StageIdentity
    path: str
    divides: Stage[Any] | None
    is_own: IsOwn

    @property
    def as_if_saved(self) -> SavedPipeline:
        """The saved stage. A new stage that may begin mid-run counts as saved with its defaults."""
        may_begin = self.ours.stage._run_changes.may_begin
        return self.in_state.with_stage(self.ours.name) if may_begin else self.in_state

    def differences(self) -> Iterator[Difference]:
        """All differences, the last stage first."""
        saved = self.as_if_saved
        if problem := self._other_stage(saved):
            yield self._fixed(problem)
            return
        fields = self._fields(saved)
        timeline = self.ours.timeline(fields)
        grown = fields
        if self._may_grow and self._continues_names(fields.get("names")):
            grown = {**fields, "names": self.ours.fields["names"][0]}
        for field in [*self.ours.fields, *sorted(fields.keys() - self.ours.fields.keys())]:
            if timeline is None or not self._when(field) >= SO_FAR:
                yield from self._of_field(field, grown)
        if timeline is not None:
            yield from self._of_argument(fields, timeline)
        yield from self._of_inputs(saved, timeline)

    def _fixed(self, mismatch: Mismatch) -> Difference:
        return FixedDifference([mismatch], self.ours.stage)

    def _mismatch(self, rule: Rule, **values: Any) -> Mismatch:
        return Mismatch(rule, self.path, self.ours.name, **values)

    def _other_stage(self, saved: SavedPipeline) -> Mismatch | None:
        ours, version = self.ours, saved.version
        if saved.name != ours.name:
            reason = _why_another_stage(saved.name, ours)
            return Mismatch(
                Rule.STAGE, self.path, saved=saved.name, present=ours.name, reason=reason
            )
        if version and not (re.fullmatch("[0-9]{1,9}", version) and int(version) <= ours.version):
            return self._mismatch(
                Rule.VERSION, saved=version[:9], present=ours.version, whole_run=True
            )
        return None

    def _fields(self, saved: SavedPipeline) -> Mapping[str, Any]:
        """The saved fields, with the rank if the state is known to be of this rank."""
        ours = self.ours
        if not self._names_no_rank(saved.fields) or not self.is_own(ours.stage):
            return saved.fields
        return {**saved.fields, **{name: ours.fields[name][0] for name in ours.of_rank}}

    def _names_no_rank(self, fields: Mapping[str, Any]) -> bool:
        """Whether the saved ``fields`` name no rank, although the present stage has such fields."""
        return bool(self.ours.of_rank) and not any(name in fields for name in self.ours.of_rank)

    @property
    def _may_grow(self) -> bool:
        return self.ours.stage._run_changes.may_grow(self.ours.stage)

    def _continues_names(self, saved: Any) -> bool:
        """Whether the inputs begin with the ``saved`` names; True without saved names."""
        names = self.ours.fields["names"][0]
        if saved is None:
            return True
        return isinstance(saved, list) and list((names or ())[: len(saved)]) == saved

    def _when(self, field: str) -> Dependence:
        """When the field must be equal."""
        described = self.ours.described
        return described[field].when if field in described else NOTHING

    def _of_argument(self, fields: Mapping[str, Any], saved: Timeline) -> Iterator[Difference]:
        """The difference of the argument by position, saved as the timeline ``saved``."""
        stage, present = self.ours.stage, self.ours.present_timeline
        argument = stage._run_changes.argument(stage)
        if argument is None or present is None:
            return
        undo = partial(stage._run_changes.with_timeline, timeline=saved)
        fields_so_far = [field for field in self.ours.fields if self._when(field) >= SO_FAR]
        found = [one for field in fields_so_far for one in self._of_value(field, fields)]
        mismatches = [mismatch for one in found for mismatch in one.mismatches]
        if mismatches and (other := self._other_stage(self.in_state)):
            mismatches = [other]
        yield ArgumentDifference(mismatches, stage, undo, self.path, argument, saved, present)

    def _of_field(self, field: str, fields: Mapping[str, Any]) -> Iterator[Difference]:
        ours = self.ours
        current, _ = ours.fields.get(field, (MISSING, MISSING))
        when = self._when(field)
        if isinstance(current, Evidence):
            if field in fields and (reason := current.contradiction(fields[field])):
                yield self._fixed(self._mismatch(Rule.CONTENT, reason=reason))
        elif when == ENDS:
            # Version 0.2 did not save the field, or the ranks ended at one step.
            if fields.get(field) is not None:
                compare = partial(self._unequal, field, fields[field])
                unequal = compare(current)
                yield ReachedField(
                    [unequal] if unequal else [], ours.stage, field=field, compare=compare
                )
        elif when == OVER_EPOCHS:
            yield from self._over_epochs(field, fields)
        elif when != LATER_EPOCHS or (
            field in fields and not (field in ours.fields and current is MISSING)
        ):
            # Earlier versions did not save the field, or the field makes no difference.
            yield from self._of_value(field, fields)

    def _over_epochs(self, field: str, fields: Mapping[str, Any]) -> Iterator[Difference]:
        """The difference of a length of an epoch; earlier versions did not save the length."""
        stage, described = self.ours.stage, self.ours.described[field]
        mismatch = None
        if field in fields:
            mismatch = self._unequal(field, fields[field], getattr(stage, field))
        if mismatch and type(fields[field]) is int:
            undo = partial(dataclasses.replace, **{described.shown_as or field: fields[field]})
            yield ReachedField([mismatch], stage, undo, field)
        elif mismatch:
            yield self._fixed(mismatch)

    def _of_value(self, field: str, fields: Mapping[str, Any]) -> Iterator[Difference]:
        """The difference of a field that must be equal."""
        ours = self.ours
        current, default = ours.fields.get(field, (MISSING, MISSING))
        saved = fields.get(field, default)
        if saved is MISSING and field in ours.of_rank and self._names_no_rank(fields):
            reason = (
                "the state does not say of which rank it is, as version 0.2 did not note it, and this pipeline is of "
                f"{field}={current}; a stage after it may hold something of its rank"
            )
            yield self._fixed(self._mismatch(Rule.CONTENT, reason=reason, of_rank=True))
        elif mismatch := self._unequal(field, saved, current):
            yield self._fixed(mismatch)

    def _unequal(self, field: str, saved: Any, current: Any) -> Mismatch | None:
        """The mismatch of a field whose values differ; None if the values are equal."""
        if saved == current or saved == _as_json(current):
            return None
        described = self.ours.described.get(field, IdentityField(NOTHING))
        return self._mismatch(
            Rule.FIELD,
            argument=described.shown_as or field,
            saved=saved,
            present=current,
            reason=described.hint,
            of_rank=field in self.ours.fields and bool(described.when & OF_RANK),
            whole_run=described.whole_run,
        )

    def _of_inputs(self, saved: SavedPipeline, timeline: Timeline | None) -> Iterator[Difference]:
        ours, before, now = self.ours, len(saved.inputs), len(self.ours.upstreams)
        changes, stage = ours.stage._run_changes, ours.stage
        has_new = self._may_grow and 0 < before < now
        mismatches = []
        if before != now:
            reason = "was an input added or removed?"
            mismatches = [self._mismatch(Rule.INPUTS, saved=before, present=now, reason=reason)]
        if has_new or (self._may_grow and timeline is None and before == now):
            undo = None if timeline else partial(changes.without_joined, count=before)
            refused = changes.cannot_join(stage, before)
            yield InputsDifference(mismatches, stage, undo, self.path, before, refused)
        elif mismatches:
            yield FixedDifference(mismatches, stage)
            return
        divides: Stage[Any] | None = self.divides
        if own_partitions(stage):
            divides = stage
        elif any(one._rank_share != stage._rank_share for one in stage.inputs):
            divides = None  # the dealt-out items come before the partitions
        counting = EpochCount(stage, self.path, divides)
        for number, pair in enumerate(zip(saved.inputs, ours.upstreams, strict=False)):
            yield from _in_epochs(
                *pair, counting, self.is_own, below(self.path, ours.upstreams, number)
            )


def _why_another_stage(saved: str, ours: StageIdentity) -> str:
    """The likely cause of a stage ``ours`` instead of a stage named ``saved``."""
    if removed := changes_of(saved).if_removed:
        return removed
    cause, instead = "was a stage added, removed or moved?", ours.stage._run_changes.if_added
    is_new = [saved] == [one.name for one in ours.upstreams]
    return f"{cause} {instead}" if instead and is_new else cause


def _as_json(value: Any) -> Any:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value
