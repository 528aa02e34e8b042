"""The tasks of a fresh process with a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from ..checkpoint.checkpointer import Checkpointer
from ..core.ended import ended_runs_expected
from ..core.graph import without_threads
from ..core.iterator import PipelineIterator
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..state.encoding import dumps, loads
from ..state.value import State
from ..testing.digest import item_digest
from ..testing.processes import left_open
from ..triggers import AtEnd, AtSteps, EverySteps, Trigger
from .counted import AFTER_RESUME, after_resume, counted, reread
from .runs import Digests, PipelineRun, Watch, draw

TIMINGS: Final = 50

Work: TypeAlias = Callable[[Stage[Any], Watch], Any]
"""Something to do with a pipeline; the result or the exception is pickled for the parent.

Mostly a function of this room with all arguments but the stage and the watch filled in, by `partial`.
"""


def whole_runs(
    stage: Stage[Any],
    watch: Watch,
    *,
    limit: int | None,
    keep: str | None = None,
    expected: Digests | None = None,
    count: int = 1,
    texts: int = 0,
    seconds: float | None = None,
) -> list[PipelineRun]:
    """Uninterrupted runs in one process, up to ``limit`` items each.

    The first run writes digests to the file ``keep``; later runs are compared with the file. With
    ``expected`` digests, all runs are compared with ``expected``. A first run longer than
    ``seconds`` is stopped, though after `FEWEST` items at the earliest; later runs have the same
    number of items.
    """
    runs: list[PipelineRun] = []
    patience = seconds if limit is None else None
    draw_run = partial(draw, watch=watch, texts=texts)
    for _ in range(count):
        with iter(Pipeline(stage)) as iterator:
            run = draw_run(iterator, limit, expected=expected, keep=keep, patience=patience)
        runs.append(run)
        if patience is not None and not run.ended:
            limit = run.items
        if keep is not None:
            expected = Digests(keep)
            keep = None
        patience = None
    return runs


class ResumedRun(NamedTuple):
    """A run from a checkpoint on.

    Attributes:
      first: number of items before the checkpoint.
      run: the run after the checkpoint.
      seconds: time until the first item came; None if none was drawn.
    """

    first: int
    run: PipelineRun
    seconds: float | None


def resumed(
    stage: Stage[Any],
    watch: Watch,
    *,
    folder: str,
    expected: Digests | None,
    until: int | None,
    saves: tuple[int, ...] = (),
    every: int | None = None,
    rank: int = 0,
    ranks: int = 1,
    keep: str | None = None,
    is_killed: bool = False,
) -> ResumedRun:
    """A run from the newest checkpoint in ``folder``, or from the start, to item ``until``.

    Args:
      stage: the pipeline.
      watch: called with the number of items.
      folder: of the checkpoints; several ranks save in it together.
      expected: the digests of the whole run, to compare with; None to keep digests in ``keep``.
      until: the number of items to stop after, counted from the very first; None for the end.
      saves: after how many items to save; the end is saved too.
      every: the number of items from save to save, instead of ``saves`` and the end.
      rank: number of this rank.
      ranks: how many ranks save together.
      keep: a new file for the digests; None to keep none.
      is_killed: whether the process is killed after the run, with the checkpoints still open.
    """
    trigger: Trigger = AtEnd()
    if every is not None:
        trigger = EverySteps(every)
    elif steps := [*filter(None, saves)]:
        trigger = AtSteps(steps)
    with ExitStack() as stack:
        began = perf_counter()
        checkpointer = stack.enter_context(
            Checkpointer(folder, trigger, rank=rank, ranks=ranks, save_at_end=every is None)
        )
        loop = checkpointer.resume(Pipeline(stage))
        first = loop.step
        if first in saves:
            checkpointer.save()
        limit = None if until is None else max(until - first, 0)
        rest = expected and expected.after(first)
        with ended_runs_expected():
            run = draw(loop, limit, watch, expected=rest, keep=keep, first=first)
        if is_killed:
            left_open.append(stack.pop_all())
    return ResumedRun(first, run, None if run.first_at is None else run.first_at - began)


def obeyed(
    stage: Stage[Any], watch: Watch, *, law: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    """Try a law of `resumable.testing` with the digests of items; a broken law raises."""
    law(Pipeline(stage).map(item_digest), *arguments)


def first_difference(
    stage: Stage[Any], watch: Watch, *, expected: Digests, positions: tuple[int, ...]
) -> int | None:
    """Resume at each of ``positions`` in the same process, without threads, and draw some items.

    ``expected`` are the digests of the whole run. Gives the first position followed by a difference;
    None if all items agree.
    """
    pipeline: Pipeline[Any] = Pipeline(without_threads(stage))
    with iter(pipeline) as iterator:
        states = [
            (iterator.step, dumps(iterator.get_state())) for _ in _stopping(iterator, positions)
        ]
    for position, state in states:
        rest = expected.after(position)
        most = min(AFTER_RESUME, len(rest))
        with pipeline.resume(loads(state)) as iterator:
            if draw(iterator, most, watch, expected=rest, first=position).differs:
                return int(position)
    return None


def consumption(
    stage: Stage[Any], watch: Watch, *, stops: tuple[int | None, ...]
) -> list[Mapping[int, int]]:
    """How many items each stage has delivered, after each number of items in ``stops``."""
    counter: Counter[int] = Counter()
    counts: list[Mapping[int, int]] = []
    with iter(Pipeline(counted(stage, counter, sources_only=False))) as iterator:
        for stop in stops:
            draw(iterator, None if stop is None else stop - iterator.step, watch)
            counts.append(dict(counter))
    return counts


class Costs(NamedTuple):
    """The costs of saving and resuming at some positions.

    Attributes:
      get_state_seconds: median time of one `get_state`.
      state_bytes: size of the largest state.
      largest: the largest state itself.
      reread: the largest number of items that a resume read from the sources again.
    """

    get_state_seconds: float
    state_bytes: int
    largest: State
    reread: int


def costs(stage: Stage[Any], watch: Watch, *, positions: tuple[int, ...]) -> Costs:
    """Measure the costs of taking the state at ``positions`` and of resuming from it.

    Items are counted without threads and workers, since both read ahead.
    """
    seconds, states = [], []
    with iter(Pipeline(stage)) as iterator:
        for _ in _stopping(iterator, positions):
            for _ in range(TIMINGS):
                began = perf_counter()
                state = iterator.get_state()
                seconds.append(perf_counter() - began)
            states.append(state)
    largest = max(states, key=lambda state: len(dumps(state)))
    alone, counter = without_threads(stage), Counter[int]()
    pipeline: Pipeline[Any] = Pipeline(counted(alone, counter, sources_only=True))
    most, items = 0, after_resume(alone)
    with iter(pipeline) as iterator:
        for _ in _stopping(iterator, positions):
            most = max(most, reread(pipeline, iterator, items, counter))
    return Costs(median(seconds), len(dumps(largest)), largest, most)


def _stopping(iterator: PipelineIterator[Any], positions: tuple[int, ...]) -> Iterator[None]:
    """Stop at each of ``positions`` from the iterator's position on."""
    for position in sorted(positions):
        if position >= iterator.step:
            iterator.skip(position - iterator.step)
            yield
