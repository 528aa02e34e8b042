"""What a fresh process can be given to do with a pipeline, and what it tells about it."""

# The items themselves never leave their process: a run tells their digests, or, given the digests
# to expect, the first item that is another one.

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ..arguments import shorten
from ..checkpoint.checkpointer import Checkpointer
from ..pipeline import Pipeline
from ..stage import Stage
from ..state import State, dumps
from ..triggers import AtEnd, AtSteps
from .counted import counted
from .digest import DIGEST_BYTES, item_digest
from .graph import Tuning, tuned

__all__ = [
    "Consumption",
    "Costs",
    "Difference",
    "Measure",
    "Passes",
    "Resumed",
    "ResumedHere",
    "ResumedRun",
    "Run",
    "Text",
    "Watch",
    "Work",
]

Watch = Callable[[int], object]
"""Told now and then how many items were drawn."""

TEXT_LENGTH: Final = 200
AFTER_RESUME: Final = 20
"""Items drawn after a resume to see what it reads again."""
TIMINGS: Final = 50


class Difference(NamedTuple):
    """The first item that is not what was expected.

    Attributes:
      number: of the item in the whole run.
      got: the item as text, or None if no item came.
    """

    number: int
    got: str | None


class Run(NamedTuple):
    """What came out of a pipeline.

    Attributes:
      items: how many.
      difference: from what was expected, if anything was.
      error: what ended the run, if it was an exception.
      digests: of all items, one after another, if nothing was expected.
    """

    items: int
    difference: Difference | None
    error: str | None
    digests: bytes

    @property
    def differs(self) -> bool:
        """Whether it is not what was expected."""
        return self.difference is not None or self.error is not None


class ResumedRun(NamedTuple):
    """A run from a checkpoint on, and the seconds until its first item was there."""

    first: int
    run: Run
    seconds: float


class Costs(NamedTuple):
    """What positions cost.

    Attributes:
      get_state_seconds: median of one `get_state`.
      state_bytes: of the largest state.
      largest: that state.
      reread: the most items of the sources that a resume read again.
    """

    get_state_seconds: float
    state_bytes: int
    largest: State
    reread: int


class Work(ABC):
    """Something to do with a pipeline."""

    @abstractmethod
    def do(self, stage: Stage[Any], watch: Watch) -> Any:
        """Do it; what it returns is pickled."""


@final
@dataclass(frozen=True)
class Passes(Work):
    """Uninterrupted runs in one process, up to ``limit`` items each, as a list of `Run`.

    All but the first are compared with the first, and the first with ``expected``.
    """

    limit: int | None
    count: int = 1
    expected: bytes | None = None

    def do(self, stage: Stage[Any], watch: Watch) -> list[Run]:
        runs: list[Run] = []
        expected = self.expected
        for _ in range(self.count):
            with iter(Pipeline(stage)) as iterator:
                runs.append(_drawn(iterator, 0, self.limit, expected, watch))
            if expected is None:
                expected = runs[0].digests
        return runs


@final
@dataclass(frozen=True)
class Resumed(Work):
    """A run from the newest checkpoint in ``folder``, or from the start, to item ``until``.

    There it saves, and after each number of items in ``saves``. ``expected`` are the digests of
    the whole run.
    """

    folder: str
    expected: bytes
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
            expected = self.expected[first * DIGEST_BYTES :]
            limit = None if self.until is None else self.until - first
            timed = _Timed(loop, began)
            run = _drawn(timed, first, limit, expected, watch)
        return ResumedRun(first, run, timed.seconds)


@final
@dataclass(frozen=True)
class ResumedHere(Work):
    """Runs resumed at ``stops`` in a process that has made the whole run before."""

    limit: int | None
    stops: tuple[int, ...]

    def do(self, stage: Stage[Any], watch: Watch) -> list[Run]:
        pipeline: Pipeline[Any] = Pipeline(stage)
        states: dict[int, State] = {}
        with iter(pipeline) as iterator:
            items = _Saving(iterator, frozenset(self.stops), states)
            whole = _drawn(items, 0, self.limit, None, watch)
        runs = []
        for stop, state in states.items():
            expected = whole.digests[stop * DIGEST_BYTES :]
            limit = None if self.limit is None else self.limit - stop
            with pipeline.resume(state) as iterator:
                runs.append(_drawn(iterator, stop, limit, expected, watch))
        return runs


@final
@dataclass(frozen=True)
class Text(Work):
    """Item ``number`` as text; None if there is none."""

    number: int

    def do(self, stage: Stage[Any], watch: Watch) -> str | None:
        with iter(Pipeline(stage)) as iterator:
            for item in itertools.islice(iterator, self.number, None):
                return shorten(item, TEXT_LENGTH)
        return None


@final
@dataclass(frozen=True)
class Consumption(Work):
    """How many items each stage delivers for ``limit`` items of the last one."""

    limit: int | None

    def do(self, stage: Stage[Any], watch: Watch) -> Mapping[int, int]:
        counter: Counter[int] = Counter()
        with iter(Pipeline(counted(stage, counter, sources_only=False))) as iterator:
            _drawn(iterator, 0, self.limit, None, watch)
        return dict(counter)


@final
@dataclass(frozen=True)
class Measure(Work):
    """What it costs to take the state at ``positions`` and to resume there.

    Items are counted with ``tuning``, under which nothing runs ahead.
    """

    positions: tuple[int, ...]
    tuning: Tuning

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
        reread = self._reread(tuned(stage, self.tuning))
        return Costs(median(seconds), len(dumps(largest)), largest, reread)

    def _reread(self, stage: Stage[Any]) -> int:
        counter: Counter[int] = Counter()
        pipeline: Pipeline[Any] = Pipeline(counted(stage, counter, sources_only=True))
        most = 0
        with iter(pipeline) as iterator:
            for _ in _stopping(iterator, self.positions):
                state = iterator.get_state()
                needed = _reads(iterator, counter)
                with pipeline.resume(state) as resumed:
                    most = max(most, _reads(resumed, counter) - needed)
        return most


def _reads(iterator: Iterator[Any], counter: Counter[int]) -> int:
    """How much is read for the next items."""
    before = counter.total()
    for _ in itertools.islice(iterator, AFTER_RESUME):
        pass
    return counter.total() - before


def _stopping(iterator: Any, positions: tuple[int, ...]) -> Iterator[None]:
    """Stop at each of ``positions`` that was not passed meanwhile."""
    for position in sorted(positions):
        if position >= iterator.step:
            for _ in itertools.islice(iterator, position - iterator.step):
                pass
            yield


def _drawn(
    items: Iterator[Any], first: int, limit: int | None, expected: bytes | None, watch: Watch
) -> Run:
    """Draw up to ``limit`` items and compare them with the digests ``expected``.

    Where there is no limit, another end than theirs is a difference too; where there is one, they
    may go on.
    """
    digests = bytearray()
    count = 0
    difference = None
    error = None
    try:
        for item in itertools.islice(items, limit):
            digest = item_digest(item)
            if expected is None:
                digests += digest
            elif difference is None and digest != expected[len(digest) * count :][: len(digest)]:
                difference = Difference(first + count, shorten(item, TEXT_LENGTH))
            count += 1
            watch(count)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    if expected is not None and difference is None and error is None:
        promised = len(expected) // DIGEST_BYTES
        if count < (promised if limit is None else min(limit, promised)):
            difference = Difference(first + count, None)
    return Run(count, difference, error, bytes(digests))


class _Timed:
    """Items, and the seconds from ``began`` until the first one."""

    def __init__(self, items: Iterator[Any], began: float) -> None:
        self._items = items
        self._began = began
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._items)
        finally:
            if not self.seconds:
                self.seconds = perf_counter() - self._began


class _Saving:
    """Items of an iterator, whose state is taken at ``stops``."""

    def __init__(self, iterator: Any, stops: frozenset[int], states: dict[int, State]) -> None:
        self._iterator = iterator
        self._stops = stops
        self._states = states

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        step = self._iterator.step
        if step in self._stops and step not in self._states:
            self._states[step] = self._iterator.get_state()
        return next(self._iterator)
