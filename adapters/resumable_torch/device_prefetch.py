"""Copy the next batches of a loader to a device during the training step."""

# On CUDA the tensors of a batch are copied from pinned memory in a separate stream, so the copy
# continues while the loop computes. When a batch is handed out, the stream of the loop waits for
# the copy of the batch. No thread is needed.
#
# Memory belongs to the stream of its allocation. Once memory is free, the allocator gives it to the
# next user in the same stream, though the loop may still read it in the loop's own stream, unless
# the allocator knows of this use. The allocator accepts notes about tensors, but not about tensors
# within another object. So such an object is copied in the stream of the loop.
#
# An interrupt may come between any two bytecodes. So a batch moves from the loader into `_fetched`,
# and from `_ready` to the loop, without any bytecode in between. The batches ahead are the batches
# counted by the loader as received, without the batches handed out, wherever an interrupt has left
# the batches.

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, final

import torch
from torch.utils._pytree import tree_map

import resumable as rs
from resumable.core.arguments import check_int
from resumable.core.savers import GuardedStateDict
from resumable.errors import shorten

from .drawing import HasCursor
from .loader import ResumableDataLoader
from .loop import ReceivedBatches, may_cycle, refuse_cycle
from .worker_shares import MOST_HELD

__all__ = ["DevicePrefetch", "device_prefetch"]


def device_prefetch(
    loader: ResumableDataLoader[Any], device: torch.device | str | int, size: int = 2
) -> DevicePrefetch:
    """Copy batches to a device ahead of the loop, with the state of the loop's batch.

    Each `next` copies batches until ``size`` batches are on the device, and hands out the first. On
    CUDA tensors are copied from pinned memory in a separate stream, while the loop computes. Any
    other object with a method ``to``, such as a ``BatchEncoding``, is copied in the stream of the
    loop. The state is the state of the loader after the last batch handed out. The state does not
    depend on ``size``, and a resume may use the loader alone.

    ::

        batches = device_prefetch(loader, "cuda")
        for batch in batches:
            train(batch)
            save({"model": model.state_dict(), "input": batches.state_dict()})

    Args:
      loader: its batches are tensors, or dicts, lists and tuples of tensors and of other objects.
        Objects with a method ``to`` are moved; other objects are left unchanged. The loader belongs
        to the result while a loop runs.
      device: target of the batches.
      size: batches on the device, including the batch handed out, from 1 to 65,536. With 1, nothing
        is copied while the loop computes.

    Raises:
      InvalidType: if ``loader`` is no `ResumableDataLoader`.
      InvalidArgument: if ``size`` is too small or too large.
      RuntimeError: of torch, if the device does not exist.
    """
    if not isinstance(loader, ResumableDataLoader):
        raise rs.InvalidType(
            f"loader must be a ResumableDataLoader, got {shorten(loader)}; of a pipeline, "
            "ResumableDataLoader(PipelineDataset(pipeline), batch_size=None) makes one"
        )
    size = check_int("size", size, minimum=1, maximum=MOST_HELD)
    return DevicePrefetch(loader, torch.empty(0, device=device).device, size)


@final
class DevicePrefetch(HasCursor):
    """The batches of a loader on a device, in a new epoch for each loop.

    `device_prefetch` makes it.

    The rules for loops of a `ResumableDataLoader` also hold here. An error comes after the earlier
    batches were handed out.

    Args:
      loader: as for `device_prefetch`.
      device: target of the batches.
      size: batches on the device.
    """

    def __init__(self, loader: ResumableDataLoader[Any], device: torch.device, size: int) -> None:
        self.loader = loader
        self.cursor, self.per_batch = loader.cursor, loader.per_batch
        self.device = device
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        may_be = may_cycle(sys._getframe(1))
        return _BatchesAhead(self.loader, self.device, self.size, may_cycle=may_be)

    def __len__(self) -> int:
        return len(self.loader)

    def end_epoch(self) -> None:
        """As `end_epoch` of the loader; the batches ahead are dropped."""
        self.loader.end_epoch()

    def peek(self) -> Any:
        """As `peek` of the loader, on the device."""
        return Copier(self.device).copied(0, self.loader.peek()).batch

    @GuardedStateDict
    def state_dict(self) -> dict[str, bytes]:
        """The state after the last batch handed out, equal to the loader's state without prefetch.

        Raises:
          ExternalStateError: as `ResumableDataLoader.state_dict`.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if ``state_dict`` belongs to other data or to another order; nothing
            changes then.
        """
        self.loader.load_state_dict(state_dict)

    def get_state(self) -> dict[str, bytes]:
        """As `state_dict`, for ``rs.from_iterable``; after an epoch, the start of the next."""
        return self.loader.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """As `load_state_dict`, but at the end of an epoch the next loop is empty."""
        self.loader.set_state(state)

    def __repr__(self) -> str:
        return f"device_prefetch({self.loader!r}, {str(self.device)!r}, size={self.size})"


class _BatchesAhead(Iterator[Any]):
    """A loop over the batches of a loader, with some batches ahead on the device.

    Args:
      loader: as for `device_prefetch`.
      device: target of the batches.
      size: batches on the device.
      may_cycle: as for `ReceivedBatches`.
    """

    # Invariant: the loader has counted the batches in `_ready` after the batches handed out. If the
    # loader has counted more, the following batch is in `_fetched`.

    def __init__(
        self, loader: ResumableDataLoader[Any], device: torch.device, size: int, *, may_cycle: bool
    ) -> None:
        self._may_cycle = may_cycle
        self._received = ReceivedBatches(loader, is_ahead=True)
        self._copier = CudaCopier(device) if device.type == "cuda" else Copier(device)
        self._size = size
        self._fetched = deque[Any](maxlen=1)
        self._ready = deque[NumberedBatch]()
        self._taken = iter(self._ready.popleft, None)
        # The error after `_ready`; `StopIteration` at the end.
        self._error: Exception | None = None

    def __next__(self) -> Any:
        self._received.check_current()
        self._fill()
        taken, progress = self._taken, self._received.progress
        if self._ready:
            self._copier.await_copy(self._ready[0])
            # A loop of one round: no signal handler runs between the batch and its number.
            for progress.handed_out, batch, _ in taken:
                return batch
        error, self._error = self._error, None
        if error is None or isinstance(error, StopIteration):
            self._received.end_epoch()
            if self._may_cycle:
                refuse_cycle(self)
            raise StopIteration
        raise error

    def _fill(self) -> None:
        """Copy batches until enough are on the device, or up to the end or an error."""
        if self._error is not None:
            return
        try:
            while len(self._ready) < self._size:
                self._fetch()
                # An interrupt between these lines leaves the batch in its old place, or in both
                # places.
                copied = self._copier.copied(self._received.progress.received, self._fetched[0])
                self._ready.append(copied)
                self._fetched.clear()
        except Exception as error:
            self._error = error

    def _fetch(self) -> None:
        """Get the next batch into `_fetched` if missing.

        Raises:
          StopIteration: at the end.
        """
        progress = self._received.progress
        newest = self._ready[-1].number if self._ready else progress.consumed
        if progress.received <= newest:
            self._fetched.clear()
            # No Python code runs between the end of the loader's `next` and the entry in the queue.
            self._fetched.extend(islice(self._received, 1))
            if not self._fetched:
                raise StopIteration
        elif not self._fetched:
            raise rs.WorkerError(
                "an interrupt in the middle of a batch has ended the epoch; "
                "load_state_dict(state_dict()) goes on with that batch"
            )


class NumberedBatch(NamedTuple):
    """A batch on the device.

    Attributes:
      number: count of the loader's batches, including this batch.
      batch: to be handed out.
      copied: end of the copy, if the copy runs in a separate stream.
    """

    number: int
    batch: Any
    copied: torch.cuda.Event | None = None


class Copier:
    """Moves batches to a device of any kind."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def copied(self, number: int, batch: Any) -> NumberedBatch:
        """``batch`` on the device, or on the way."""
        return NumberedBatch(number, tree_map(self._move, batch))

    def await_copy(self, batch: NumberedBatch) -> None:
        """Let later work of the loop wait until ``batch`` is copied."""

    def _move(self, leaf: Any) -> Any:
        return leaf.to(self._device) if hasattr(leaf, "to") else leaf


class CudaCopier(Copier):
    """Copies tensors from pinned memory in a separate stream, other objects in the loop's."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def copied(self, number: int, batch: Any) -> NumberedBatch:
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            copied = tree_map(self._copy_tensor, batch)
            done.record(self._stream)
        return NumberedBatch(number, tree_map(self._move, copied), done)

    def await_copy(self, batch: NumberedBatch) -> None:
        stream = torch.cuda.current_stream(self._device)
        assert batch.copied is not None
        stream.wait_event(batch.copied)
        # The allocator must not give the memory away before the loop's stream is done.
        tree_map(lambda leaf: _note_use(leaf, stream), batch.batch)

    def _copy_tensor(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.device.type == "cpu" and not leaf.is_pinned():
            leaf = leaf.pin_memory()
        # The allocator of pinned memory waits for the copy before reusing the memory.
        return leaf.to(self._device, non_blocking=True)

    def _move(self, leaf: Any) -> Any:
        movable = hasattr(leaf, "to") and not isinstance(leaf, torch.Tensor)
        return leaf.to(self._device, non_blocking=True) if movable else leaf


def _note_use(leaf: Any, stream: torch.cuda.Stream) -> Any:
    if isinstance(leaf, torch.Tensor):
        leaf.record_stream(stream)
    return leaf
