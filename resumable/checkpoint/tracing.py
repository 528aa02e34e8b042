"""The origins of the items of a step, and the steps with a record, by the checkpoints of a run."""

# A step was handed out by the ranks of the next checkpoint, or, without a later checkpoint, by the
# ranks of the newest checkpoint. The ranks began at the previous checkpoint. So the shadows of
# their pipelines, resumed at the previous checkpoint, come to the same step. If items are dealt
# out, checkpoints in between at which the number of ranks changed may be gone, or one rank may have
# saved for several. So a check makes sure that a shadow comes from one checkpoint to the position
# of the next.

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, final

from ..core.graph import walk, without_threads
from ..core.iterator import PipelineIterator
from ..core.orders import countable
from ..core.origin import ItemOrigin
from ..core.stage import Stage, known_length
from ..errors import CorruptCheckpoint, InvalidArgument, StateMismatch
from ..pipeline import Pipeline, origins
from ..shadows.by_index import ItemSpan, Sought, end_of_epoch, follows_from_relations, items_with
from ..stages.global_order import for_rank, is_dealt, rank_share_of
from ..state.encoding import dumps
from ..state.value import State
from .envelope import Checkpoint
from .opening import start_at
from .ranks.parts import WholeSteps
from .store import Store

StageOfRanks: TypeAlias = Callable[["int | None"], Stage[Any]]
"""The pipeline for a given number of ranks; with None, the pipeline unchanged."""


class TracedStep(NamedTuple):
    """The item of one rank at a step.

    Attributes:
      step: from 1, as `Checkpointer.step` in the body of the loop.
      rank: from 0.
      ranks: number of ranks at the step.
      epoch: of the item.
      origin: of the item.
      is_past: whether the step is at or before the newest checkpoint.
    """

    step: int
    rank: int
    ranks: int
    epoch: int
    origin: ItemOrigin
    is_past: bool = True


class _StepRange(NamedTuple):
    """Steps handed out one after another by the same ranks.

    Attributes:
      before: the step of the checkpoint at which the ranks began; 0 for the start.
      last: the step of the next checkpoint; `math.inf` after the newest.
      ranks: number of ranks.
    """

    before: int
    last: float
    ranks: int


def traced_step(
    store: Store,
    stage_of: StageOfRanks,
    step: int,
    rank: int | None = None,
    ranks: int | None = None,
) -> list[TracedStep]:
    """The origins of the items of ``step``, on each rank or on ``rank`` alone.

    Without random access, the items since the previous checkpoint are computed again.

    Args:
      store: of the run; the checkpoints are only read.
      stage_of: returns the pipeline for a number of ranks, since a batch may depend on the number.
      step: from 1.
      rank: only this rank.
      ranks: number of ranks; by default from the checkpoints, or the pipeline.

    Raises:
      InvalidArgument: if ``step`` is below 1, or the run has no such rank or step.
      StateMismatch: if the checkpoint belongs to another pipeline, or the number of ranks is
        unknown.
    """
    if step < 1:
        raise InvalidArgument(f"step must be at least 1, the first item, got {step}")
    run = _TracedRun(store, stage_of, ranks)
    number = next(at for at, span in enumerate(run.spans) if span.before < step <= span.last)
    span = run.spans[number]
    if span.last == math.inf and number and run.spans[number - 1].ranks == span.ranks:
        # No later checkpoint would reveal a wrong pipeline, so the earlier steps of the same ranks
        # must.
        run.with_known_ranks(run.spans[number - 1], rank)
    span = run.with_known_ranks(span, rank)
    return [
        found._replace(is_past=span.last != math.inf)
        for chosen in _chosen(rank, span.ranks)
        for found in islice(run.steps(span, chosen, step - span.before - 1), 1)
    ]


def steps_of_run(
    store: Store, stage_of: StageOfRanks, ranks: int | None = None, sought: Sought | None = None
) -> Iterator[TracedStep]:
    """All steps up to the newest checkpoint, and later steps of the same epoch if it has an end.

    Steps are ordered by checkpoint, then rank by rank. Steps with an unknown number of ranks are
    left out, with a warning.

    Args:
      store: of the run; the checkpoints are only read.
      stage_of: as for `traced_step`.
      ranks: as for `traced_step`.
      sought: only steps with these records; with random access the steps in between are passed
        over.
    """
    is_endless = any(one.length == math.inf for one, _ in walk(stage_of(None)))
    run = _TracedRun(store, stage_of, ranks)
    for span in run.spans:
        if is_endless and span.last == math.inf:
            break
        try:
            span = run.with_known_ranks(span)
        except _RanksUnknown as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
            continue
        for rank in range(span.ranks):
            found = run.until_next_checkpoint(span, rank, sought)
            yield from (one for one in found if sought is None or sought.is_in(one.origin))


class _RanksUnknown(StateMismatch):
    """The number of ranks is unknown."""


@final
class _TracedRun:
    """The steps of a run, by its checkpoints and pipelines.

    Attributes:
      spans: between the checkpoints, in the order of the steps.
    """

    def __init__(self, store: Store, stage_of: StageOfRanks, ranks: int | None) -> None:
        self._steps = WholeSteps(store)
        self._stage_of = stage_of
        self.spans = self._found_spans(ranks)
        counts = [ranks] if ranks else [*(span.ranks for span in self.spans), 1]
        self._counts = list(dict.fromkeys(counts))

    def until_next_checkpoint(
        self, span: _StepRange, rank: int, sought: Sought | None
    ) -> Iterator[TracedStep]:
        """The steps of a span; after the newest checkpoint, the steps of the epoch of the first."""
        found = self.steps(span, rank, sought=sought)
        if span.last != math.inf:
            return takewhile(lambda one: one.step <= span.last, found)
        _, of_one_epoch = next(groupby(found, attrgetter("epoch")), (None, iter(())))
        return (one._replace(is_past=False) for one in of_one_epoch)

    def steps(
        self, span: _StepRange, rank: int, passed: int = 0, sought: Sought | None = None
    ) -> Iterator[TracedStep]:
        """The steps of a span and later, except the first ``passed``.

        Some steps without the records ``sought`` may be missing.
        """
        stage = self._stage_of(span.ranks)
        one = for_rank(stage, rank, span.ranks)
        if one is None:
            raise InvalidArgument(
                f"the pipeline deals items out twice, and not to {span.ranks} ranks in all, got {stage!r}"
            )
        began, checkpoint, of_rank = self._beginning(span, rank)
        passed += span.before - began
        with self._start(one, checkpoint, of_rank) as iterator:
            first = iterator.step
            if iterator.skip(passed) < passed:
                return
            for origin in iterator if sought is None else _items_with(sought, iterator, one, span):
                # A rank ahead of other ranks has a separate count.
                step = began + iterator.step - first
                yield TracedStep(step, rank, span.ranks, iterator.epoch, origin)

    def with_known_ranks(self, span: _StepRange, rank: int | None = None) -> _StepRange:
        """``span`` with the number of ranks that leads to the next checkpoint.

        If several ranks saved the next checkpoint, no other number is possible.

        Raises:
          StateMismatch: if no number fits.
        """
        has_no_choice = span.last == math.inf or not is_dealt(self._stage_of(span.ranks))
        if has_no_choice or self._arrives(span, rank):
            return span
        saved_by = self._steps.saved_as(int(span.last)).ranks
        if saved_by == span.ranks > 1:
            raise _RanksUnknown(
                f"the steps {span.before + 1} to {span.last} in {self._steps!r} cannot be traced: with this pipeline their "
                f"{saved_by} ranks do not come from the checkpoint before them to the one after them; give it the batches "
                f"that each of {saved_by} ranks had, such as by a function with the argument ranks; or did the number of "
                "ranks change at a checkpoint that is gone?"
            )
        for ranks in self._counts:
            other = span._replace(ranks=ranks)
            with suppress(StateMismatch, InvalidArgument):
                if self._arrives(other, rank):
                    return other
        raise _RanksUnknown(
            f"the steps {span.before + 1} to {span.last} in {self._steps!r} cannot be traced: {span.ranks} ranks do not come "
            "from the checkpoint before them to the one after them; if one rank has saved for more, say how many ranks "
            "there were; or did the number of ranks change at a checkpoint that is gone?"
        )

    def _arrives(self, span: _StepRange, rank: int | None) -> bool:
        """Whether ``rank``, or rank 0 if absent, comes to the position of the next checkpoint."""
        rank = rank if rank is not None and rank < span.ranks else 0
        # Read first: listed checkpoints may be removed meanwhile.
        saved = [self._steps.saved_as(step) for step in (span.before, int(span.last)) if step]
        one = for_rank(self._stage_of(span.ranks), rank, span.ranks)
        if one is None:
            return True  # refused later
        began, checkpoint, of_rank = self._beginning(span, rank)
        end = int(span.last)
        try:
            last = self._steps.checkpoints(end)
        except (CorruptCheckpoint, FileNotFoundError):
            return True  # as far as can be known
        if len(last) > 1 and len(last) != span.ranks:
            return False
        same_ranks = saved[-1].ranks == span.ranks > 1
        with (
            self._start(one, last[rank % len(last)], same_ranks) as there,
            self._start(one, checkpoint, of_rank) as here,
        ):
            if here.skip(end - began) < end - began:
                return False
            states = [dumps(one.get_state()["pipeline"]) for one in (here, there)]
            # One position may have several states.
            return states[0] == states[1] or next(here, None) == next(there, None)

    def _beginning(self, span: _StepRange, rank: int) -> tuple[int, Checkpoint | None, bool]:
        """The step at which to begin, its checkpoint, and whether the same number of ranks saved it."""
        for step in self._back_from(span.before):
            try:
                found = self._steps.checkpoints(step)
            except (CorruptCheckpoint, FileNotFoundError) as error:
                passed_over = f"the checkpoint of step {step} is passed over: {error}"
                warnings.warn(passed_over, RuntimeWarning, stacklevel=2)
                continue
            if len(found) > 1 and len(found) != span.ranks:
                raise InvalidArgument(
                    f"the checkpoint of step {step} is of {len(found)} ranks, each with a state of its own, so "
                    f"{span.ranks} ranks cannot have begun there"
                )
            saved_by = self._steps.saved_as(step).ranks
            return step, found[rank % len(found)], saved_by == span.ranks > 1
        return 0, None, False

    def _start(
        self, stage: Stage[Any], checkpoint: Checkpoint | None, of_rank: bool
    ) -> PipelineIterator[ItemOrigin]:
        """The origins of the items of ``stage``, from ``checkpoint`` on."""
        return start_at(checkpoint, origins(Pipeline(stage)), self._steps, from_this_rank=of_rank)

    def _back_from(self, step: int) -> Iterator[int]:
        """``step``, and earlier saved steps, listed only on demand."""
        if step > 0:
            yield step
            yield from (before for before in reversed(self._steps.steps()) if 0 < before < step)

    def _found_spans(self, ranks: int | None) -> list[_StepRange]:
        """The spans between the checkpoints, in the order of the steps."""
        stage = self._stage_of(None)
        saved = {step: self._steps.saved_as(step).ranks for step in self._steps.steps()}
        # If no step was saved by several ranks, one rank may have saved for all ranks of the deal.
        by_one_rank = is_dealt(stage) and {*saved.values()} <= {1}
        one_for_all = rank_share_of(stage).ranks if by_one_rank else 1
        spans, before, count = list[_StepRange](), 0, ranks or one_for_all
        for step, of_step in saved.items():
            count = ranks or max(of_step, one_for_all)
            if step:
                spans.append(_StepRange(before, step, count))
            before = step
        return [*spans, _StepRange(before, math.inf, count)]


def _items_with(
    sought: Sought, iterator: PipelineIterator[ItemOrigin], stage: Stage[Any], span: _StepRange
) -> Iterator[ItemOrigin]:
    """The items of ``iterator`` in ``span``; with random access, only items ``sought``."""
    items = _items_left(iterator.get_state(), stage, span)
    if items is None:
        yield from iterator
        return
    place = items.start
    for index in items_with(sought, items).tolist():
        iterator.skip(index - place)
        yield next(iterator)
        place = index + 1


def _items_left(state: State, stage: Stage[Any], span: _StepRange) -> ItemSpan | None:
    """The items of ``span``, which come after ``state``.

    None if the items have no lookup by index, or another number of ranks left a position without an
    index.
    """
    if not follows_from_relations(stage):
        return None
    epoch, delivered = state["epoch"], None
    with suppress(StateMismatch), closing(without_threads(stage).start(epoch)) as root:
        root.set_state(state["pipeline"])
        delivered = root._items_delivered
    if delivered is None:
        return None
    with origins(Pipeline(stage)).start(epoch) as there:
        place = there.skip(delivered)
        if dumps(there.get_state()["pipeline"]) == dumps(state["pipeline"]):
            length = countable(known_length(stage))
            stop: float | None = span.last - span.before + place
            if span.last == math.inf and place < length:
                stop = end_of_epoch(stage, epoch, place)
            return None if stop is None else ItemSpan(stage, epoch, place, int(min(stop, length)))
    return None


def _chosen(rank: int | None, ranks: int) -> list[int]:
    if rank is None:
        return list(range(ranks))
    if not 0 <= rank < ranks:
        raise InvalidArgument(
            f"rank must be below the number of ranks of that time, {ranks}, got {rank}"
        )
    return [rank]
