"""The tasks of a fresh process with a pipeline."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ..checkpoint.checkpointer import Checkpointer
from ..core.ended import ended_runs_expected
from ..core.graph import without_threads
from ..core.iterator import PipelineIterator
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..state.encoding import dumps, loads
from ..state.value import State
from ..testing.digest import item_digest
from ..triggers import AtEnd, AtSteps, EverySteps, Trigger
from .counted import AFTER_RESUME, after_resume, counted, reread
from .runs import Digests, PipelineRun, Watch, draw

TIMINGS: Final = 50


class Work(ABC):
    """Something to do with a pipeline."""

    @abstractmethod
    def do(self, stage: Stage[Any], watch: Watch) -> Any:
        """Do the work; the result or the exception is pickled for the parent."""

    def end(self) -> None:  # noqa: B027  # most works leave the end to the process
        """End the process in a special way; called when the result has been written."""


@final
@dataclass(frozen=True)
class WholeRuns(Work):
    """Uninterrupted runs in one process, up to ``limit`` items each; gives a list of `PipelineRun`.

    The first run writes digests to the file ``keep``; later runs are compared with the file. With
    ``expected`` digests, all runs are compared with ``expected``. A first run longer than
    ``seconds`` is stopped, though after `FEWEST` items at the earliest; later runs have the same
    number of items.
    """

    limit: int | None
    keep: str | None = None
    expected: Digests | None = None
    count: int = 1
    texts: int = 0
    seconds: float | None = None

    def do(self, stage: Stage[Any], watch: Watch) -> list[PipelineRun]:
        runs: list[PipelineRun] = []
        limit, keep, expected = self.limit, self.keep, self.expected
        patience = self.seconds if limit is None else None
        for _ in range(self.count):
            with iter(Pipeline(stage)) as iterator:
                run = draw(
                    iterator,
                    limit,
                    watch,
                    expected=expected,
                    keep=keep,
                    texts=self.texts,
                    patience=patience,
                )
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


@final
@dataclass(frozen=True)
class Resumed(Work):
    """A run from the newest checkpoint in ``folder``, or from the start, to item ``until``.

    Attributes:
      folder: of the checkpoints; several ranks save in it together.
      expected: the digests of the whole run, to compare with; None to keep digests in ``keep``.
      until: the number of items to stop after, counted from the very first; None for the end.
      saves: after how many items to save; the end is saved too.
      every: the number of items from save to save, instead of ``saves`` and the end.
      rank: number of this rank.
      ranks: how many ranks save together.
      keep: a new file for the digests; None to keep none.
      is_killed: whether the process is killed after ``until`` items, with the checkpoints still open.
    """

    folder: str
    expected: Digests | None
    until: int | None
    saves: tuple[int, ...] = ()
    every: int | None = None
    rank: int = 0
    ranks: int = 1
    keep: str | None = None
    is_killed: bool = False
    _open: list[ExitStack] = field(init=False, default_factory=list, repr=False)

    def do(self, stage: Stage[Any], watch: Watch) -> ResumedRun:
        with ExitStack() as stack:
            began = perf_counter()
            checkpointer = stack.enter_context(self._checkpointer())
            loop = checkpointer.resume(Pipeline(stage))
            first = loop.step
            if first in self.saves:
                checkpointer.save()
            limit = None if self.until is None else max(self.until - first, 0)
            expected = self.expected and self.expected.after(first)
            with ended_runs_expected():
                run = draw(loop, limit, watch, expected=expected, keep=self.keep, first=first)
            if self.is_killed:
                self._open.append(stack.pop_all())
        return ResumedRun(first, run, None if run.first_at is None else run.first_at - began)

    def end(self) -> None:
        if self.is_killed:
            if hasattr(signal, "SIGKILL"):
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)

    def _checkpointer(self) -> Checkpointer:
        trigger: Trigger = AtEnd()
        if self.every is not None:
            trigger = EverySteps(self.every)
        elif steps := [*filter(None, self.saves)]:
            trigger = AtSteps(steps)
        at_end = self.every is None
        return Checkpointer(
            self.folder, trigger, rank=self.rank, ranks=self.ranks, save_at_end=at_end
        )


@final
@dataclass(frozen=True)
class Obeyed(Work):
    """Try a law of `resumable.testing` with the digests of items; a broken law raises."""

    law: Callable[..., None]
    arguments: tuple[Any, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> None:
        self.law(Pipeline(stage).map(item_digest), *self.arguments)


@final
@dataclass(frozen=True)
class Everywhere(Work):
    """A resume at each of ``positions`` in the same process, without threads; each draws some items.

    ``expected`` are the digests of the whole run. Gives the first position followed by a difference;
    None if all items agree.
    """

    expected: Digests
    positions: tuple[int, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> int | None:
        pipeline: Pipeline[Any] = Pipeline(without_threads(stage))
        with iter(pipeline) as iterator:
            states = [
                (iterator.step, dumps(iterator.get_state()))
                for _ in _stopping(iterator, self.positions)
            ]
        for position, state in states:
            expected = self.expected.after(position)
            most = min(AFTER_RESUME, len(expected))
            with pipeline.resume(loads(state)) as resumed:
                if draw(resumed, most, watch, expected=expected, first=position).differs:
                    return int(position)
        return None


@final
@dataclass(frozen=True)
class Consumption(Work):
    """How many items each stage has delivered, after each number of items in ``stops``."""

    stops: tuple[int | None, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> list[Mapping[int, int]]:
        counter: Counter[int] = Counter()
        counts: list[Mapping[int, int]] = []
        with iter(Pipeline(counted(stage, counter, sources_only=False))) as iterator:
            for stop in self.stops:
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


@final
@dataclass(frozen=True)
class Measure(Work):
    """Measure the costs of taking the state at ``positions`` and of resuming from it.

    Items are counted without threads and workers, since both read ahead.
    """

    positions: tuple[int, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> Costs:
        seconds, states = [], []
        with iter(Pipeline(stage)) as iterator:
            for _ in _stopping(iterator, self.positions):
                for _ in range(TIMINGS):
                    began = perf_counter()
                    state = iterator.get_state()
                    seconds.append(perf_counter() - began)
                states.append(state)
        largest = max(states, key=lambda state: len(dumps(state)))
        reread = self._reread(without_threads(stage))
        return Costs(median(seconds), len(dumps(largest)), largest, reread)

    def _reread(self, stage: Stage[Any]) -> int:
        counter: Counter[int] = Counter()
        pipeline: Pipeline[Any] = Pipeline(counted(stage, counter, sources_only=True))
        most, items = 0, after_resume(stage)
        with iter(pipeline) as iterator:
            for _ in _stopping(iterator, self.positions):
                most = max(most, reread(pipeline, iterator, items, counter))
        return most


def _stopping(iterator: PipelineIterator[Any], positions: tuple[int, ...]) -> Iterator[None]:
    """Stop at each of ``positions`` from the iterator's position on."""
    for position in sorted(positions):
        if position >= iterator.step:
            iterator.skip(position - iterator.step)
            yield
