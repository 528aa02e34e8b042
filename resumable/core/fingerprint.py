"""The fingerprint of a pipeline, and why a state saved by another pipeline does not fit it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, replace
from functools import partial
from itertools import starmap
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ..errors import StateMismatch, shorten
from ..state.nodes import below, node_parts
from .epochs import ByEpoch, checked_by_epoch, one_by_epoch
from .evidence import UNKNOWN, Evidence
from .function_state import CallsFunction
from .graph import walk, with_inputs
from .identity import IdentityField
from .layout import LISTS, common_layout
from .past import Before, Change, InputThen, Noting, Past, why_not_built
from .relation import Repeated, kind_of
from .reliance import (
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
    SO_FAR,
    Reliance,
)
from .saved_epochs import (
    NOT_OURS,
    PIPELINES,
    WRITTEN_LATER,
    EpochContinuation,
    ask_by_epoch,
    concerns_whole_run,
    follows_from_repeats,
    in_saved_epoch,
    is_by_epoch,
    nodes_by_epoch,
    says_what_to_do,
)
from .stage import Stage, own_partitions
from .timeline import UNBOUNDED, Continuation, InputsContinuation, Timeline, changed_from
from .transform import PassThrough

V = TypeVar("V")

IsOwn: TypeAlias = Callable[[Stage[Any]], bool]

OF_RANK: Final = RANK | PARTS | ENDS
"""Fields for one of these say which items go to which rank."""

LONGEST_VALUE: Final = 200
EXCLUDE: Final = "Exclude"
FILTER: Final = "Filter"
SHARED: Final = ALWAYS | ITEMS | EPOCHS
"""Fields for one of these are equal on all ranks; fields for `RANK` or `PARTS` alone say which rank it is."""


def fingerprint(stage: Stage[Any], relied_on: Reliance = NOTHING) -> str:
    """What identifies a pipeline: its stages with the identity fields that differ from defaults.

    A field that equals its default is left out, so a field added later keeps old states readable. A field
    that is `Evidence` counts only where the state has evidence of the same kind.

    Args:
      stage: the last stage.
      relied_on: what the state relies on in all stages, as in `Stage.relies_on`.
    """
    return _as_text(_identified(stage, relied_on))


def shared_fingerprint(stage: Stage[Any], *, of_rank: bool = False) -> str:
    """What identifies a pipeline on all ranks, and the items of each step by number.

    Fields for `RANK` or `PARTS` alone say which rank it is; they are left out unless ``of_rank``. All
    evidence is left out, since it may differ between ranks.
    """
    considered = ANYTHING if of_rank else SHARED
    return _as_text(_without_evidence(_identified(stage, ITEMS | EPOCHS, considered)))


def holds_items_of_rank(stage: Stage[Any]) -> bool:
    """Whether a stage after `shard` holds items of its rank, so that the states of ranks differ."""
    return shared_fingerprint(stage, of_rank=True) != shared_fingerprint(stage)


def explain_mismatch(
    saved: Any,
    stage: Stage[Any],
    relied_on: Reliance = NOTHING,
    is_own: IsOwn = lambda stage: False,
    past: Callable[[Before], Past] | None = None,
    told: list[FoundArgument] | None = None,
    epochs_of_loop: float = UNBOUNDED,
) -> str | None:
    """Why a state with fingerprint ``saved`` does not fit ``stage``; None if it does.

    Args:
      saved: the fingerprint of the state.
      stage: the last stage.
      relied_on: as in `fingerprint`.
      is_own: called if the state should name its rank and does not, as in version 0.2; whether it is
        of the rank to which this stage deals.
      past: called if all agrees that must always, but some stages differ in what holds from some item
        on, or in what they are in some epochs, with how they were; says how far they must agree. None if
        they must be equal.
      told: takes all arguments that say from where on they hold. These then may disagree.
      epochs_of_loop: how many epochs of the whole pipeline were begun.
    """
    if not isinstance(saved, str):
        return f"its fingerprint must be a string, got {shorten(saved)}"
    if told is None and saved == fingerprint(stage, relied_on):
        return None
    try:
        theirs = json.loads(saved)
    except (ValueError, RecursionError):
        return f"its fingerprint cannot be read: {shorten(saved)}"
    counting = _EpochCount(None, "pipeline")
    ours, terms = _identified(stage, relied_on), _Terms(is_own)

    def compare(terms: _Terms) -> str | None:
        return _compare_epochs(theirs, ours, "pipeline", terms, counting)

    if past is None:
        return compare(terms)
    before = Before({}, {})

    def note(stage: Stage[Any], change: Change) -> float:
        before.changes[id(stage)] = change
        return 0

    def note_input(stage: Stage[Any] | None, then: InputThen) -> None:
        # What is there once now may have been several pipelines by epoch.
        if then.is_known or id(stage) not in before.inputs:
            before.inputs[id(stage)] = then

    def epochs(stage: Stage[Any] | None) -> float:
        return UNBOUNDED if stage is not None else epochs_of_loop

    noting = Noting(note_input, [])
    refused = partial(why_not_built, stage)
    first = Past(lambda: 0, note, lambda stage: None, epochs, refused, noting)
    if reason := compare(terms._replace(past=first, told=None if told is None else [])):
        return reason
    differs = before.changes or before.inputs or told is not None
    try:
        reason = compare(terms._replace(past=past(before) if differs else None, told=told))
    except StateMismatch:
        if not noting.reasons:
            raise
        reason = noting.reasons[0][0]  # it is a state of something else
    if reason and noting.reasons:
        return ask_by_epoch(reason, noting.reasons[0][1])
    return reason


def with_rank(saved: Any, stage: Stage[Any]) -> Any:
    """The fingerprint ``saved`` of a state that is known to be of this rank, with the rank in it."""
    mismatch = explain_mismatch(saved, stage, is_own=lambda deal: True)
    return saved if mismatch else fingerprint(stage)


def _reliance(stage: Stage[Any]) -> Reliance:
    """What the state of ``stage`` relies on, including the state of a user function in it.

    Such a function has seen items of its rank and of the partitions of that rank. `ENDS` is added to any
    reliance: if ranks end at different steps, a state tells how far its own rank was.
    """
    held = PARTS | RANK if isinstance(stage, CallsFunction) and stage.carries_state else NOTHING
    return stage.relies_on | held | (ENDS if stage.relies_on else NOTHING)


class EpochSpan(NamedTuple):
    """Epochs in which one of several pipelines holds.

    Attributes:
      stage: name of what counts the epochs, as of its `FoundArgument`.
      path: of that.
      first: the first epoch.
      following: the one after the last.
    """

    stage: str
    path: str
    first: int
    following: float


class FoundArgument(NamedTuple):
    """What may change of a pipeline that is to go on from a state.

    Attributes:
      stage: name of the stage whose argument it is.
      path: of the stage.
      value: as it was saved and as it is, and from where on it may differ.
      within: the epochs in which the stage is there, if there are pipelines by epoch, the outermost first.
    """

    stage: str
    path: str
    value: Continuation
    within: tuple[EpochSpan, ...] = ()


class _EpochCount(NamedTuple):
    """What counts epochs: a stage, or the loop over the whole pipeline.

    Attributes:
      stage: None for the loop.
      path: of the stage, or of the pipeline.
    """

    stage: Stage[Any] | None
    path: str

    @property
    def name(self) -> str:
        """The name of what counts, as of its `FoundArgument`."""
        return ByEpoch.__name__ if self.stage is None else type(self.stage).__name__

    @property
    def repeat(self) -> Stage[Any] | None:
        """The stage, if it goes through several epochs."""
        return self.stage if self.stage is not None and kind_of(self.stage) is Repeated else None


class _Identity(NamedTuple):
    """What identifies a stage and those before it.

    Attributes:
      name: name of the stage.
      version: version of the shape of its state.
      fields: value and default of each field that must not change.
      described: all of `Stage.identity`.
      upstreams: identities of the upstreams.
      stage: that is identified.
      relied_on: what later stages rely on.
    """

    name: str
    version: int
    fields: dict[str, tuple[Any, Any]]
    described: Mapping[str, IdentityField]
    upstreams: list[_Identity]
    stage: Stage[Any]
    relied_on: Reliance

    @property
    def fields_set(self) -> dict[str, Any]:
        """The values of the fields that differ from their defaults."""
        return {name: value for name, (value, default) in self.fields.items() if value != default}

    @property
    def of_rank(self) -> list[str]:
        """The names of the fields that must be equal only because the rank must be the same."""
        considered = self.relied_on & (SHARED | LATER_EPOCHS | OVER_EPOCHS)
        return [name for name in self.fields if not self.described[name].when & considered]

    @property
    def may_grow(self) -> bool:
        """Whether further inputs may follow those that were saved."""
        return self.stage._run_changes.may_grow(self.stage)

    def timeline(self, fields: Mapping[str, Any]) -> Timeline | None:
        """What ``fields`` say of the argument of the stage that may change, if they can be read."""
        by_position = self.stage._run_changes.argument(self.stage)
        return None if by_position is None else by_position.timeline(fields)

    @property
    def present_timeline(self) -> Timeline | None:
        """What the stage says of that argument."""
        return self.timeline({name: value for name, (value, _) in self.fields.items()})

    def continuation(self, saved: Timeline, past: Past) -> Continuation:
        """How that argument goes on where a run with ``saved`` was left."""
        changes = self.stage._run_changes
        by_position, present = changes.argument(self.stage), self.present_timeline
        assert by_position is not None
        assert present is not None
        reached = past.reach(self.stage, lambda stage: changes.with_timeline(stage, saved))
        until = changes.followed_until(self.stage, saved, reached)
        going_on = Continuation(by_position, saved, present, until)
        if going_on.is_fixed or past.noting:
            return going_on
        example = going_on.example
        return replace(
            going_on,
            refused=past.refused(self.stage, lambda stage: changes.with_timeline(stage, example)),
        )

    def further_inputs(self, saved: Sequence[Any], past: Past | None) -> InputsContinuation:
        """How the ``saved`` inputs go on."""
        assert past is not None
        problem = self.stage._run_changes.cannot_join(
            self.stage, len(saved), partial(past.reach, self.stage)
        )
        return InputsContinuation.of(saved, self.upstreams, problem)

    def is_in_first_epoch(self, argument: str, saved: Any, present: int, past: Past | None) -> bool:
        """Whether what was read, with ``saved`` as the ``argument``, is among the first ``present`` items."""
        if past is None or type(saved) is not int:
            return False
        then = partial(_with_argument, argument, saved)
        return past.reach(self.stage, then) <= present

    def continues_names(self, saved: Any) -> bool:
        """Whether the inputs begin with those of the ``saved`` names, if there were any."""
        names = self.fields["names"][0]
        if saved is None:
            return True
        return isinstance(saved, list) and list((names or ())[: len(saved)]) == saved

    def names_no_rank(self, fields: Mapping[str, Any]) -> bool:
        """Whether the saved ``fields`` name no rank although the stage now has fields that do."""
        return bool(self.of_rank) and not any(name in fields for name in self.of_rank)


def _identified(
    stage: Stage[Any], relied_on: Reliance, considered: Reliance = ANYTHING
) -> _Identity:
    """The identity of the graph up to ``stage``, where later stages rely on ``relied_on``.

    Fields that must be equal for nothing in ``considered`` are left out.
    """
    if isinstance(stage, PassThrough):
        return _identified(stage.upstream, relied_on, considered)
    if relied_on >= ITEMS:
        relied_on -= OVER_EPOCHS  # which asks for less
    defaults = {field.name: field.default for field in dataclasses.fields(stage)}
    described = stage._identity_fields
    # Sorted, because fingerprints are first compared as text.
    names = [
        name
        for what in sorted((relied_on | ALWAYS) & considered)
        for name, field in described.items()
        if what in field.when
    ]
    values = {name: getattr(stage, name) for name in names}
    fields = {
        name: (value, UNKNOWN if isinstance(value, Evidence) else defaults.get(name, MISSING))
        for name, value in values.items()
    }
    inputs = stage.inputs
    own = relied_on | _reliance(stage) if inputs else relied_on
    upstreams = [_identified(upstream, own, considered) for upstream in inputs]
    name, version = type(stage).__name__, stage.version
    return _Identity(name, version, fields, described, upstreams, stage, relied_on | ALWAYS)


def _with_argument(name: str, value: Any, stage: Stage[Any]) -> Stage[Any]:
    return dataclasses.replace(stage, **{name: value})


def _without_evidence(identity: _Identity) -> _Identity:
    fields = {
        name: pair for name, pair in identity.fields.items() if not isinstance(pair[0], Evidence)
    }
    upstreams = list(map(_without_evidence, identity.upstreams))
    return identity._replace(fields=fields, upstreams=upstreams)


def _as_text(identity: _Identity) -> str:
    return _json(_bare(identity))


def _json(node: Any) -> str:
    return json.dumps(node, separators=(",", ":"), default=Evidence.as_json)


def _bare(identity: _Identity) -> list[Any]:
    """The node of a fingerprint: name, dict of fields unless empty, upstreams."""
    fields = identity.fields_set
    if identity.stage._run_changes.may_begin and not fields:
        return _bare(identity.upstreams[0])
    name = identity.name if identity.version == 1 else f"{identity.name}@{identity.version}"
    own = [name, fields] if fields else [name]
    return own + [_bare(upstream) for upstream in identity.upstreams]


class _Terms(NamedTuple):
    """By what two nodes are compared.

    Attributes:
      is_own: as in `explain_mismatch`.
      past: says how much was read, and how many epochs were begun; None if all must agree.
      told: as in `explain_mismatch`.
      divides: the stage that divides into partitions what is compared, if one does.
    """

    is_own: IsOwn
    past: Past | None = None
    told: list[FoundArgument] | None = None
    divides: Stage[Any] | None = None

    def before(self, repeat: Stage[Any] | None) -> str | None:
        """Where a `by_epoch` may stand whose epochs ``repeat`` counts."""
        if repeat is None:
            return None
        return f"before {repeat}" + (f", or before {self.divides}" if self.divides else "")


def _compare_epochs(
    theirs: Any, ours: _Identity, path: str, terms: _Terms, counting: _EpochCount
) -> str | None:
    """Why the saved node does not agree with ``ours`` in the epochs that were begun; None if it does.

    Args:
      theirs: the saved node, as read from JSON.
      ours: what stands here now.
      path: of it.
      terms: of the comparison.
      counting: what counts the epochs.
    """
    past, told = terms.past, terms.told
    saved, present = nodes_by_epoch(theirs), _own_in_epochs(ours)
    one_each = len(saved) == len(present) == 1
    is_damaged = len(saved) == 1 and is_by_epoch(theirs)
    if is_damaged or (one_each and (past is None or counting.repeat is None)):
        return _compare_nodes(theirs, ours, path, terms)
    known = {_as_text(one): one.stage for _, one in present}
    begun = UNBOUNDED if past is None or one_each else past.epochs(counting.stage)
    found: list[FoundArgument] = []
    problem = None
    starts = sorted({first for first, _ in [*saved, *present]})
    for first, following in zip(starts, [*starts[1:], UNBOUNDED], strict=True):
        left, right = in_saved_epoch(saved, first), in_saved_epoch(present, first)
        if first >= begun:
            if reason := _only_of_another_rank(left, right, path, terms):
                return reason
            continue
        is_latest = one_each or (begun <= following and begun < UNBOUNDED)
        then = past if past and (past.noting or is_latest) else None
        inner: list[FoundArgument] | None = None if told is None or then is None else []
        reason = _compare_nodes(left, right, path, terms._replace(past=then, told=inner))
        span = EpochSpan(counting.name, counting.path, first, following)
        found += [one._replace(within=(span, *one.within)) for one in inner or ()]
        if reason and (
            past is None
            or says_what_to_do(reason)
            or (one_each and concerns_whole_run(reason))
            or _only_of_another_rank(left, right, path, terms)
        ):
            return reason
        if reason:
            problem = first, reason
            break
    if past is None or (one_each and not problem and told is None):
        return None
    is_known = not problem or problem[0] > 0 or _json(saved[0][1]) in known
    where = terms.before(counting.repeat)
    as_then = [
        (first, known.get(_json(node), in_saved_epoch(present, first).stage))
        for first, node in saved
    ]
    changed = partial(_with_epochs, as_then, present, counting)
    if past.noting:
        past.noting.inputs(counting.stage, InputThen(as_then, is_known))
        if problem:
            refused = past.refused(counting.stage, partial(changed, 1)) if one_each else None
            past.noting.reasons.append((problem[1], where if one_each and not refused else None))
        return None
    begun = past.epochs(counting.stage)
    going_on = _going_on(saved, present, begun, problem, counting, where)
    if not going_on.is_fixed:
        refused = past.refused(counting.stage, partial(changed, int(begun)))
        going_on = replace(going_on, refused=refused)
    if problem and going_on.is_fixed and not is_known:
        return problem[1]
    is_told = told is not None and _is_told(theirs, ours, counting)
    if problem and not is_told:
        return going_on.disagreement
    if told is not None:
        entry = FoundArgument(counting.name, counting.path, going_on)
        told += [entry, *found] if is_told else found
    return _another_form(saved, present, known, path, counting)


def _going_on(
    saved: Sequence[tuple[int, Any]],
    present: Sequence[tuple[int, _Identity]],
    begun: float,
    problem: tuple[int, str] | None,
    counting: _EpochCount,
    where: str | None,
) -> EpochContinuation:
    """How pipelines by epoch go on, which have a ``problem`` from some epoch on."""
    first, reason = problem or (0, None)
    return EpochContinuation(
        PIPELINES,
        tuple(saved),
        tuple((start, _bare(one)) for start, one in present),
        begun,
        problem=reason,
        differs_from=first,
        repeat=None if counting.stage is None else str(counting.stage),
        where=where,
        repeats_within=any(
            kind_of(found) is Repeated for _, one in present for found, _ in walk(one.stage)
        ),
    )


def _with_epochs(
    then: Sequence[tuple[int, Stage[Any]]],
    present: Sequence[tuple[int, _Identity]],
    counting: _EpochCount,
    begun: int,
    stage: Stage[Any],
) -> Stage[Any]:
    """A copy of ``stage``, which counts epochs, over other pipelines from epoch ``begun`` on.

    The earlier pipelines are copies, so that each is another object than the present pipeline that may represent it.
    """
    before = tuple((first, copy(one)) for first, one in then)
    after = tuple((first, one.stage) for first, one in present)
    split = checked_by_epoch(one_by_epoch(changed_from(before, after, begun)))
    return split if counting.stage is None else with_inputs(stage, (split,))


def _is_told(theirs: Any, ours: _Identity, counting: _EpochCount) -> bool:
    """Whether users have written pipelines by epoch here, or can do so before a repeat."""
    written = (node for node in (theirs, _bare(ours)) if len(nodes_by_epoch(node)) > 1)
    return counting.repeat is not None or not all(map(follows_from_repeats, written))


def _another_form(
    saved: Sequence[tuple[int, Any]],
    present: Sequence[tuple[int, _Identity]],
    known: Mapping[str, Stage[Any]],
    path: str,
    counting: _EpochCount,
) -> str | None:
    """Why the items of later epochs cannot be of the form that they have; None if they are of the same."""
    before = [known[_json(node)].block_layout for _, node in saved if _json(node) in known]
    now = common_layout([one.stage.block_layout for _, one in present])
    if counting.stage is None or not before or common_layout(before) is LISTS or now is not LISTS:
        return None
    return (
        f"{path}: the pipelines of later epochs must have items of the form that the others have, as "
        f"arrays or as objects, since functions are given blocks of them, got "
        f"{in_saved_epoch(present, 0).stage!r}"
    )


def _only_of_another_rank(theirs: Any, ours: _Identity, path: str, terms: _Terms) -> str | None:
    """What the saved node says of a rank that is not ours, if it agrees in all else; None otherwise.

    What is planned for later epochs may change, but a plan that has not changed is one for these ranks.
    """
    everywhere = _Terms(terms.is_own)
    reason = _compare_nodes(theirs, ours, path, everywhere)
    if not reason or _compare_nodes(_of_our_rank(theirs, ours), ours, path, everywhere):
        return None
    return reason


def _of_our_rank(node: Any, ours: _Identity) -> Any:
    """The saved ``node`` as far as it has the stages of ``ours``, of the rank of these."""
    if not (isinstance(node, list) and node):
        return node
    named, fields, upstreams = node_parts(node)
    own = {
        name: _as_json(value)
        for name, (value, _) in ours.fields.items()
        if ours.described[name].when & OF_RANK
    }
    shared = zip(upstreams, ours.upstreams, strict=False)
    others = upstreams[len(ours.upstreams) :]
    return [named, fields | own, *starmap(_of_our_rank, shared), *others]


def _own_in_epochs(identity: _Identity) -> list[tuple[int, _Identity]]:
    """The same of our pipeline."""
    stage = identity.stage
    if not isinstance(stage, ByEpoch):
        return [(0, identity)]
    return list(zip([0, *stage.starts[1:]], identity.upstreams, strict=True))


def _compare_nodes(theirs: Any, ours: _Identity, path: str, terms: _Terms) -> str | None:
    past, told = terms.past, terms.told
    if not (isinstance(theirs, list) and theirs and isinstance(theirs[0], str)):
        return f"{path}: the saved fingerprint {NOT_OURS}: {shorten(theirs)}"
    if (
        ours.stage._run_changes.may_begin
        and theirs[0] != ours.name
        and (past or not ours.fields_set)
    ):
        theirs = [ours.name, theirs]
    named, fields, upstreams = node_parts(theirs)
    name, _, version = named.partition("@")
    if name != ours.name:
        return (
            f"{path}: the saved pipeline has {_cut(name)} here, this one has {ours.name}; "
            f"{_why_another_stage(name, ours)}"
        )
    if version and not (re.fullmatch("[0-9]{1,9}", version) and int(version) <= ours.version):
        return (
            f"{name} at {path}: saved in version {version[:9]} of its state, this library reads up to "
            f"{ours.version}; {WRITTEN_LATER}"
        )
    silent = ours.names_no_rank(fields)
    if silent and terms.is_own(ours.stage):
        fields = {**fields, **{name: ours.fields[name][0] for name in ours.of_rank}}
    followed = None if past is None else ours.timeline(fields)
    if past and followed and not (told is None and followed == ours.present_timeline):
        going_on = ours.continuation(followed, past)
        if told is not None:
            told.append(FoundArgument(name, path, going_on))
        elif reason := going_on.disagreement:
            return f"{name} at {path}: {reason}"
    if ours.may_grow and ours.continues_names(fields.get("names")):
        fields = {**fields, "names": ours.fields["names"][0]}
    for field in [*ours.fields, *sorted(fields.keys() - ours.fields.keys())]:
        if followed and field in ours.described and ours.described[field].when >= SO_FAR:
            continue
        current, default = ours.fields.get(field, ("nothing", "nothing"))
        saved = fields.get(field, default)
        if isinstance(current, Evidence):
            if field in fields and (reason := current.contradiction(saved)):
                return f"{name} at {path}: {reason}"
            continue
        if field in ours.described and ours.described[field].when == ENDS:
            if fields.get(field) is None:
                continue  # version 0.2 did not note it, or ranks ended at one step then
            if past is not None:
                then = past.then(ours.stage)
                if then is None:
                    continue
                current = getattr(then, field)
        if field in ours.described and ours.described[field].when == OVER_EPOCHS:
            current, argument = getattr(ours.stage, field), ours.described[field].shown_as or field
            if field not in fields:
                continue  # an earlier version did not note it
            if saved != current and ours.is_in_first_epoch(argument, saved, current, past):
                continue
        if field in ours.described and ours.described[field].when == LATER_EPOCHS:
            is_told = field in fields and current is not MISSING
            if not is_told:
                continue  # an earlier version did not note it, or it makes no difference
        if saved is MISSING and silent and field in ours.of_rank:
            return (
                f"{name} at {path}: the state does not say of which rank it is, as version 0.2 did not note it, "
                f"and this pipeline is of {field}={current}; a stage after it may hold something of its rank"
            )
        if saved != current and saved != _as_json(current):
            described = ours.described.get(field, IdentityField(NOTHING))
            argument = described.shown_as or _cut(field)
            shown = str if str(saved) != str(current) else repr  # the number 1 and the text "1"
            return (
                f"{name} at {path}: saved {argument}={_cut(saved, shown)}, this pipeline has "
                f"{argument}={shown(current)}; {described.hint}"
            )
    has_new = past and ours.may_grow and 0 < len(upstreams) < len(ours.upstreams)
    ends = past and ours.may_grow and followed is None
    if has_new or (ends and told is not None and len(upstreams) == len(ours.upstreams)):
        further = ours.further_inputs(upstreams, past)
        if ends and told is not None:
            told.append(FoundArgument(name, path, further))
        elif reason := further.disagreement:
            return f"{name} at {path}: {reason}"
    if len(upstreams) != len(ours.upstreams) and not has_new:
        return (
            f"{name} at {path}: saved with {len(upstreams)} upstreams, this pipeline has "
            f"{len(ours.upstreams)}; was an input added or removed?"
        )
    if own_partitions(ours.stage):
        terms = terms._replace(divides=ours.stage)
    elif any(one._deal != ours.stage._deal for one in ours.stage.inputs):
        terms = terms._replace(divides=None)  # what is dealt out stands before the partitions
    for number, (left, right) in enumerate(zip(upstreams, ours.upstreams, strict=False)):
        inner = below(path, ours.upstreams, number)
        counting = _EpochCount(ours.stage, path)
        if reason := _compare_epochs(left, right, inner, terms, counting):
            return reason
    return None


def _why_another_stage(saved: str, ours: _Identity) -> str:
    """The likely cause why there was a stage of the name ``saved``, and is ``ours``."""
    if saved == EXCLUDE:
        return "was exclude removed? Keep it, and let it leave out nothing from some item on"
    cause = "was a stage added, removed or moved?"
    if ours.name == FILTER and [saved] == [one.name for one in ours.upstreams]:
        return f"{cause} exclude, unlike filter, can leave records out of a run that has begun"
    return cause


def _cut(value: Any, shown: Callable[[Any], str] = str) -> str:
    """``value`` of a saved state as text for a message, cut if it is long."""
    text = shown(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _as_json(value: Any) -> Any:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value
