"""Where the items of a step came from, and the steps that a record was in, by the checkpoints of a run."""

# A step was handed out by the ranks that saved the next checkpoint, or by those of the newest one if
# there is none after it. They began at the checkpoint before it. So the shadows of their pipelines, resumed
# there, come to the same step. Where items are dealt out, the checkpoints in between may be gone at which the number
# of ranks changed, or one rank may have saved for several. So it is seen that a shadow comes from the one
# checkpoint to the place of the other.

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, takewhile
from typing import Any, NamedTuple, TypeAlias

from ..core.graph import walk, without_threads
from ..core.iterator import PipelineIterator
from ..core.orders import countable
from ..core.origin import ItemOrigin
from ..core.stage import Stage, known_length
from ..errors import CorruptCheckpoint, InvalidArgument, StateMismatch
from ..pipeline import Pipeline, origins
from ..shadows.by_index import ItemSpan, Sought, end_of_epoch, follows_from_relations, items_with
from ..stages.global_order import deal_of, for_rank, is_dealt
from ..state.encoding import dumps
from ..state.value import State
from .envelope import Checkpoint
from .opening import start_at
from .ranks.parts import WholeSteps
from .store import Store

StageOfRanks: TypeAlias = Callable[["int | None"], Stage[Any]]
"""The pipeline as any of so many ranks has it; with None, as it is by itself."""


class TracedStep(NamedTuple):
    """What one rank was handed out at a step.

    Attributes:
      step: from 1, as `Checkpointer.step` has it in the body of the loop.
      rank: from 0.
      ranks: how many there were.
      epoch: of the item.
      origin: of the item.
      is_past: whether it is at or before the newest checkpoint.
    """

    step: int
    rank: int
    ranks: int
    epoch: int
    origin: ItemOrigin
    is_past: bool = True


class _StepRange(NamedTuple):
    """Steps that the same ranks handed out one after another.

    Attributes:
      before: the step of the checkpoint at which they began; 0 for the start.
      last: the step of the next checkpoint; `math.inf` behind the newest.
      ranks: how many they were.
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
    """Where the items of ``step`` came from, on each rank or on ``rank`` alone.

    Without random access, the items since the checkpoint before the step are made again.

    Args:
      store: of the run; its checkpoints are only read.
      stage_of: gives the pipeline as any of so many ranks has it, since a batch may depend on their number.
      step: from 1.
      rank: only this one.
      ranks: how many there were; by default what the checkpoints say, or the pipeline.

    Raises:
      InvalidArgument: if ``step`` is below 1, there is no such rank, or no such step.
      StateMismatch: if the checkpoint belongs to another pipeline, or it is not known how many ranks there were.
    """
    if step < 1:
        raise InvalidArgument(f"step must be at least 1, the first item, got {step}")
    steps = WholeSteps(store)
    spans = _spans(steps, stage_of, ranks)
    counts = [ranks] if ranks else list({span.ranks: None for span in spans} | {1: None})
    number, span = next(
        (number, span) for number, span in enumerate(spans) if span.before < step <= span.last
    )
    if span.last == math.inf and number and spans[number - 1].ranks == span.ranks:
        # Nothing follows that would show a wrong pipeline, so what the same ranks did before must.
        _with_known_ranks(steps, stage_of, spans[number - 1], counts, rank)
    span = _with_known_ranks(steps, stage_of, span, counts, rank)
    return [
        traced
        for chosen in _chosen(rank, span.ranks)
        for traced in _from(steps, stage_of, span, chosen, step)
    ]


def steps_of_run(
    store: Store, stage_of: StageOfRanks, ranks: int | None = None, sought: Sought | None = None
) -> Iterator[TracedStep]:
    """All steps up to the newest checkpoint, and those after it in the same epoch if it has an end.

    They come checkpoint by checkpoint, of one rank after another. A warning tells which are left out because it is
    not known how many ranks there were.

    Args:
      store: of the run; its checkpoints are only read.
      stage_of: as for `traced_step`.
      ranks: as for `traced_step`.
      sought: only steps with these records; with random access the steps between them are passed over.
    """
    is_endless = any(one.length == math.inf for one, _ in walk(stage_of(None)))
    steps = WholeSteps(store)
    spans = _spans(steps, stage_of, ranks)
    counts = [ranks] if ranks else list({span.ranks: None for span in spans} | {1: None})
    for span in spans:
        if is_endless and span.last == math.inf:
            break
        try:
            span = _with_known_ranks(steps, stage_of, span, counts)
        except _RanksUnknown as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
            continue
        for rank in range(span.ranks):
            found = _all_in(steps, stage_of, span, rank, sought)
            yield from (one for one in found if sought is None or sought.is_in(one.origin))


def _all_in(
    steps: WholeSteps,
    stage_of: StageOfRanks,
    span: _StepRange,
    rank: int,
    sought: Sought | None,
) -> Iterator[TracedStep]:
    found = _steps(steps, stage_of, span, rank, sought=sought)
    if span.last != math.inf:
        yield from takewhile(lambda one: one.step <= span.last, found)
        return
    first = next(found, None)
    if first is not None:
        rest = takewhile(lambda one: one.epoch == first.epoch, found)
        for one in chain([first], rest):
            yield one._replace(is_past=False)


def _from(
    steps: WholeSteps, stage_of: StageOfRanks, span: _StepRange, rank: int, step: int
) -> Iterator[TracedStep]:
    found = next(_steps(steps, stage_of, span, rank, step - span.before - 1), None)
    if found is not None:
        yield found._replace(is_past=span.last != math.inf)


def _steps(
    steps: WholeSteps,
    stage_of: StageOfRanks,
    span: _StepRange,
    rank: int,
    passed: int = 0,
    sought: Sought | None = None,
) -> Iterator[TracedStep]:
    """The steps after the first ``passed`` of a span, and on; some without the records that are ``sought`` may be missing."""
    stage = stage_of(span.ranks)
    one = for_rank(stage, rank, span.ranks)
    if one is None:
        raise InvalidArgument(
            f"the pipeline deals items out twice, and not to {span.ranks} ranks in all, got {stage!r}"
        )
    began, checkpoint, of_rank = _beginning(steps, span, rank)
    passed += span.before - began
    with start_at(checkpoint, origins(Pipeline(one)), steps, from_this_rank=of_rank) as iterator:
        first = iterator.step
        if iterator.skip(passed) < passed:
            return
        for origin in iterator if sought is None else _items_with(sought, iterator, one, span):
            # A rank that was ahead of others has a count of its own.
            step = began + iterator.step - first
            yield TracedStep(step, rank, span.ranks, iterator.epoch, origin)


def _items_with(
    sought: Sought, iterator: PipelineIterator[ItemOrigin], stage: Stage[Any], span: _StepRange
) -> Iterator[ItemOrigin]:
    """What ``iterator`` delivers in ``span``; where ``stage`` has random access, only where records are ``sought``."""
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
    """The items of ``span``, which follow on ``state``.

    None if they are not looked up by their index, or another number of ranks has left a place that no index has.
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


class _RanksUnknown(StateMismatch):
    """Nothing says how many ranks there were."""


def _with_known_ranks(
    steps: WholeSteps,
    stage_of: StageOfRanks,
    span: _StepRange,
    counts: Sequence[int],
    rank: int | None = None,
) -> _StepRange:
    """``span`` with the number of ranks by which the next checkpoint is come to, one of ``counts``.

    If several ranks saved that checkpoint, there is no other number.

    Raises:
      StateMismatch: if there is none.
    """
    if (
        span.last == math.inf
        or not is_dealt(stage_of(span.ranks))
        or _arrives(steps, stage_of, span, rank)
    ):
        return span
    saved_by = steps.saved_as(int(span.last)).ranks
    if saved_by == span.ranks > 1:
        raise _RanksUnknown(
            f"the steps {span.before + 1} to {span.last} in {steps!r} cannot be traced: with this pipeline their "
            f"{saved_by} ranks do not come from the checkpoint before them to the one after them; give it the batches "
            f"that each of {saved_by} ranks had, such as by a function with the argument ranks; or did the number of "
            "ranks change at a checkpoint that is gone?"
        )
    for ranks in counts:
        other = span._replace(ranks=ranks)
        with suppress(StateMismatch, InvalidArgument):
            if _arrives(steps, stage_of, other, rank):
                return other
    raise _RanksUnknown(
        f"the steps {span.before + 1} to {span.last} in {steps!r} cannot be traced: {span.ranks} ranks do not come "
        "from the checkpoint before them to the one after them; if one rank has saved for more, say how many ranks "
        "there were; or did the number of ranks change at a checkpoint that is gone?"
    )


def _arrives(steps: WholeSteps, stage_of: StageOfRanks, span: _StepRange, rank: int | None) -> bool:
    """Whether ``rank`` of as many, or rank 0, comes to the place of the next checkpoint."""
    rank = rank if rank is not None and rank < span.ranks else 0
    # Before anything is read: what is listed may be removed meanwhile.
    saved = [steps.saved_as(step) for step in (span.before, int(span.last)) if step]
    one = for_rank(stage_of(span.ranks), rank, span.ranks)
    if one is None:
        return True  # which is refused later
    began, checkpoint, of_rank = _beginning(steps, span, rank)
    end = int(span.last)
    try:
        last = steps.checkpoints(end)
    except (CorruptCheckpoint, FileNotFoundError):
        return True  # as far as can be known
    if len(last) > 1 and len(last) != span.ranks:
        return False
    shadow = origins(Pipeline(one))
    with (
        start_at(
            last[rank % len(last)], shadow, steps, from_this_rank=saved[-1].ranks == span.ranks > 1
        ) as there,
        start_at(checkpoint, shadow, steps, from_this_rank=of_rank) as here,
    ):
        if here.skip(end - began) < end - began:
            return False
        states = [dumps(one.get_state()["pipeline"]) for one in (here, there)]
        # One place may have several states.
        return states[0] == states[1] or next(here, None) == next(there, None)


def _beginning(
    steps: WholeSteps, span: _StepRange, rank: int
) -> tuple[int, Checkpoint | None, bool]:
    """The step at which to begin, its checkpoint, and whether that was saved by as many ranks."""
    for step in _back_from(span.before, steps):
        try:
            found = steps.checkpoints(step)
        except (CorruptCheckpoint, FileNotFoundError) as error:
            warnings.warn(
                f"the checkpoint of step {step} is passed over: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            continue
        if len(found) > 1 and len(found) != span.ranks:
            raise InvalidArgument(
                f"the checkpoint of step {step} is of {len(found)} ranks, each with a state of its own, so "
                f"{span.ranks} ranks cannot have begun there"
            )
        return step, found[rank % len(found)], steps.saved_as(step).ranks == span.ranks > 1
    return 0, None, False


def _back_from(step: int, steps: WholeSteps) -> Iterator[int]:
    """``step``, and the saved ones before it, which are listed only if they are wanted."""
    if step > 0:
        yield step
        yield from (before for before in reversed(steps.steps()) if 0 < before < step)


def _spans(steps: WholeSteps, stage_of: StageOfRanks, ranks: int | None) -> list[_StepRange]:
    """What came between the checkpoints, in the order of the steps."""
    stage = stage_of(None)
    saved = {step: steps.saved_as(step).ranks for step in steps.steps()}
    # If no step was saved by several ranks, one may have saved for all to which the pipeline deals.
    one_for_all = deal_of(stage).ranks if is_dealt(stage) and {*saved.values()} <= {1} else 1
    spans, before, count = list[_StepRange](), 0, ranks or one_for_all
    for step, of_step in saved.items():
        count = ranks or max(of_step, one_for_all)
        if step:
            spans.append(_StepRange(before, step, count))
        before = step
    return [*spans, _StepRange(before, math.inf, count)]


def _chosen(rank: int | None, ranks: int) -> list[int]:
    if rank is None:
        return list(range(ranks))
    if not 0 <= rank < ranks:
        raise InvalidArgument(
            f"rank must be below the number of ranks of that time, {ranks}, got {rank}"
        )
    return [rank]
