"""What a fresh process can be given to do with a pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from ..triggers import AtEnd, AtSteps
from .counted import AFTER_RESUME, after_resume, counted, reads_of_next
from .runs import Digests, PipelineRun, TimeToFirstItem, WaitLimit, Watch, draw

FEWEST: Final = 10_000
"""Items drawn of a pipeline of which it is not known whether it ends."""
TIMINGS: Final = 50


class Work(ABC):
    """Something to do with a pipeline."""

    @abstractmethod
    def do(self, stage: Stage[Any], watch: Watch) -> Any:
        """Do it; the result, or the exception, is pickled for the parent."""


@final
@dataclass(frozen=True)
class WholeRuns(Work):
    """Uninterrupted runs in one process, up to ``limit`` items each; gives a list of `PipelineRun`.

    The first run keeps its digests in the file ``keep``, and the later runs are compared with
    them. If there are ``expected`` digests, all runs are compared with those. If the first run has ``seconds``
    and does not end in them, it is stopped, though after `FEWEST` items at the earliest; the later runs are as long.
    """

    limit: int | None
    keep: str | None = None
    expected: Digests | None = None
    count: int = 1
    texts: int = 0
    seconds: float | None = None

    def do(self, stage: Stage[Any], watch: Watch) -> list[PipelineRun]:
        runs: list[PipelineRun] = []
        limit = self.limit
        for number in range(self.count):
            keep, expected = self.keep, self.expected
            if number and self.keep is not None:
                keep, expected = None, Digests(self.keep)
            is_bounded = self.seconds is not None and limit is None and not number
            patience = WaitLimit(FEWEST, self.seconds or 0.0) if is_bounded else None
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
        return runs


class ResumedRun(NamedTuple):
    """A run from a checkpoint on.

    Attributes:
      first: number of items before the checkpoint.
      run: the run after it.
      seconds: time until the first item came; None if none was drawn.
    """

    first: int
    run: PipelineRun
    seconds: float | None


@final
@dataclass(frozen=True)
class Resumed(Work):
    """A run from the newest checkpoint in ``folder``, or from the start, to item ``until``.

    It saves at its end, and after each number of items in ``saves``. ``expected`` are the digests
    of the whole run.
    """

    folder: str
    expected: Digests
    until: int | None
    saves: tuple[int, ...] = ()

    def do(self, stage: Stage[Any], watch: Watch) -> ResumedRun:
        within = [step for step in self.saves if step]
        trigger = AtSteps(within) if within else AtEnd()
        with Checkpointer(self.folder, trigger) as checkpointer:
            began = perf_counter()
            loop = checkpointer.resume(Pipeline(stage))
            first = loop.step
            if first in self.saves:
                checkpointer.save()
            limit = None if self.until is None else self.until - first
            timed = TimeToFirstItem(loop, began)
            with ended_runs_expected():
                run = draw(timed, limit, watch, expected=self.expected.after(first), first=first)
        return ResumedRun(first, run, timed.seconds)


@final
@dataclass(frozen=True)
class ResumedHere(Work):
    """The whole run, and then a chain of resumes at ``stops``, all in one process.

    Gives the runs between the stops. Each is compared with the whole run, whose digests go to the
    file ``keep``.
    """

    limit: int | None
    keep: str
    stops: tuple[int, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> list[PipelineRun]:
        pipeline: Pipeline[Any] = Pipeline(stage)
        with iter(pipeline) as iterator:
            draw(iterator, self.limit, watch, keep=self.keep)
        whole = Digests(self.keep)
        runs = []
        state: State | None = None
        position = 0
        for until in (*self.stops, self.limit):
            limit = None if until is None else until - position
            with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
                expected = whole.after(position)
                runs.append(draw(iterator, limit, watch, expected=expected, first=position))
                state, position = iterator.get_state(), iterator.step
        return runs


@final
@dataclass(frozen=True)
class Everywhere(Work):
    """A resume at each of ``positions`` in one process, without threads; each draws some items.

    ``expected`` are the digests of the whole run. Gives the first position after which they differ;
    None if they never do.
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
    """What it costs to save and resume at some positions.

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
    """What it costs to take the state at ``positions`` and to resume there.

    Items are counted in a pipeline without threads and workers, which would read ahead.
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
                state = iterator.get_state()
                needed = reads_of_next(iterator, items, counter)
                with pipeline.resume(state) as resumed:
                    most = max(most, reads_of_next(resumed, items, counter) - needed)
        return most


def _stopping(iterator: PipelineIterator[Any], positions: tuple[int, ...]) -> Iterator[None]:
    """Stop at each of ``positions`` that the iterator has not passed yet."""
    for position in sorted(positions):
        if position >= iterator.step:
            iterator.skip(position - iterator.step)
            yield
