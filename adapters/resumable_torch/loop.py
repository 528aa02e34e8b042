"""A loop over the batches of a loader, counting the received batches."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.utils.data import DataLoader

import resumable as rs
from resumable.core.ended import warn_of_ended_run
from resumable.stages.global_order import rank_share_of
from resumable.stages.partition import has_partitions

from .batch_states import BatchWithState, CollateWithState, SameOrderCheck
from .callers import refuse_states_not_loaded
from .dataset import PipelineDataset
from .place import EpochProgress
from .randomness import draws_of
from .torch_progress import TorchProgress
from .worker_shares import WorkerShares

if TYPE_CHECKING:
    from .loader import ResumableDataLoader

__all__ = ["ReceivedBatches", "may_cycle", "refuse_cycle"]

T = TypeVar("T")
R = TypeVar("R")


def may_cycle(caller: FrameType) -> bool:
    """Whether ``caller`` may be the frame calling `itertools.cycle`, which has no frame."""
    return "cycle" in caller.f_code.co_names


def refuse_cycle(batches: Iterator[Any]) -> None:
    """Refuse to end ``batches`` if `itertools.cycle` would then repeat the batches.

    Raises:
      InvalidArgument: with advice.
    """
    if any(isinstance(one, itertools.cycle) for one in gc.get_referrers(batches)):
        raise rs.InvalidArgument(
            "itertools.cycle would repeat the batches of this epoch, which no state counts: iterate over "
            "itertools.chain.from_iterable(itertools.repeat(loader)), which begins the next epoch each time"
        )


class ReceivedBatches(Iterator[T]):
    """Counts the batches received by the loop. The epoch begins with the first call of `next`.

    Args:
      loader: source of the batches.
      is_ahead: whether batches are handed out later than received, with `EpochProgress.handed_out`.
        The epoch then ends with `end_epoch`, and otherwise with the last batch.
      may_cycle: whether `itertools.cycle` may be the caller.
    """

    def __init__(
        self, loader: ResumableDataLoader[T], *, is_ahead: bool = False, may_cycle: bool = False
    ) -> None:
        self._loader = loader
        self._is_ahead = is_ahead
        self._may_cycle = may_cycle
        self.progress = EpochProgress()
        self._order_check = SameOrderCheck()
        self._torch: TorchProgress | None = None
        # Number of failed batches. With a map-style data set, failed batches count as skipped once
        # the loop has received another batch. A pipeline's epoch ends with the first failed batch:
        # its worker would deliver nothing more, while other workers would continue.
        self._failed = 0
        # Whether torch would leave a batch out if it continued after an exception. Set before
        # calling torch, since a signal handler may raise anywhere.
        self._broken = False
        self._ended = False

    def __next__(self) -> T:
        if self._ended:  # or each further call would end another epoch
            raise StopIteration
        self.check_current()
        if self.progress.received < 2 and not self._loader.has_callback:
            refuse_states_not_loaded()
        if (torch_progress := self._torch) is None:
            torch_progress = self._timed(self._begin)()
        if self._broken:
            raise rs.WorkerError(
                "the epoch ended with the error before; load_state_dict(state_dict()) goes on with the "
                "batch that could not be made"
            )
        torch_progress.note_before_next()
        self._broken = True
        try:
            batch = torch_progress.take()
        except StopIteration:
            self._ended = True
            if not self._is_ahead:
                self.end_epoch()
            if self._may_cycle:
                refuse_cycle(self)
            raise
        except BaseException as error:
            self._broken = not self._continues(torch_progress, error)
            if self._broken:
                self._loader._iterator = None  # so new workers begin the next epoch
            raise
        state = worker = None
        if isinstance(batch, BatchWithState):
            batch, state, digests, worker = batch
            self._order_check.check(digests)
        self._loader._received_in_all += 1
        self._loader.cursor.count_received(self.progress, 1 + self._failed, state, worker)
        self._failed, self._broken = 0, False
        return batch  # type: ignore[no-any-return]

    def check_current(self) -> None:
        """Check that the loader has not moved since this loop's last batch.

        Raises:
          InvalidArgument: if the loader was moved since this loop began.
          StopIteration: if `end_epoch` has ended this loop.
        """
        by = self.progress.left_by
        if by == "end_epoch":
            raise StopIteration
        if self._torch is not None and self.progress is not self._loader.cursor.place.progress:
            raise rs.InvalidArgument(
                f"this loop was overtaken by {by or 'another call'}: the loader is at another place, and what this loop delivers "
                "would not be in its state. End this loop, or use another loader for the other one"
            )

    def state_dict(self) -> dict[str, bytes]:
        """As `state_dict` of the loader.

        Raises:
          InvalidArgument: if the loader was moved since this loop began.
        """
        if not (self._ended or self.progress.left_by == "end_epoch"):
            self.check_current()
        return self._loader.state_dict()

    def end_epoch(self) -> None:
        """Go to the next epoch when torch has no more batches, unless the loader has gone elsewhere."""
        loader, cursor = self._loader, self._loader.cursor
        if self.progress is not cursor.progress:
            return
        self._warn_if_nothing_was_left()
        last = None
        if has_partitions(loader._stage) and not loader.drop_last:
            # Other ranks may have batches of this epoch left, and all states are joined. A pipeline
            # without a saveable state can still be iterated.
            with suppress(Exception):
                last = cursor.state_after(self.progress.consumed)
        cursor.end(has_ended=True, end_before=last)

    def _begin(self) -> TorchProgress:
        """Begin an epoch."""
        loader, cursor = self._loader, self._loader.cursor
        progress = cursor.begin_loop(loader.per_batch, is_ahead=self._is_ahead)
        is_map_style = not isinstance(loader._source, PipelineDataset)
        if not is_map_style:
            # Persistent workers would go to the next epoch, with the functions of that epoch.
            if not cursor.place.follows or cursor.carries_state:
                loader._iterator = None
            progress.shares = WorkerShares.of(
                cursor.pipeline, loader.num_workers, cursor.states.origin, loader.per_batch.items
            )
        # Torch seeds its workers from a generator also used by the model. A resume begins the epoch
        # a second time, so a resume must not change the generator.
        with draws_of(torch.initial_seed(), cursor.epoch, cursor.states.origin["step"]):
            batches = self._torch_iterator()
        self.progress = progress
        self._torch = TorchProgress(batches, self._timed(batches.__next__), is_map_style)
        return self._torch

    def _timed(self, call: Callable[[], R]) -> Callable[[], R]:
        """``call``, timed after `ResumableDataLoader.measure`."""
        stopwatch = self._loader._stopwatch
        return call if stopwatch is None else partial(stopwatch.timed_call, call)

    def _torch_iterator(self) -> Iterator[T]:
        """Torch's own iterator; delivers `BatchWithState` if the state comes with each batch."""
        loader, source = self._loader, self._loader._source
        collate = loader.collate_fn
        if isinstance(source, PipelineDataset) and source.marks is not None:
            loader.collate_fn = CollateWithState(collate, source.marks)
        try:
            return DataLoader.__iter__(loader)
        finally:
            loader.collate_fn = collate

    def _warn_if_nothing_was_left(self) -> None:
        """Warn at the end of a resumed epoch without a batch.

        With several ranks no warning is given: other ranks may have batches, and all stay in one
        epoch.
        """
        cursor = self._loader.cursor
        if (
            cursor.place.is_led_by_state
            and not self.progress.consumed
            and rank_share_of(cursor.pipeline.stage).ranks == 1
        ):
            warn_of_ended_run(
                cursor.states.origin["step"],
                "load no state",
                go_on=f"begin the next loop, which is epoch {cursor.epoch + 1}",
                stacklevel=4,
            )

    def _continues(self, torch_progress: TorchProgress, error: BaseException) -> bool:
        """Whether torch leaves out nothing after ``error`` except a failed batch."""
        if not torch_progress.leaves_none_out:
            return False
        if not torch_progress.taken:  # torch was interrupted while waiting
            return True
        # Torch skips the batch. Skipping is right for an error of the data set, but an interrupt
        # says nothing about the batch.
        passed_over = torch_progress.taken == 1 and isinstance(error, Exception)
        if not (passed_over and torch_progress.skips_failed):
            return False
        self._failed += 1
        return True
