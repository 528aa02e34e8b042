"""An `IterableDataset` over a pipeline; its workers deliver the items in global order."""

# Torch takes batches from its workers in turn: with W workers, worker w delivers the batches w, w +
# W, w + 2W ... So each worker skips the items of the other workers. Skipping costs nothing with
# lookup by index. If the pipeline is a stream, every worker reads all items, but calls mapped
# functions for its own items only. A source must not notice that several workers exist, or it would
# read only a part. If the pipeline has partitions and the loader counts the batches of each worker,
# each worker owns some partitions and skips nothing.

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.worker import WorkerInfo

import resumable as rs
from resumable.core.arguments import check_type
from resumable.core.epochs import in_epoch
from resumable.core.graph import has_threads, without_threads
from resumable.core.savers import GuardedStateDict
from resumable.state.encoding import dumps_frozen

from .batch_states import BatchState
from .cursor import KEY, Cursor
from .drawing import DrawsItems
from .hidden_worker import hidden_worker, hide_worker
from .sample_order import take_list
from .worker_shares import worker_share

__all__ = ["PipelineDataset"]


class PipelineDataset(DrawsItems, IterableDataset[Any]):
    """The items of a pipeline for a `DataLoader`, in a new epoch for each loop.

    `ResumableDataLoader` needs nothing else. The loader starts at the place of the data set when
    made, and then keeps its own place. With a plain `DataLoader`, let the pipeline make the
    batches, pass ``batch_size=None``, call `set_epoch` before each epoch, leave
    ``persistent_workers`` off, and pass the number of consumed items to `state_dict`.

    If the pipeline has partitions, each worker reads only its own partitions. Own partitions need a
    `ResumableDataLoader`, which counts the batches of each worker. Only stages without a state may
    follow the partitions: `map`, `filter`, `prefetch`, `random_map`, and your own stages that are
    `alone`, with `relation` `Same` and `depends_on` `NOTHING` (but no `random_map` after such a
    stage). After any other stage, each worker reads everything, as for any stream; also after a map
    with ``on_error="skip"``, or with a function that carries state.

    State: as of the pipeline, with any number of workers. Bytes saved here resume the pipeline
    without torch, and the other way round.

    In a worker, ``torch.utils.data.get_worker_info()`` returns None to the sources and functions of
    the pipeline. A source that would read only the part of one worker (as in torch's documentation,
    Hugging Face and WebDataset) then reads everything.

    Args:
      pipeline: any pipeline with sources that can be read again and deliver the same items in the
        same order in every process. Several workers run the pipeline without its own threads.

    Attributes:
      pipeline: the argument.
      cursor: the place of the loop.
      marks: the state after the newest batch of a stream; None unless a loader begins the epochs of
        a stream.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
    """

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        check_type("pipeline", pipeline, rs.Pipeline, "a pipeline")
        self.cursor = Cursor(pipeline)
        self.marks: BatchState | None = None
        # In a worker: its iterator, and whether `load_state_dict` has set the position of the
        # iterator.
        self._worker_iterator: rs.PipelineIterator[Any] | None = None
        self._has_loaded = False
        self._worker: WorkerInfo | None = None

    def __iter__(self) -> Iterator[Any]:
        self._worker = worker = self._current_worker()
        if worker is None:
            return self._every_item()
        if worker.num_workers == 1 and has_threads(self.pipeline.stage):
            hide_worker()  # the pipeline's threads read at any moment
        with hidden_worker():
            return self._items_of_worker(worker.id, worker.num_workers)

    def __len__(self) -> int:
        return len(in_epoch(self.pipeline.stage, self.cursor.epoch))

    @GuardedStateDict
    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state of the loop; in a worker, the state of the worker.

        Args:
          consumed: number of items consumed by the loop since the epoch began or was resumed. By
            default, the number of items yielded in this process.

        Raises:
          ExternalStateError: if ranks own partitions and the data set is registered with
            Accelerate, which keeps the state of rank 0 only.
        """
        if self._worker_iterator is not None:
            with hidden_worker():
                return {KEY: dumps_frozen(self._worker_iterator.get_state())}
        return super().state_dict(consumed)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if ``state_dict`` belongs to another pipeline.
        """
        in_worker = self._current_worker() is not None
        with hidden_worker():
            # Even if nothing is left for a worker: other workers may have items.
            self.cursor.load(state_dict, is_chosen=in_worker)
        self._has_loaded = in_worker

    def for_loader(self) -> PipelineDataset:
        """A copy for a loader that begins the epochs."""
        copied = copy.copy(self)
        copied.cursor = copy.copy(self.cursor)
        copied.marks = None if self.pipeline.random_access else BatchState()
        return copied

    def _current_worker(self) -> WorkerInfo | None:
        """The torch worker running this code, even if hidden."""
        return get_worker_info() or self._worker

    def _every_item(self) -> Iterator[Any]:
        progress, marks = self.cursor.begin_drawing(), self.marks
        with self.cursor.states.produce() as iterator:
            for item in iterator:
                progress.drawn += 1
                if marks is not None and progress.drawn % progress.per_batch.items == 0:
                    marks.record(iterator)
                yield item
            if marks is not None:
                marks.record(iterator)

    def _items_of_worker(self, number: int, workers: int) -> Iterator[Any]:
        """The items of worker ``number``; its iterator is moved to the first item at once."""
        has_loaded, self._has_loaded = self._has_loaded, False
        # A persistent worker goes through one epoch after another.
        items = self.cursor.begin_in_worker(self._worker_iterator is not None).per_batch.items
        self._worker_iterator = own = self._own_partitions(number, workers)
        if own is not None:
            return self._items_of_own_batches(own, others=0)
        self._worker_iterator = self.cursor.states.produce(threads=workers == 1)
        if not has_loaded:
            self._worker_iterator.skip(number * items)
        return self._items_of_own_batches(self._worker_iterator, (workers - 1) * items)

    def _own_partitions(self, number: int, workers: int) -> rs.PipelineIterator[Any] | None:
        """An iterator over the partitions of worker ``number`` from the start of the epoch.

        None if the worker owns no partitions.
        """
        if not self.cursor.has_owner or self.marks is None:
            return None
        share = worker_share(self.pipeline, number, workers, self.cursor.states.origin)
        if share is None:
            return None
        self.marks.worker = number
        return rs.Pipeline(without_threads(share.stage)).resume(self.cursor.states.origin)

    def _items_of_own_batches(
        self, iterator: rs.PipelineIterator[Any], others: int
    ) -> Iterator[Any]:
        """The items of every batch of this worker.

        After each batch, ``others`` items are skipped: the items in batches of the other workers.
        """
        count, whole = self.cursor.progress.per_batch.items, True
        with iterator:
            while whole:
                with hidden_worker():
                    if self.marks is not None and others:
                        self.marks.begin(iterator)
                    items = take_list(iterator, count)
                    if self.marks is not None:
                        self.marks.record(iterator)
                    whole = len(items) == count
                    if whole and others:
                        # Now, so a state taken while the items are handed out includes the skip.
                        iterator.skip(others)
                yield from items

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_worker_iterator": None, "_worker": None}
