"""The state at the last consumed item of an epoch, if items are produced ahead of the consumer."""

# The iterator that feeds a training step runs ahead of it, so its own state is not the one to save. The
# state after the consumed item is computed instead: from an earlier state, by passing over items. That
# takes no time where items are looked up by index. For a stream the producer records marks, so that
# little more is read again than the producer is ahead.

from __future__ import annotations

import threading
import weakref
from collections import deque
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .core.continuing import EVERYTHING
from .core.fingerprint import fingerprint
from .core.foreign_source import inexact_sources
from .core.graph import without_threads
from .core.iterator import PipelineIterator
from .errors import StateMismatch
from .pipeline import Pipeline
from .state.encoding import loads
from .state.value import State

T = TypeVar("T")

MARK_SHARE: Final = 10
"""Marks take at most one part in so many of the producer's time."""
MARKS_A_LEVEL: Final = 3
LAST_LEVEL: Final = 12


class ConsumedStates(Generic[T]):
    """The states of one epoch, by the number of items handed out.

    State: that of the pipeline. Taking it is O(number of stages) for a random-access pipeline. For a
    stream, it reads again at most the items that the producer is ahead, plus those that are produced
    while ten states are taken. It reads none if the state at this item was recorded lately.

    Args:
      pipeline: the pipeline whose items are produced ahead.
    """

    def __init__(self, pipeline: Pipeline[T]) -> None:
        self.pipeline = pipeline
        # The pipeline without threads, to pass over items.
        self._plain: Pipeline[T] = Pipeline(without_threads(pipeline.stage))
        self._is_stream = not pipeline.random_access
        self._reads_once = any(stage.reads_once for stage, _ in inexact_sources(pipeline.stage))
        self.start_at(self.first_of(0))

    def first_of(self, epoch: int) -> State:
        """The state before the first item of ``epoch``."""
        with self._plain.start(epoch) as iterator:
            return iterator.get_state()

    def checked(self, state: State) -> State:
        """``state``, moved to the item it stands for if it was saved after an error.

        Raises:
          StateMismatch: if it belongs to another pipeline.
        """
        with self._plain.resume(state) as iterator:
            if not self._reads_once:
                iterator.skip(0)
            return iterator.get_state()

    def start_at(self, state: State) -> None:
        """Let the epoch begin at ``state``, one that `first_of` or `checked` returned."""
        self.origin = state
        self._consumer: PipelineIterator[T] | None = None
        self._producer: weakref.ref[PipelineIterator[T]] | None = None
        self._elsewhere = False
        self._marks = _Marks()

    def produce(self, *, threads: bool = True, elsewhere: bool = False) -> PipelineIterator[T]:
        """A new iterator where the epoch begins.

        Args:
          threads: whether the pipeline's own threads and workers are used.
          elsewhere: whether another thread than the one that calls `after` iterates it. That thread
            must call `mark` after each item.
        """
        iterator = (self.pipeline if threads else self._plain).resume(self.origin)
        self._producer = weakref.ref(iterator)
        self._elsewhere = elsewhere
        self._marks = _Marks()
        return iterator

    def mark(self, producer: PipelineIterator[T]) -> None:
        """Record the state of ``producer`` if a mark is due; called in the thread that iterates it.

        It does nothing where items are looked up by index, and for a producer that was replaced.
        """
        newest = self._producer
        if self._is_stream and newest is not None and newest() is producer:
            self._marks.add(producer)

    def keep(self, step: int, data: bytes) -> None:
        """Record a serialised state after ``step`` items that comes from another process."""
        self._marks.put(_ConsumedState(step, data))

    def after(self, step: int) -> State:
        """The state after ``step`` items, counted as the pipeline's own iterator counts them.

        If the epoch has fewer items, it is the state at its end. Over a stream, the user's functions are
        called a second time for the items that are passed over, in the thread that calls this.

        Raises:
          StateMismatch: if ``step`` lies before the beginning of the epoch.
        """
        if step == self.origin["step"]:
            return self.origin
        if step < self.origin["step"]:
            raise StateMismatch(
                f"the epoch began after step {self.origin['step']}, so step {step} is not in it"
            )
        if self._is_stream:
            if self._producer is not None and not self._elsewhere:
                # Nothing is read again if the producer is at this very item.
                producer = self._producer()
                if producer is not None and producer.step == step:
                    return producer.get_state()
            mark = self._marks.newest_until(step)
            if self._reads_once:
                return self._with_ahead(self.origin if mark is None else mark.state, step)
            if mark is not None and mark.step == step:
                return mark.state
            known = self._consumer
            if mark is not None and (known is None or not mark.step <= known.step <= step):
                self._consumer = self._plain.resume(mark.state)
        consumer = self._consumer
        if consumer is None or consumer.step > step:
            consumer = self._consumer = self._plain.resume(self.origin)
        found = consumer.state_after(step - consumer.step)
        if found is not None:
            return found[0]
        consumer.skip(step - consumer.step)
        return consumer.get_state()

    def has(self, count: int) -> bool:
        """Whether the epoch has at least ``count`` items from where it begins."""
        with self._plain.resume(self.origin) as probe:
            return probe.skip(count) == count

    def _with_ahead(self, state: State, step: int) -> State:
        """``state`` and the number of items since, for a source that cannot be read again."""
        ahead = state["ahead"] + step - state["step"]
        whole = fingerprint(self.pipeline.stage, EVERYTHING)
        return {**state, "fingerprint": whole, "step": step, "ahead": ahead}

    def __getstate__(self) -> dict[str, Any]:
        # Running iterators cannot leave their process.
        return {**vars(self), "_consumer": None, "_producer": None, "_marks": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._marks = _Marks()


class _ConsumedState(NamedTuple):
    """The state after a number of items, or at the end of the epoch if it has fewer.

    Attributes:
      step: the number of items.
      data: the state, or its bytes.
    """

    step: int
    data: State | bytes

    @property
    def state(self) -> State:
        """The state."""
        return loads(self.data) if isinstance(self.data, bytes) else self.data


class _Marks:
    """Some of the states that a producer passed: many of the last ones, fewer of those before."""

    # The level of the n-th mark is the number of trailing zero bits of n, and each level keeps its last
    # three marks. So wherever the consumer is, there is a mark at about half of its distance.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels = [deque[_ConsumedState](maxlen=MARKS_A_LEVEL) for _ in range(LAST_LEVEL + 1)]
        self._count = 0
        self._due = 0.0

    def add(self, producer: PipelineIterator[Any]) -> None:
        began = perf_counter()
        if began < self._due:
            return
        state = producer.get_state()
        ended = perf_counter()
        self._due = ended + MARK_SHARE * (ended - began)
        self.put(_ConsumedState(state["step"], state))

    def put(self, mark: _ConsumedState) -> None:
        with self._lock:
            self._count += 1
            level = (self._count & -self._count).bit_length() - 1
            self._levels[min(level, LAST_LEVEL)].append(mark)

    def newest_until(self, step: int) -> _ConsumedState | None:
        """The last mark at or before ``step``."""
        with self._lock:
            found = [mark for level in self._levels for mark in level if mark.step <= step]
        return max(found, key=lambda mark: mark.step, default=None)
