"""The state at the last consumed item of an epoch, if items are produced ahead of the consumer."""

# The iterator that feeds a training step runs ahead of the step, so the iterator's own state must
# not be saved. The state after the consumed item is computed instead: from an earlier state, by
# passing over items. Passing over takes no time with lookup by index. For a stream the producer
# records marks, so the items read again are little more than the lead of the producer.

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from copy import deepcopy
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .core.foreign_source import ExternalSource, inexact_sources
from .core.function_state import (
    CallsFunction,
    calling_with_state,
    restore_functions,
    with_function,
)
from .core.graph import rebuilt, walk, without_threads
from .core.iterator import PipelineIterator
from .core.runnable import dependence_of_resume
from .core.stage import Stage
from .errors import ExternalStateError, StateMismatch
from .pipeline import Pipeline
from .state.encoding import loads
from .state.value import State, TakenState, take_state, taken_state

T = TypeVar("T")

MARK_SHARE: Final = 10
"""Largest share of the producer's time spent on marks, as one part in this number."""
MARK_SHARE_BEHIND: Final = 100
"""The same share if the consumer is few items behind, with few items to read again anyway."""
MARKS_A_LEVEL: Final = 3
LAST_LEVEL: Final = 12


class ConsumedStates(Generic[T]):
    """The states of one epoch, by the number of items handed out.

    State: as of the pipeline. The cost of a state is O(number of stages) for a random-access
    pipeline. A stream reads again at most the items between consumer and producer, plus the items
    produced while ten states are taken. Nothing is read again if the state at this item was
    recorded lately. A function or a source with its own state is used by the producer; items are
    read again with a copy (``copy.deepcopy``), made once.

    Args:
      pipeline: the pipeline with items produced ahead.
      start: the state at which the epoch begins, returned by an iterator of ``pipeline``; by
        default the state before the very first item.
    """

    def __init__(self, pipeline: Pipeline[T], *, start: State | None = None) -> None:
        self.pipeline = pipeline
        # The pipeline without threads, to pass over items.
        self._plain: Pipeline[T] = Pipeline(without_threads(pipeline.stage))
        self._is_stream = not pipeline.random_access
        self._reads_once = any(stage.reads_once for stage, _ in inexact_sources(pipeline.stage))
        self._carries_state = next(calling_with_state(pipeline.stage), None) is not None
        self._has_own_state = _has_own_state(pipeline.stage)
        # The pipeline over copies of objects with their own state, once needed.
        self._apart: Pipeline[T] | None = None
        self.start_at(self.first_of(0) if start is None else start)

    @classmethod
    def behind(cls, iterator: PipelineIterator[T], most: int) -> ConsumedStates[T]:
        """The states behind a running iterator, from its position on.

        The iterator is the producer, in the thread that calls `after`, and `mark` must be called
        after each of its items. Only `after` and `mark` of the result may be used. An object with
        its own state, such as a function or a loader, can be read in one place only. So if the
        pipeline has such an object, items are not read again, and `mark` takes each state.

        Args:
          iterator: the producer.
          most: largest number of items between the consumer and the producer.

        Raises:
          ExternalStateError: if the position of a source cannot be restored.
          UnencodableState: if a stage holds a value without an exact serialised form.
          InvalidArgument: if an item is being computed.
        """
        states = cls(Pipeline(iterator._stage), start=iterator.get_state())
        states._producer = weakref.ref(iterator)
        a_level = max(MARKS_A_LEVEL, most + 1)
        states._marks = _Marks(MARK_SHARE_BEHIND, a_level, states._has_own_state)
        return states

    def first_of(self, epoch: int) -> State:
        """The state before the first item of ``epoch``."""
        with self._plain.start(epoch) as iterator:
            return iterator.get_state()

    def checked(self, state: State) -> State:
        """``state``, moved to its item if saved after an error.

        Raises:
          StateMismatch: if ``state`` belongs to another pipeline.
        """
        with self._plain.resume(state) as iterator:
            if not self._reads_once:
                iterator.skip(0)
            return iterator.get_state()

    def start_at(self, state: State) -> None:
        """Let the epoch begin at ``state``, returned by `first_of` or `checked`."""
        self.origin = state
        self._consumer: PipelineIterator[T] | None = None
        self._producer: weakref.ref[PipelineIterator[T]] | None = None
        self._elsewhere = False
        self._marks = _Marks()

    def starting_at(self, state: State) -> ConsumedStates[T]:
        """The states of an epoch from ``state``, returned by `first_of` or `checked`.

        ``self`` does not change.
        """
        other: ConsumedStates[T] = object.__new__(type(self))
        vars(other).update(vars(self))
        other.start_at(state)
        return other

    def produce(self, *, threads: bool = True, elsewhere: bool = False) -> PipelineIterator[T]:
        """A new iterator at the beginning of the epoch.

        Args:
          threads: whether the pipeline's own threads and workers are used.
          elsewhere: whether the iterating thread differs from the thread that calls `after`. The
            iterating thread must call `mark` after each item.
        """
        iterator = (self.pipeline if threads else self._plain).resume(self.origin)
        self._producer = weakref.ref(iterator)
        self._elsewhere = elsewhere
        self._marks = _Marks()
        if elsewhere:
            # Copies are made now, before the other thread uses the objects. If an object cannot be
            # copied, states are still available if no item must be read again.
            with suppress(ExternalStateError):
                self._read_again()
        return iterator

    def mark(self, producer: PipelineIterator[T]) -> None:
        """Record the state of ``producer`` if a mark is due; called in the iterating thread.

        Does nothing with lookup by index, or for a replaced producer.
        """
        newest = self._producer
        if self._is_stream and newest is not None and newest() is producer:
            self._marks.add(producer)

    def keep(self, step: int, data: bytes) -> None:
        """Record a serialised state after ``step`` items from another process."""
        self._marks.put(_ConsumedState(step, data))

    def after(self, step: int) -> State:
        """The state after ``step`` items, counted as by the pipeline's own iterator.

        If the epoch has fewer items, the state at its end is returned. Over a stream, the user's
        functions are called a second time for the items passed over, in the calling thread.

        Raises:
          StateMismatch: if ``step`` lies before the beginning of the epoch.
          ExternalStateError: if items must be read again, and the producer uses an object with its
            own state that cannot be copied. The producer continues unharmed.
        """
        if step == self.origin["step"]:
            return self.origin
        if step < self.origin["step"]:
            raise StateMismatch(
                f"the epoch began after step {self.origin['step']}, so step {step} is not in it"
            )
        if self._is_stream:
            mark = self._marks.newest_until(step)
            if mark is not None and mark.step == step:
                return mark.state
            if self._producer is not None and not self._elsewhere:
                # Nothing is read again if the producer is at this very item.
                producer = self._producer()
                if producer is not None and producer.step == step:
                    return producer.get_state()
            if self._marks.has_each:
                raise StateMismatch(f"the state after step {step} was not kept")
            if self._reads_once:
                return self._with_ahead(self.origin if mark is None else mark.state, step)
            known = self._consumer
            if mark is not None and (known is None or not mark.step <= known.step <= step):
                self._consumer = self._read_again().resume(mark.state)
        consumer = self._consumer
        if consumer is None or consumer.step > step:
            consumer = self._consumer = self._read_again().resume(self.origin)
        found = consumer.state_after(step - consumer.step)
        if found is not None:
            return found[0]
        consumer.skip(step - consumer.step)
        return consumer.get_state()

    def has(self, count: int) -> bool:
        """Whether the epoch has at least ``count`` items from its beginning."""
        return self.left(count) == count

    def left(self, most: int) -> int:
        """The number of items of the epoch from its beginning, up to ``most``, all passed over."""
        pipeline = self._plain
        if self._carries_state:
            # The functions keep their state, since later epochs continue with the same functions.
            pipeline = self._read_again()
            self._consumer = None  # the consumer may read with the same copies
        with pipeline.resume(self.origin) as probe:
            return probe.skip(most)

    def _close(self) -> None:
        """Release the resources for reading items again. `after` opens them again if needed."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _restore_functions(self, step: int) -> None:
        """Set functions with their own state to the state after ``step`` items, for later epochs.

        For an epoch with items made by another process, with its own functions. Errors in taking
        the state are raised.
        """
        with self._plain.resume(self.after(step)) as iterator:
            restore_functions(iterator._running.root)

    def _read_again(self) -> Pipeline[T]:
        """The pipeline to read items again, without touching objects used by the producer.

        Raises:
          ExternalStateError: if the producer uses an object that cannot be copied.
        """
        if not self._has_own_state:
            return self._plain
        if self._apart is None:
            try:
                self._apart = Pipeline(_over_copies(self._plain.stage))
            except Exception as error:
                if self._producer is None or self._producer() is None:
                    return self._plain
                raise ExternalStateError(
                    "for a state before the newest item, items are read again, and a function or a "
                    f"source of {self.pipeline!r} has a state of its own, is in use, and cannot be "
                    f"copied: {type(error).__name__}: {error}; let copy.deepcopy copy it, or let "
                    "nothing run ahead of what is saved; for a source, pass from_iterable a "
                    "function that makes it"
                ) from error
        return self._apart

    def _with_ahead(self, state: State, step: int) -> State:
        """``state`` and the number of items since, for a source that cannot be read again."""
        ahead = state["ahead"] + step - state["step"]
        whole = self.pipeline._runnable.fingerprint(dependence_of_resume(ahead, state["epoch"]))
        return {**state, "fingerprint": whole, "step": step, "ahead": ahead}

    def __getstate__(self) -> dict[str, Any]:
        # Running iterators cannot leave their process.
        return {**vars(self), "_consumer": None, "_producer": None, "_marks": None, "_apart": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._marks = _Marks()


def _has_own_state(stage: Stage[Any]) -> bool:
    """Whether the pipeline has an object that can serve only one iterator at a time."""
    return next(calling_with_state(stage), None) is not None or any(
        isinstance(found, ExternalSource) and found.keeps_position for found, _ in walk(stage)
    )


def _over_copies(stage: Stage[Any]) -> Stage[Any]:
    """The pipeline over copies of objects that can serve only one iterator; equal states."""

    def change(number: int, found: Stage[Any]) -> Stage[Any]:
        if isinstance(found, ExternalSource) and found.keeps_position and not found.reads_once:
            return found._apart()
        if isinstance(found, CallsFunction) and found.carries_state:
            return with_function(found, deepcopy(found.function))
        return found

    return rebuilt(stage, change)


class _ConsumedState(NamedTuple):
    """The state after a number of items, or at the end of a shorter epoch.

    Attributes:
      step: the number of items.
      data: the state, or its bytes, or the error from taking the state.
    """

    step: int
    data: TakenState | bytes

    @property
    def state(self) -> State:
        """The state; raises the error from taking the state."""
        return loads(self.data) if isinstance(self.data, bytes) else taken_state(self.data)


class _Marks:
    """Some of the states passed by a producer: many recent states, fewer older states.

    A failed state is an error only if the consumer requests the state.

    Args:
      share: largest share of the producer's time spent on taking states, as one part in this
        number.
      a_level: number of states kept of each level, so the last ``a_level`` states are all kept.
      has_each: whether the state after each item is taken, however long that takes.
    """

    # The level of the n-th mark is the number of trailing zero bits of n, and each level keeps its
    # last few marks. So wherever the consumer is, a mark lies at about half of its distance.

    def __init__(
        self, share: int = MARK_SHARE, a_level: int = MARKS_A_LEVEL, has_each: bool = False
    ) -> None:
        self.has_each = has_each
        self._share = share
        self._lock = threading.Lock()
        self._levels = [deque[_ConsumedState](maxlen=a_level) for _ in range(LAST_LEVEL + 1)]
        # The first mark is kept, since a newly opened source reports its position there, and not
        # before.
        self._levels.append(deque(maxlen=1))
        self._count = 0
        self._due = 0.0

    def add(self, producer: PipelineIterator[Any]) -> None:
        if self.has_each:
            step = producer.step
            newest = self.newest_until(step)
            if newest is None or newest.step < step:
                self.put(_ConsumedState(step, take_state(producer.get_state)))
            return
        began = perf_counter()
        if began < self._due:
            return
        state = take_state(producer.get_state)
        ended = perf_counter()
        self._due = ended + self._share * (ended - began)
        if not isinstance(state, Exception):
            self.put(_ConsumedState(state["step"], state))

    def put(self, mark: _ConsumedState) -> None:
        with self._lock:
            self._count += 1
            level = (self._count & -self._count).bit_length() - 1
            self._levels[min(level, LAST_LEVEL) if self._count > 1 else -1].append(mark)

    def newest_until(self, step: int) -> _ConsumedState | None:
        """The last mark at or before ``step``."""
        with self._lock:
            found = [mark for level in self._levels for mark in level if mark.step <= step]
        return max(found, key=lambda mark: mark.step, default=None)
