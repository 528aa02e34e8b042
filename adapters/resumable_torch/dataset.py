"""An `IterableDataset` over a pipeline, whose workers deliver its items in their global order."""

# Torch takes batches from its workers in turn: with W workers, worker w delivers the batches w,
# w + W, w + 2W ... So each worker skips the items of the others. That costs nothing if items are
# looked up by index. If the pipeline is a stream, every worker reads all of it, but calls mapped
# functions for its own items only. A source must not notice that there are several workers, or it
# would read only a part. If the pipeline has partitions and the loader counts the batches of each
# worker, each worker owns some partitions and skips nothing.

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.worker import WorkerInfo

import resumable as rs
from resumable.core.arguments import check_int
from resumable.core.graph import threadless, without_threads
from resumable.errors import shorten

from .cursor import Cursor, InPasses
from .marks import Marks
from .no_worker import hide_worker, in_no_worker
from .one_rank import keeps_rank_state
from .order import pulled
from .shares import share_of

__all__ = ["PipelineDataset"]


class PipelineDataset(InPasses, IterableDataset[Any]):
    """The items of a pipeline for a `DataLoader`, epoch by epoch.

    `ResumableDataLoader` needs nothing else. It continues from the place of the data set when the loader
    is made, and then keeps a place of its own. With a plain `DataLoader`, let the pipeline make the
    batches, pass ``batch_size=None``, call `set_epoch` before each epoch, leave ``persistent_workers``
    off, and pass the number of consumed items to `state_dict`.

    If the pipeline has partitions, each worker owns some and reads no others. That needs a
    `ResumableDataLoader`, which counts the batches of each worker. Only `map`, `filter` and
    `prefetch` may follow the partitions; after another stage, each worker reads everything, as for
    any stream.

    State: that of the pipeline, with any number of workers. Bytes saved here resume the pipeline without
    torch, and the other way round.

    In a worker, ``torch.utils.data.get_worker_info()`` returns None to the sources and functions of the
    pipeline. A source that would read the part of one worker only (as in torch's documentation, Hugging
    Face and WebDataset) then reads everything.

    Args:
      pipeline: any pipeline with sources that can be read again, and that deliver the same items in the
        same order in every process. Several workers run it without its own threads.

    Attributes:
      pipeline: the argument.
      cursor: the place of the loop.
      marks: the state after each batch of a stream, if a loader begins the epochs.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
    """

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        if not isinstance(pipeline, rs.Pipeline):
            raise rs.InvalidType(f"pipeline must be a pipeline, got {shorten(pipeline)}")
        self.pipeline = pipeline
        self.cursor = Cursor(pipeline)
        # How many consecutive items a worker delivers at a time.
        self._run_length = 1
        self._driven = False
        self.marks: Marks | None = None
        self._yielded = 0
        # In a worker: its iterator, and whether `load_state_dict` has put it in its place.
        self._working: rs.PipelineIterator[Any] | None = None
        self._in_place = False
        self._worker: WorkerInfo | None = None

    def __iter__(self) -> Iterator[Any]:
        self._worker = worker = self._here()
        if worker is None:
            return self._all()
        if worker.num_workers == 1 and threadless(self.pipeline.stage):
            hide_worker()  # the pipeline's threads read at any moment
        with in_no_worker():
            return self._share(worker.id, worker.num_workers)

    def __len__(self) -> int:
        return len(self.pipeline)

    @keeps_rank_state
    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state of the loop; in a worker, that of the worker.

        Args:
          consumed: number of items that the loop has consumed since the epoch began or was resumed. By
            default, the number of those that were yielded in this process.

        Raises:
          ExternalStateError: if ranks own partitions and it is registered with Accelerate, which
            keeps the state of rank 0 only.
        """
        if self._working is not None:
            with in_no_worker():
                return self.cursor.state_of(self._working)
        count = self._yielded if consumed is None else check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(count)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next epoch continue at ``state_dict``.

        Raises:
          StateMismatch: if ``state_dict`` belongs to another pipeline.
        """
        in_worker = self._here() is not None
        with in_no_worker():
            self.cursor.load(state_dict)
        self._yielded = 0
        self._in_place = in_worker

    def driven(self, run_length: int) -> PipelineDataset:
        """A copy for a loader that begins the epochs and takes ``run_length`` items at a time."""
        copied = copy.copy(self)
        copied.cursor = copy.copy(self.cursor)
        copied._driven, copied._run_length = True, run_length
        copied.marks = None if self.pipeline.random_access else Marks()
        return copied

    def _here(self) -> WorkerInfo | None:
        """The torch worker that runs this code, even if it is hidden."""
        return get_worker_info() or self._worker

    def _all(self) -> Iterator[Any]:
        if not self._driven:
            self.cursor.begin(self._yielded)
        self._yielded = 0
        marks = self.marks
        with self.cursor.produce() as iterator:
            for item in iterator:
                self._yielded += 1
                if marks is not None and self._yielded % self._run_length == 0:
                    marks.leave(iterator)
                yield item
            if marks is not None:
                marks.leave(iterator)

    def _share(self, number: int, workers: int) -> Iterator[Any]:
        """The runs of items of worker ``number``; its iterator stands at the first one at once."""
        in_place, self._in_place = self._in_place, False
        if in_place:  # even if nothing is left: other workers may have items
            self.cursor.set_epoch(self.cursor.epoch)
        # A persistent worker goes through one epoch after another.
        self.cursor.begin(int(self._working is not None))
        self._working = own = self._own(number, workers)
        if own is not None:
            return self._runs(own, others=0)
        self._working = self.cursor.produce(threads=workers == 1)
        if not in_place:
            self._working.skip(number * self._run_length)
        if self.marks is not None:
            self.marks.begin(self._working)
        return self._runs(self._working, (workers - 1) * self._run_length)

    def _own(self, number: int, workers: int) -> rs.PipelineIterator[Any] | None:
        """An iterator over the partitions of worker ``number`` from the start of the epoch.

        It is None if the worker owns none.
        """
        if not self._driven or self.marks is None:
            return None
        share = share_of(self.pipeline, number, workers, self.cursor.origin)
        if share is None:
            return None
        self.marks.worker = number
        plain = rs.Pipeline(without_threads(share.stage))
        return plain.resume(self.cursor.origin)

    def _runs(self, iterator: rs.PipelineIterator[Any], others: int) -> Iterator[Any]:
        """Runs of items; between two runs, ``others`` items are skipped."""
        with iterator:
            whole = True
            while whole:
                with in_no_worker():
                    run = pulled(iterator, self._run_length)
                    if self.marks is not None:
                        self.marks.leave(iterator)
                    whole = len(run) == self._run_length
                    if whole and others:
                        # Before the items are handed out, so that a state taken then includes the
                        # skip.
                        iterator.skip(others)
                yield from run

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_working": None, "_worker": None}
