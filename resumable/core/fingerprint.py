"""The fingerprint of a pipeline, and why a state saved by another pipeline does not fit it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import partial
from itertools import starmap
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ..errors import shorten
from ..state.nodes import below, node_parts
from .epochs import ByEpoch
from .evidence import UNKNOWN, Evidence
from .flow import Flow
from .function_state import CallsFunction
from .graph import walk
from .identity import IdentityField
from .layout import LISTS, common_layout
from .past import AsThen, Before, Change, Past, ReachOf
from .reliance import (
    ALWAYS,
    ANYTHING,
    ENDS,
    EPOCHS,
    ITEMS,
    NOTHING,
    PARTS,
    RANK,
    SO_FAR,
    Reliance,
)
from .stage import Stage
from .timeline import UNBOUNDED, Continuation, Timeline
from .transform import PassThrough

V = TypeVar("V")

IsOwn: TypeAlias = Callable[[Stage[Any]], bool]

OF_RANK: Final = RANK | PARTS | ENDS
"""Fields for one of these say which items go to which rank."""

LONGEST_VALUE: Final = 200
SO_FROM_EPOCH: Final = "this is so from epoch"
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


def explain_mismatch(
    saved: Any,
    stage: Stage[Any],
    relied_on: Reliance = NOTHING,
    is_own: IsOwn = lambda stage: False,
    past: Callable[[Before], Past] | None = None,
    told: list[FoundArgument] | None = None,
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
    """
    if not isinstance(saved, str):
        return f"its fingerprint must be a string, got {shorten(saved)}"
    if told is None and saved == fingerprint(stage, relied_on):
        return None
    try:
        theirs = json.loads(saved)
    except (ValueError, RecursionError):
        return f"its fingerprint cannot be read: {shorten(saved)}"
    compare = partial(
        _compare_epochs, theirs, _identified(stage, relied_on), "pipeline", is_own, counting=None
    )
    if past is None:
        return compare(past=None, told=None)
    before = Before({}, {})

    def note(stage: Stage[Any], change: Change) -> float:
        before.changes[id(stage)] = change
        return 0

    def note_epochs(stage: Stage[Any] | None, inputs: AsThen) -> float:
        before.inputs[id(stage)] = inputs
        return UNBOUNDED

    noting = Past(lambda: 0, note, lambda stage: None, note_epochs, noting=True)
    if reason := compare(past=noting, told=None if told is None else []):
        return reason
    differs = before.changes or before.inputs or told is not None
    return compare(past=past(before) if differs else None, told=told)


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


class FoundArgument(NamedTuple):
    """An argument by position of a pipeline that is to go on from a state.

    Attributes:
      stage: name of the stage whose argument it is.
      path: of the stage.
      value: as it was saved and as it is, and from where on it may differ.
    """

    stage: str
    path: str
    value: Continuation


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
    def of_rank(self) -> list[str]:
        """The names of the fields that must be equal only because the rank must be the same."""
        considered = self.relied_on & SHARED
        return [name for name in self.fields if not self.described[name].when & considered]

    def timeline(self, fields: Mapping[str, Any]) -> Timeline | None:
        """What ``fields`` say of the argument of the stage that may change, if they can be read."""
        by_position = self.stage._by_position
        return None if by_position is None else by_position.timeline(fields)

    @property
    def present_timeline(self) -> Timeline | None:
        """What the stage says of that argument."""
        return self.timeline({name: value for name, (value, _) in self.fields.items()})

    def continuation(self, saved: Timeline, reach: ReachOf) -> Continuation:
        """How that argument goes on where a run with ``saved`` was left."""
        by_position, present = self.stage._by_position, self.present_timeline
        assert by_position is not None
        assert present is not None
        reached = reach(self.stage, lambda stage: stage._with_timeline(saved))
        until = self.stage._followed_until(saved, reached)
        return Continuation(by_position, saved, present, until)

    def cannot_join(self, count: int, past: Past | None) -> str | None:
        """Why the inputs after the first ``count`` cannot have joined since then; None if they can."""
        assert past is not None
        return self.stage._cannot_join(count, partial(past.reach, self.stage))

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
    fields = {name: value for name, (value, default) in identity.fields.items() if value != default}
    if identity.stage._may_begin and not fields:
        return _bare(identity.upstreams[0])
    name = identity.name if identity.version == 1 else f"{identity.name}@{identity.version}"
    own = [name, fields] if fields else [name]
    return own + [_bare(upstream) for upstream in identity.upstreams]


def _compare_epochs(
    theirs: Any,
    ours: _Identity,
    path: str,
    is_own: IsOwn,
    past: Past | None,
    told: list[FoundArgument] | None,
    counting: Stage[Any] | None,
) -> str | None:
    """Why the saved node does not agree with ``ours`` in the epochs that were begun; None if it does.

    Args:
      theirs: the saved node, as read from JSON.
      ours: what stands here now.
      path: of it.
      is_own: as in `explain_mismatch`.
      past: says how many epochs were begun; None if all must agree.
      told: as in `explain_mismatch`.
      counting: the stage that counts the epochs; None for the whole pipeline.
    """
    saved, present = _saved_in_epochs(theirs), _own_in_epochs(ours)
    if len(saved) == 1 and (len(present) == 1 or _is_by_epoch(theirs)):
        return _compare_nodes(theirs, ours, path, is_own, past, told)
    begun, own = UNBOUNDED, dict[str, Stage[Any]]()
    if past is not None:
        own = {_as_text(one): one.stage for _, one in present}
        as_then = [
            (first, own.get(_json(node), _in_epoch(present, first).stage)) for first, node in saved
        ]
        begun = past.epochs(counting, as_then)
    starts = sorted({first for first, _ in [*saved, *present]})
    for first, following in zip(starts, [*starts[1:], UNBOUNDED], strict=True):
        left, right = _in_epoch(saved, first), _in_epoch(present, first)
        if first >= begun:
            if reason := _only_of_another_rank(left, right, path, is_own):
                return reason
            continue
        latest = past is not None and (past.noting or (begun <= following and begun < UNBOUNDED))
        reason = _compare_nodes(
            left, right, path, is_own, past if latest else None, told if latest else None
        )
        if reason and past is not None and past.noting:
            break
        if reason:
            is_said = past is None or SO_FROM_EPOCH in reason
            return reason if is_said else _advised(reason, first, begun, saved, present, counting)
    if past is not None and not past.noting and counting is not None:
        known = [own[_json(node)].block_layout for _, node in saved if _json(node) in own]
        now = common_layout([one.stage.block_layout for _, one in present])
        if known and common_layout(known) is not LISTS and now is LISTS:
            return (
                f"{path}: the pipelines of later epochs must have items of the form that the others have, as "
                f"arrays or as objects, since functions are given blocks of them, got {ours.stage!r}"
            )
    return None


def _only_of_another_rank(theirs: Any, ours: _Identity, path: str, is_own: IsOwn) -> str | None:
    """What the saved node says of a rank that is not ours, if it agrees in all else; None otherwise.

    What is planned for later epochs may change, but a plan that has not changed is one for these ranks.
    """
    reason = _compare_nodes(theirs, ours, path, is_own, None, None)
    if not reason or _compare_nodes(_of_our_rank(theirs, ours), ours, path, is_own, None, None):
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


def _advised(
    reason: str,
    first: int,
    begun: float,
    saved: Sequence[tuple[int, Any]],
    present: Sequence[tuple[int, _Identity]],
    counting: Stage[Any] | None,
) -> str:
    """``reason``, which is so from epoch ``first`` on, and what may be written instead."""
    reason = f"{reason}; {SO_FROM_EPOCH} {first} on, and"
    if begun == UNBOUNDED:
        return f"{reason} any epoch may have been begun, so it cannot be changed here"
    reason = f"{reason} epochs before {int(begun)} were begun;"
    if any(found.flow is Flow.REPEATED for _, one in present for found, _ in walk(one.stage)):
        # A `by_epoch` before that counts other epochs.
        where = "the pipeline" if counting is None else f"what {counting} repeats"
        return f"{reason} it may change from epoch {int(begun)} of {where} on"
    pairs = [f"{start}: as saved" for start, _ in saved if start < begun]
    pairs += [f"{int(begun)}: as here"]
    pairs += [f"{start}: as here" for start, _ in present if start > begun]
    return f"{reason} to change it from there on, write by_epoch({{{', '.join(pairs)}}})"


def _is_by_epoch(node: Any) -> bool:
    return isinstance(node, list) and bool(node) and node[0] == ByEpoch.__name__


def _saved_in_epochs(node: Any) -> list[tuple[int, Any]]:
    """The saved nodes with the epoch from which on each holds."""
    if not _is_by_epoch(node):
        return [(0, node)]
    _, fields, upstreams = node_parts(node)
    starts = fields.get("starts")
    if not isinstance(starts, list) or len(starts) != len(upstreams) or not upstreams:
        return [(0, node)]
    if any(type(start) is not int for start in starts) or sorted(set(starts)) != starts:
        return [(0, node)]
    return list(zip([0, *starts[1:]], upstreams, strict=True))


def _own_in_epochs(identity: _Identity) -> list[tuple[int, _Identity]]:
    """The same of our pipeline."""
    stage = identity.stage
    if not isinstance(stage, ByEpoch):
        return [(0, identity)]
    return list(zip([0, *stage.starts[1:]], identity.upstreams, strict=True))


def _in_epoch(nodes: Sequence[tuple[int, V]], epoch: int) -> V:
    return next(node for first, node in reversed(nodes) if first <= epoch)


def _compare_nodes(
    theirs: Any,
    ours: _Identity,
    path: str,
    is_own: IsOwn,
    past: Past | None,
    told: list[FoundArgument] | None,
) -> str | None:
    if not (isinstance(theirs, list) and theirs and isinstance(theirs[0], str)):
        return f"{path}: the saved fingerprint is not one of this library's: {shorten(theirs)}"
    if past and ours.stage._may_begin and theirs[0] != ours.name:
        theirs = [ours.name, theirs]
    named, fields, upstreams = node_parts(theirs)
    name, _, version = named.partition("@")
    if name != ours.name:
        return (
            f"{path}: the saved pipeline has {_cut(name)} here, this one has {ours.name}; "
            "was a stage added, removed or moved?"
        )
    if version and not (re.fullmatch("[0-9]{1,9}", version) and int(version) <= ours.version):
        return (
            f"{name} at {path}: saved in version {version[:9]} of its state, this library reads up to "
            f"{ours.version}; was it written by a newer version of the library?"
        )
    silent = ours.names_no_rank(fields)
    if silent and is_own(ours.stage):
        fields = {**fields, **{name: ours.fields[name][0] for name in ours.of_rank}}
    followed = None if past is None else ours.timeline(fields)
    if past and followed and not (told is None and followed == ours.present_timeline):
        going_on = ours.continuation(followed, past.reach)
        if told is not None:
            told.append(FoundArgument(name, path, going_on))
        elif reason := going_on.disagreement:
            return f"{name} at {path}: {reason}"
    if ours.stage._may_grow and ours.continues_names(fields.get("names")):
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
    has_new = past and ours.stage._may_grow and len(upstreams) < len(ours.upstreams)
    if has_new and (reason := ours.cannot_join(len(upstreams), past)):
        return f"{name} at {path}: {reason}"
    if len(upstreams) != len(ours.upstreams) and not has_new:
        return (
            f"{name} at {path}: saved with {len(upstreams)} upstreams, this pipeline has "
            f"{len(ours.upstreams)}; was an input added or removed?"
        )
    for number, (left, right) in enumerate(zip(upstreams, ours.upstreams, strict=False)):
        inner = below(path, ours.upstreams, number)
        if reason := _compare_epochs(left, right, inner, is_own, past, told, ours.stage):
            return reason
    return None


def _cut(value: Any, shown: Callable[[Any], str] = str) -> str:
    """``value`` of a saved state as text for a message, cut if it is long."""
    text = shown(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _as_json(value: Any) -> Any:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value
