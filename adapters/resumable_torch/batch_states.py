"""The state after a batch of a stream, sent out of the worker together with the batch."""

# With lookup by index, the main process computes the state after each batch by arithmetic. For a
# stream only the worker that made the batch has the state; the main process would have to read the
# consumed items again. So the state is sent as bytes with the batch through torch's queue, and is
# removed before the loop gets the batch.
#
# Each worker reads the stream separately. If the order differs between workers, as with a shuffle
# without a seed, items would be lost and repeated. So with each batch, its worker reports digests
# of the sources' last items before and after the batch. The digests must fit the reports about the
# previous and the next batch.

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import resumable as rs
from resumable.state.encoding import dumps_frozen

__all__ = ["BatchState", "BatchWithState", "CollateWithState", "SameOrderCheck"]

SourceDigests: TypeAlias = tuple[list[int], list[int]]
"""The digests of the sources before and after a batch."""

BYTES_A_BATCH: Final = 4096
"""Bytes of state for each batch; a larger state comes only with one of several batches."""


class BatchWithState(NamedTuple):
    """A batch and the state after the batch. In a tuple, torch pins tensors and leaves bytes alone.

    Attributes:
      batch: given to the loop.
      state: the state after the batch; if the worker owns partitions, the worker's own state.
      digests: of the sources, if several workers read everything.
      worker: the number of a worker with own partitions.
    """

    batch: Any
    state: bytes | None
    digests: SourceDigests | None
    worker: int | None = None


class BatchState:
    """The state after the newest batch, kept until the batch is collated.

    Attributes:
      worker: the number of this worker, if it owns partitions.
    """

    def __init__(self) -> None:
        self.worker: int | None = None
        self._state: bytes | None = None
        self._digests: SourceDigests | None = None
        self._before: list[int] | None = None
        self._batches_to_wait = 0

    def begin(self, iterator: rs.PipelineIterator[Any]) -> None:
        """Note the last items of the sources before a batch of one of several workers."""
        self._before = iterator.digests

    def record(self, iterator: rs.PipelineIterator[Any]) -> None:
        """Note the state of ``iterator`` after the last item of a batch."""
        self._digests, before, self._before = None, self._before, None
        if before is not None:
            self._digests = before, iterator.digests
        self._state = None  # no batch has taken the state
        if self._batches_to_wait:
            self._batches_to_wait -= 1
            return
        # A state that cannot be saved stops nothing here; `state_dict` raises the error.
        with suppress(Exception):
            self._state = dumps_frozen(iterator.get_state())
            self._batches_to_wait = len(self._state) // BYTES_A_BATCH

    def take(self) -> tuple[bytes | None, SourceDigests | None]:
        """The state and the digests noted since the last call."""
        taken = self._state, self._digests
        self._state = self._digests = None
        return taken


class SameOrderCheck:
    """Checks at each batch whether all workers of an epoch read the same order."""

    def __init__(self) -> None:
        self._last: list[int] | None = None

    def check(self, digests: SourceDigests | None) -> None:
        """Compare the items before this batch with the items after the previous batch.

        Raises:
          ExternalStateError: if the items differ.
        """
        if digests is None:
            return
        before, after = digests
        last, self._last = self._last, after
        if last is not None and any(
            one != other and one and other for one, other in zip(last, before, strict=False)
        ):
            raise rs.ExternalStateError(
                "a source delivers another order in each worker, so that items would be lost and "
                "repeated; is something shuffled without a seed? An external_state_policy of 'warn' "
                "or 'ignore' lets it be"
            )


class CollateWithState:
    """A ``collate_fn`` that returns the newest state with the batch.

    Args:
      collate: makes the batch.
      newest: state of the data set in the same process.
    """

    def __init__(self, collate: Callable[[Any], Any], newest: BatchState) -> None:
        self._collate = collate
        self._newest = newest

    def __call__(self, items: Any) -> Any:
        state, digests = self._newest.take()
        batch = self._collate(items)
        worker = self._newest.worker
        if state is None and digests is None and worker is None:
            return batch
        return BatchWithState(batch, state, digests, worker)
