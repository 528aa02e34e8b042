"""Pipelines by epoch as a fingerprint has them, and how a run goes on with other ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ..state.nodes import node_parts
from .epochs import ByEpoch
from .evidence import Evidence
from .timeline import (
    CANNOT_BE_CHANGED,
    FIXED_FOR_A_RUN,
    FROM_THERE_ON,
    ByPosition,
    Continuation,
    Timeline,
    changed_from,
)

V = TypeVar("V")

BY_EPOCH: Final = ByEpoch.__name__
CONTENTS: Final = "contents"
REPEAT: Final = "Repeat"
LONGEST_PIPELINE: Final = 100
AS_SAVED: Final = "as saved"
AS_HERE: Final = "as here"
SO_FROM_EPOCH: Final = "this is so from epoch"
NOT_OURS: Final = "is not one of this library's"
WRITTEN_LATER: Final = "was it written by a newer version of the library?"


def says_what_to_do(reason: str) -> bool:
    """Whether ``reason``, why a state does not fit, says from where on what differs may do so."""
    return SO_FROM_EPOCH in reason or FROM_THERE_ON in reason


def concerns_whole_run(reason: str) -> bool:
    """Whether ``reason``, why a state does not fit, concerns the whole run, and not some of its epochs alone."""
    return any(one in reason for one in (FIXED_FOR_A_RUN, NOT_OURS, WRITTEN_LATER))


def ask_by_epoch(reason: str, where: str | None) -> str:
    """``reason``, why a pipeline does not fit, and how to learn from which epoch on it may be another one.

    Args:
      reason: as the comparison says it.
      where: before which stages a `by_epoch` may stand; None if there is no repeat, or one stands there already.
    """
    if where is None or says_what_to_do(reason) or CANNOT_BE_CHANGED in reason:
        return reason
    written = PIPELINES.written(((0, AS_SAVED), (1, AS_HERE)))
    return f"{reason}; to learn from which epoch on it may be another one, write {written} {where}"


def is_by_epoch(node: Any) -> bool:
    """Whether ``node`` of a fingerprint is a `ByEpoch`, which may be damaged."""
    return isinstance(node, list) and bool(node) and node[0] == BY_EPOCH


def nodes_by_epoch(node: Any) -> list[tuple[int, Any]]:
    """The pipelines of ``node`` with the epoch from which on each holds; itself if it is no `ByEpoch`."""
    if not is_by_epoch(node):
        return [(0, node)]
    _, fields, upstreams = node_parts(node)
    starts = fields.get("starts")
    if not isinstance(starts, (list, tuple)) or len(starts) != len(upstreams) or not upstreams:
        return [(0, node)]
    if any(type(start) is not int for start in starts) or sorted(set(starts)) != list(starts):
        return [(0, node)]
    return list(zip([0, *starts[1:]], upstreams, strict=True))


def in_saved_epoch(nodes: Sequence[tuple[int, V]], epoch: int) -> V:
    """The one of ``nodes`` that holds in ``epoch``."""
    return next(node for first, node in reversed(nodes) if first <= epoch)


def follows_from_repeats(node: Any) -> bool:
    """Whether ``node`` is a `ByEpoch` only because a `repeat` within it has one.

    A repeat that ends in the midst of a change, or that has no end, is another pipeline in its next epoch, and so are
    the stages behind it. Nobody has written that.
    """
    pairs = nodes_by_epoch(node)
    if len(pairs) == 1 or not any(holds_by_epoch(one) for _, one in pairs):
        return False
    without = (_without_repeated(one) for _, one in pairs)
    return len({json.dumps(one, default=Evidence.as_json) for one in without}) == 1


def holds_by_epoch(node: Any) -> bool:
    """Whether a stage before the last one of ``node`` is a `ByEpoch`."""
    if not (isinstance(node, list) and node):
        return False
    return any(is_by_epoch(one) or holds_by_epoch(one) for one in node_parts(node)[2])


def _without_repeated(node: Any) -> Any:
    """``node`` without what its repeats repeat."""
    if not (isinstance(node, list) and node):
        return node
    name, fields, upstreams = node_parts(node)
    return [name, fields, *map(_without_repeated, upstreams if name != REPEAT else [])]


def pipeline_shown(node: Any) -> str:
    """The pipeline of ``node`` in a few words: its sources."""
    first, *others = _sources_shown(node)
    text = " + ".join([first, *others])
    if len(text) <= LONGEST_PIPELINE:
        return text
    more = f" + {len(others)} more" if others else ""
    return f"{_cut_between_words(first, LONGEST_PIPELINE - len(more))}{more}"


def _cut_between_words(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters; one long word is cut all the same."""
    if len(text) <= most:
        return text
    cut = text[: most - 3]
    return f"{cut.rpartition(' ')[0] or cut}..."


def _sources_shown(node: Any) -> Iterator[str]:
    if not (isinstance(node, list) and node):
        yield str(node)  # as saved, as here
        return
    name, fields, upstreams = node_parts(node)
    if not upstreams:
        shown = (
            f"{_name(field)}={_value(value)}"
            for field, value in fields.items()
            if field != CONTENTS  # digests, which say nothing to people
        )
        yield f"{_name(name)}({', '.join(shown)})"
    for upstream in upstreams:
        yield from _sources_shown(upstream)


def _value(value: Any) -> str:
    """``value`` as text; one that quotes something is not quoted once more."""
    is_plain = isinstance(value, str) and value.isprintable() and "'" in value
    return f"<{value}>" if is_plain else repr(value)


def _name(name: str) -> str:
    """A name from a file, without anything that a terminal would take for a command."""
    return name if name.isidentifier() and name.isascii() else repr(name)


class PipelinesByEpoch(ByPosition):
    """The pipelines of `by_epoch`; their values in a timeline are nodes of a fingerprint."""

    def written(self, timeline: Timeline) -> str:
        if len(timeline) == 1:
            return f"one pipeline for all epochs, of {self.shown(timeline[0][1])}"
        return f"by_epoch({self.written_value(timeline)})"


PIPELINES: Final = PipelinesByEpoch("pipelines", shown=pipeline_shown, unit="epoch")


@dataclass(frozen=True)
class EpochContinuation(Continuation):
    """Pipelines by epoch, as a run was saved with them and as a pipeline that is to go on has them.

    Args:
      problem: why the two differ in an epoch that was begun; None if they do not.
      differs_from: the first such epoch.
      repeat: what counts the epochs; None if the loop does.
      where: before which stages a `by_epoch` may stand; None if the loop counts.
      repeats_within: whether a pipeline repeats something itself, so that a `by_epoch` before that counts
        other epochs.
    """

    problem: str | None = None
    differs_from: int = 0
    repeat: str | None = None
    where: str | None = None
    repeats_within: bool = False

    def furthest(self, others: Sequence[Continuation]) -> Continuation:
        # One that is not as far may belong to a rank that goes on with something else.
        wrong = [one for one in [self, *others] if not one.agrees]
        furthest = super().furthest(others)
        return replace(wrong[0], reached=furthest.reached) if wrong else furthest

    @property
    def agrees(self) -> bool:
        return self.problem is None

    @property
    def why_fixed(self) -> str:
        return self.refused or "a later stage may have begun any of its epochs"

    @property
    def may_change(self) -> str:
        if self.is_fixed:
            return super().may_change
        kept = [(first, AS_SAVED) for first, _ in self.saved if first < self.reached]
        if self.is_not_there:
            kept = [(0, "<what is there>")]
        example = self.argument.written((*kept, (int(self.reached), "new")))
        return f"{super().may_change}, as {example}{self._where}"

    @property
    def to_write(self) -> str | None:
        if self.agrees:
            return self.argument.written(self.present)
        return None if self.is_fixed else f"{self._changed}{self._where}"

    @property
    def disagreement(self) -> str | None:
        if self.agrees:
            return None
        wrong = f"{self.problem}; {SO_FROM_EPOCH} {self.differs_from} on, and"
        if self.refused is not None:
            return f"{wrong} {CANNOT_BE_CHANGED}: {self.refused}"
        if self.is_fixed:
            return f"{wrong} any epoch may have been begun, so {CANNOT_BE_CHANGED}"
        wrong = f"{wrong} epochs before {int(self.reached)} were begun;"
        if self.repeats_within:
            where = "the pipeline" if self.repeat is None else f"what {self.repeat} repeats"
            return f"{wrong} it may change from epoch {int(self.reached)} of {where} on"
        return f"{wrong} {FROM_THERE_ON}, write {self._changed}{self._where}"

    @property
    def is_not_there(self) -> bool:
        """Whether there is no `by_epoch` yet before the repeat that counts."""
        return self.repeat is not None and len(self.saved) == len(self.present) == 1

    @property
    def _where(self) -> str:
        is_elsewhere = self.is_not_there or self.repeats_within
        return f" {self.where}" if is_elsewhere and self.where else ""

    @property
    def _changed(self) -> str:
        """The `by_epoch` that keeps what was saved in the epochs that were begun."""
        saved = tuple((first, AS_SAVED) for first, _ in self.saved)
        present = tuple((first, AS_HERE) for first, _ in self.present)
        return self.argument.written(changed_from(saved, present, int(self.reached)))
