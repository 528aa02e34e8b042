"""Keep the next batches on the devices while the loop computes."""

# No thread is needed: JAX's transfers are asynchronous, so a batch is copied while the loop
# computes. `_Ahead` keeps the batches ahead, and counts the batches handed out.
#
# An interrupt may come between any two bytecodes. No bytecode lies between taking an item from the
# pipeline's iterator and keeping it in `fetched` (by `extend`), nor between `ready` and the loop
# (by a loop of one round, see `resumable/core/iterator.py`). Between `fetched` and `ready` the step
# number decides: the item counts as in `fetched` as long as the iterator is one step further than
# `ready`, despite interrupts.

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
    """Keep batches on the devices ahead of the loop, with the state of the current batch.

    Each `next` fills the devices up to ``size`` batches, and hands out the first. The transfers run
    while the loop computes, as with ``flax.jax_utils.prefetch_to_device``. The state, however, is
    the state of the pipeline after the batch handed out last: a resume neither loses nor repeats
    the batches ahead. The state does not depend on ``size``, and a resume may do without
    `device_prefetch`.

    State: that of the pipeline. Taking a state is O(number of stages) for a random-access pipeline.
    For a stream, taking a state repeats at most the items produced in the time of taking a hundred
    states. No items are repeated if steps take longer than that time, or if an object of the
    pipeline has a state of its own.

    Args:
      iterator: the result of ``iter(pipeline)`` or ``pipeline.resume(state)``. The items are
        batches: NumPy arrays, or dicts, tuples and lists of batches. The result takes over the
        iterator.
      size: batches on the devices, including the batch handed out, at least 1. With 1, nothing is
        copied while the loop computes.
      sharding: where the arrays go, as for `to_global`; by default to JAX's default device, as by `jax.device_put`.

    Raises:
      InvalidType: if ``iterator`` is no iterator of a pipeline. A loop of a `Checkpointer` is
        refused: the loop would save states after batches not handed out yet. Instead, put the
        batches on the devices in the pipeline:
        ``checkpointer.resume(pipeline.map(to_global(mesh)).prefetch(2))``.
      InvalidType: if ``sharding`` is no sharding.
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
    """The batches of a pipeline on the devices, made by `device_prefetch`.

    An error in a function of the pipeline, or of a batch that JAX cannot hold, is raised after the
    earlier batches were handed out, and once: the next call tries the same batch again. The same
    holds for an `Exception` raised by a signal handler meanwhile. Other exceptions, such as
    `KeyboardInterrupt`, are raised at once.

    Only one thread may use the iterator at a time; the rule is not checked. The state stays
    readable after `close`.

    Args:
      iterator: as for `device_prefetch`.
      size: batches on the devices.
      place: puts a batch on the devices.
    """

    def __init__(
        self, iterator: rs.PipelineIterator[Any], size: int, place: Callable[[Tree], Tree]
    ) -> None:
        self._size = size
        self._device_place = place
        self._closed = False
        self._here = _Ahead(iterator, size)

    def __iter__(self) -> DevicePrefetch:
        return self

    def __next__(self) -> Tree:
        self._check_open()
        here = self._here
        here.fill(self._size, self._device_place)
        taken = here.taken
        if here.ready:
            # A loop of one round: no signal handler runs between the batch and the batch's step.
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
        """The epoch of the batch handed out last; before the first batch, of the start."""
        return self._here.epoch

    def get_state(self) -> State:
        """The state of the pipeline after the batch handed out last, without the batches ahead.

        Raises:
          ExternalStateError: if the position of a source cannot be restored.
          UnencodableState: if a stage holds a value without an exact serialised form.
        """
        here = self._here
        try:
            return here.get_state()
        finally:
            if self._closed:
                here.close()  # the iterator that the state was read from

    def set_state(self, state: State) -> None:
        """Continue at ``state`` and drop the batches ahead.

        Raises:
          StateMismatch: if ``state`` does not fit; nothing changes then.
          IteratorClosed: if this was closed.
        """
        self._check_open()
        before = self._here
        # A new iterator, since a single assignment has to replace all fields together.
        self._here = _Ahead(before.pipeline.resume(state), self._size)
        before.close()

    def close(self) -> None:
        """End threads, release files, and drop the batches ahead; may be called again."""
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
    """An iterator of a pipeline, and the batches not handed out yet.

    Attributes:
      iterator: after the batches in ``ready``, or one item further.
      pipeline: the pipeline of ``iterator``.
      step: the step of ``iterator`` after the batch handed out last.
      epoch: the epoch of this batch.
      ready: the batches on the devices, each with the step and the epoch after it.
      taken: takes batches out of ``ready``, one after the other.
      error: raised after ``ready``: an error, or `StopIteration` at the end.
    """

    # Invariant: the steps in `ready` follow `step` without a gap. If the step of `iterator` is one
    # more than the last step in `ready`, the item is in `fetched`; otherwise `fetched` does not
    # count.

    def __init__(self, iterator: rs.PipelineIterator[Any], size: int) -> None:
        self.iterator = iterator
        self.pipeline: rs.Pipeline[Any] = rs.Pipeline(iterator._stage)
        self.step = iterator.step
        self.epoch = iterator.epoch
        self.ready = deque[tuple[int, int, Tree]]()
        self.taken = iter(self.ready.popleft, None)
        self.error: Exception | None = None
        self._fetched = deque[Tree](maxlen=1)
        # The error, if no state can be taken; raised by the request for a state.
        self._states: ConsumedStates[Any] | Exception
        start = take_state(iterator.get_state)
        if isinstance(start, Exception):
            self._states = start
        else:
            self._states = ConsumedStates.behind(iterator, size)

    def fill(self, size: int, place: Callable[[Tree], Tree]) -> None:
        """Make ``size`` batches ready, or fewer before the end or an error."""
        if self.error is not None:
            return
        try:
            while len(self.ready) < size:
                self._fetch()
                # An interrupt between the lines leaves the item in `fetched`, or in both places.
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
        """Get the next item into `fetched`, if missing.

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
