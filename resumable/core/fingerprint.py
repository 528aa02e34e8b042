"""The fingerprint of a pipeline, and why a state saved by another pipeline does not fit it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import shorten
from ..state.nodes import below, node_parts
from .evidence import UNKNOWN, Evidence
from .function_state import CallsFunction
from .identity import IdentityField
from .past import Change, Past, ReachOf
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
from .timeline import Continuation, Timeline
from .transform import PassThrough

IsOwn: TypeAlias = Callable[[Stage[Any]], bool]

LONGEST_VALUE: Final = 200
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
    past: Callable[[Mapping[int, Change]], Past] | None = None,
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
        on, with what makes them as they were by the `id` of the stage; says how many items of such a
        stage were read. None if they must be equal.
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
    compare = partial(_compare_nodes, theirs, _identified(stage, relied_on), "pipeline", is_own)
    if past is None:
        return compare(None, None)
    changed: dict[int, Change] = {}

    def note(stage: Stage[Any], change: Change) -> float:
        changed[id(stage)] = change
        return 0

    if reason := compare(Past(0, note, lambda stage: None), None if told is None else []):
        return reason
    return compare(past(changed) if changed or told is not None else None, told)


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
    return json.dumps(_bare(identity), separators=(",", ":"), default=Evidence.as_json)


def _bare(identity: _Identity) -> list[Any]:
    """The node of a fingerprint: name, dict of fields unless empty, upstreams."""
    fields = {name: value for name, (value, default) in identity.fields.items() if value != default}
    if identity.stage._may_begin and not fields:
        return _bare(identity.upstreams[0])
    name = identity.name if identity.version == 1 else f"{identity.name}@{identity.version}"
    own = [name, fields] if fields else [name]
    return own + [_bare(upstream) for upstream in identity.upstreams]


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
        if reason := _compare_nodes(left, right, inner, is_own, past, told):
            return reason
    return None


def _cut(value: Any, shown: Callable[[Any], str] = str) -> str:
    """``value`` of a saved state as text for a message, cut if it is long."""
    text = shown(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _as_json(value: Any) -> Any:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value
