"""Keep the next batches on the devices while the loop works on one."""

# No thread is needed: JAX's transfers are asynchronous, so a batch that was put on its way is
# copied while the loop computes. What is kept ahead is in `_Ahead`, which counts what the loop has had.
#
# An interrupt may come between any two bytecodes. An item gets from the pipeline's iterator into
# `fetched`, and from `ready` to the loop, without any in between: the first by `extend`, the second by
# a loop of one round (see `resumable/core/iterator.py`). From `fetched` to `ready` it goes by its number: it is in
# `fetched` as long as the iterator is one step further than `ready`, whatever was interrupted.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NoReturn, TypeVar, final

from jax.sharding import Mesh, Sharding

import resumable as rs
from resumable.checkpoint.loop import ResumedLoop
from resumable.consumed import ConsumedStates
from resumable.core.arguments import check_int
from resumable.errors import shorten
from resumable.state.value import State, freeze, take_state

from .arrays import Tree, default_placed, to_global

__all__ = ["DevicePrefetch", "device_prefetch"]

T = TypeVar("T")

INSTEAD: Final = "checkpointer.resume(pipeline.map(to_global(mesh)).prefetch(2))"


def device_prefetch(
    iterator: rs.PipelineIterator[Any], size: int = 2, sharding: Mesh | Sharding | Tree = None
) -> DevicePrefetch:
    """Keep batches on the devices ahead of the loop, with the state of the one that the loop has.

    Each `next` puts batches on the devices until ``size`` of them are there, and hands out the first. The transfers
    run while the loop computes. It is what ``flax.jax_utils.prefetch_to_device`` does, but its state is
    that of the pipeline after the batch handed out last: a resume neither loses nor repeats those that
    lie ahead. The state does not depend on ``size``, and a resume may do without `device_prefetch`.

    State: that of the pipeline. Taking it is O(number of stages) for a random-access pipeline. For a stream,
    it reads again what was produced while a hundred states are taken, at most. It reads none if steps take
    longer than that, or if an object of the pipeline has a state of its own.

    Args:
      iterator: what ``iter(pipeline)`` or ``pipeline.resume(state)`` returned. Its items are batches: NumPy arrays,
        or dicts, tuples and lists of batches. It belongs to the result from now on.
      size: batches on the devices, including the one that is handed out, at least 1. With 1, nothing is copied
        while the loop computes.
      sharding: where the arrays go, as for `to_global`; by default to JAX's default device, as by `jax.device_put`.

    Raises:
      InvalidType: if ``iterator`` is no iterator of a pipeline. A loop of a `Checkpointer` is none: it would save
        states after batches that the loop has not had. Let it have batches that are on the devices already:
        ``checkpointer.resume(pipeline.map(to_global(mesh)).prefetch(2))``.
      InvalidType: if ``sharding`` is none.
      InvalidArgument: if ``size`` is less than 1.

    >>> batches = device_prefetch(iter(rs.range(6).batch(2)))  # doctest: +SKIP
    >>> next(batches), batches.step  # doctest: +SKIP
    (Array([0, 1], dtype=int32), 1)
    """
    if isinstance(iterator, ResumedLoop):
        raise rs.InvalidType(
            "iterator must be iter(pipeline) or pipeline.resume(state), got a loop of a Checkpointer: "
            "its checkpoints would hold the state after batches that lie ahead and that the loop has "
            f"not had; write {INSTEAD} and loop over that"
        )
    if not isinstance(iterator, rs.PipelineIterator):
        hint = "; write iter(pipeline)" if isinstance(iterator, rs.Pipeline) else ""
        raise rs.InvalidType(
            "iterator must be what iter(pipeline) or pipeline.resume(state) returns, got "
            f"{shorten(iterator)}{hint}"
        )
    size = check_int("size", size, minimum=1)
    place = default_placed if sharding is None else to_global(sharding)
    return DevicePrefetch(iterator, size, place)


@final
class DevicePrefetch(Iterator[Any]):
    """The batches of a pipeline on the devices; `device_prefetch` makes it.

    An error in a function of the pipeline, or of a batch that JAX cannot hold, comes after the batches before
    it were handed out, and once: the next call tries the same batch again. So does an `Exception` that a signal
    handler raises meanwhile. What is no `Exception`, such as `KeyboardInterrupt`, comes at once.

    It belongs to one thread at a time, which is not checked. The state stays readable after `close`.

    Args:
      iterator: as for `device_prefetch`.
      size: batches on the devices.
      place: puts a batch on the devices.
    """

    def __init__(
        self, iterator: rs.PipelineIterator[Any], size: int, place: Callable[[Tree], Tree]
    ) -> None:
        self._size = size
        self._place = place
        self._closed = False
        self._here = _Ahead(iterator, size)

    def __iter__(self) -> DevicePrefetch:
        return self

    def __next__(self) -> Tree:
        self._check_open()
        here = self._here
        here.fill(self._size, self._place)
        taken = here.taken
        if here.ready:
            # A loop of one round: no signal handler runs between the batch and its step.
            for here.step, here.epoch, batch in taken:
                return batch
        error, here.error = here.error, None
        raise StopIteration if error is None else error

    @property
    def iterator(self) -> rs.PipelineIterator[Any]:
        """The iterator of the pipeline, which is ahead of the loop; `SaveableInput` asks for it."""
        return self._here.iterator

    @property
    def step(self) -> int:
        """Number of batches handed out, across resumes, as the pipeline's own iterator counts them."""
        return self._here.step

    @property
    def epoch(self) -> int:
        """The epoch of the batch handed out last; before any, that of the start."""
        return self._here.epoch

    def get_state(self) -> State:
        """The state of the pipeline after the batch handed out last; those that lie ahead do not count.

        Raises:
          ExternalStateError: if the position of a source cannot be restored.
          UnencodableState: if a stage holds a value without an exact serialised form.
        """
        here = self._here
        try:
            return here.get_state()
        finally:
            if self._closed:
                here.close()  # what the state was read from

    def set_state(self, state: State) -> None:
        """Continue at ``state``; batches that lie ahead are dropped.

        Raises:
          StateMismatch: if ``state`` does not fit; nothing changes then.
          IteratorClosed: if this was closed.
        """
        self._check_open()
        before = self._here
        # A new iterator, since one assignment has to replace all that belongs together.
        self._here = _Ahead(before.pipeline.resume(state), self._size)
        before.close()

    def close(self) -> None:
        """End threads, release files, and drop what lies ahead; may be called again."""
        self._closed = True
        self._here.close()

    def __enter__(self) -> DevicePrefetch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise rs.InvalidType("a running iterator cannot be pickled or copied; use get_state()")

    def __repr__(self) -> str:
        here = self._here
        closed = "closed " if self._closed else ""
        return f"<{closed}device prefetch at step {here.step}, {len(here.ready)} batches ahead, of {here.pipeline!r}>"

    def _check_open(self) -> None:
        if self._closed:
            raise rs.IteratorClosed("the device prefetch was closed; make another one")


@final
class _Ahead:
    """An iterator of a pipeline, and what it has delivered that the loop has not had.

    Attributes:
      iterator: stands after what is ``ready``, or one item further.
      pipeline: its pipeline.
      step: the step of ``iterator`` after the batch handed out last.
      epoch: its epoch.
      ready: the batches on the devices, each with the step and the epoch after it.
      taken: takes them out of ``ready``, one after the other.
      error: what comes after them: an error, or `StopIteration` at the end.
    """

    # Invariant: the steps in `ready` follow `step` without a gap. If that of `iterator` is one more than
    # the last of them, its item is in `fetched`; otherwise what is in `fetched` does not count.

    def __init__(self, iterator: rs.PipelineIterator[Any], size: int) -> None:
        self.iterator = iterator
        self.pipeline: rs.Pipeline[Any] = rs.Pipeline(iterator._stage)
        self.step = iterator.step
        self.epoch = iterator.epoch
        self.ready = deque[tuple[int, int, Tree]]()
        self.taken = iter(self.ready.popleft, None)
        self.error: Exception | None = None
        self._fetched = deque[Tree](maxlen=1)
        # The error, if no state can be taken; it is raised where one is asked for.
        self._states: ConsumedStates[Any] | Exception
        start = take_state(iterator.get_state)
        if isinstance(start, Exception):
            self._states = start
        else:
            self._states = ConsumedStates.behind(iterator, size)

    def fill(self, size: int, place: Callable[[Tree], Tree]) -> None:
        """Make ``size`` batches ready, or as many as there are before the end or an error."""
        if self.error is not None:
            return
        try:
            while len(self.ready) < size:
                self._fetch()
                # An interrupt between these lines leaves the item where it is, or in both places.
                placed = self.iterator.step, self.iterator.epoch, place(self._fetched[0])
                self.ready.append(placed)
                self._fetched.clear()
        except Exception as error:
            self.error = error

    def get_state(self) -> State:
        if isinstance(self._states, Exception):
            raise self._states
        state: State = freeze(self._states.after(self.step))  # a mark may be asked for again
        return state

    def close(self) -> None:
        self.iterator.close()
        if not isinstance(self._states, Exception):
            self._states._close()
        self.ready.clear()
        self._fetched.clear()

    def _fetch(self) -> None:
        """Get the next item into `fetched` if it is not there.

        Raises:
          StopIteration: at the end.
        """
        newest = self.ready[-1][0] if self.ready else self.step
        if self.iterator.step == newest:
            # No Python code runs between the step of the iterator and the entry in the queue.
            self._fetched.extend(islice(self.iterator, 1))
            if self.iterator.step == newest:
                raise StopIteration
        elif self.iterator.step != newest + 1 or not self._fetched:
            raise rs.InvalidArgument(
                "iterator belongs to device_prefetch and must not be moved elsewhere, got one at step "
                f"{self.iterator.step} in the place of {newest}"
            )
        if not isinstance(self._states, Exception):
            self._states.mark(self.iterator)
