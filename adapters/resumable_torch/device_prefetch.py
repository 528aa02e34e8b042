"""Copy the next batches of a loader to a device while the training step works on one."""

# On CUDA the tensors of a batch are copied from pinned memory in a stream of its own, so that the copy goes on while
# the loop computes. When a batch is handed out, the stream of the loop waits for its copy. No thread is needed.
#
# Memory belongs to the stream in which it was allocated. Once it is free, the allocator gives it to what comes next in
# that stream, though the loop may still read it in its own, unless the allocator was told of that. It can be told of a
# tensor, but not of the tensors within another object. So such an object is copied in the stream of the loop.
#
# An interrupt may come between any two bytecodes. So a batch gets from the loader into `_fetched`, and from
# `_ready` to the loop, without any in between. The batches that lie ahead are those that the loader has
# counted as received, without those that were handed out, wherever an interrupt has left them.

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
    """Copy batches to a device ahead of the loop, with the state of the one that the loop has.

    Each `next` copies batches until ``size`` of them are on the device, and hands out the first. On CUDA their
    tensors are copied from pinned memory in a stream of their own, while the loop computes. Any other object that has
    a method ``to``, such as a ``BatchEncoding``, is copied in the stream of the loop. The state is that of the
    loader after the batch handed out last. It does not depend on ``size``, and a resume may do without.

    ::

        batches = device_prefetch(loader, "cuda")
        for batch in batches:
            train(batch)
            save({"model": model.state_dict(), "input": batches.state_dict()})

    Args:
      loader: its batches are tensors, or dicts, lists and tuples of tensors and of other objects. What has a method
        ``to`` is moved; other objects stay as they are. It belongs to the result while a loop runs.
      device: where the batches go.
      size: batches on the device, including the one that is handed out, from 1 to 65,536. With 1, nothing is
        copied while the loop computes.

    Raises:
      InvalidType: if ``loader`` is no `ResumableDataLoader`.
      InvalidArgument: if ``size`` is too small or too large.
      RuntimeError: of torch, if there is no such device.
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
    """The batches of a loader on a device, in a new epoch for each loop; `device_prefetch` makes it.

    What holds of the loops of a `ResumableDataLoader` holds of its loops. An error comes after the batches before
    it were handed out.

    Args:
      loader: as for `device_prefetch`.
      device: where the batches go.
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
        """As that of the loader; the batches that lie ahead are dropped."""
        self.loader.end_epoch()

    def peek(self) -> Any:
        """As that of the loader, on the device."""
        return Copier(self.device).copied(0, self.loader.peek()).batch

    @GuardedStateDict
    def state_dict(self) -> dict[str, bytes]:
        """The state after the batch handed out last, the same as that of the loader without prefetch.

        Raises:
          ExternalStateError: as `ResumableDataLoader.state_dict`.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to other data or to another order; nothing changes then.
        """
        self.loader.load_state_dict(state_dict)

    def get_state(self) -> dict[str, bytes]:
        """As `state_dict`, for ``rs.from_iterable``; after an epoch, the start of the next."""
        return self.loader.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """As `load_state_dict`, but at the end of an epoch the next loop is empty, as that of the loader."""
        self.loader.set_state(state)

    def __repr__(self) -> str:
        return f"device_prefetch({self.loader!r}, {str(self.device)!r}, size={self.size})"


class _BatchesAhead(Iterator[Any]):
    """A loop over the batches of a loader, some of which lie ahead on the device.

    Args:
      loader: as for `device_prefetch`.
      device: where the batches go.
      size: batches on the device.
      may_cycle: as for `ReceivedBatches`.
    """

    # Invariant: the loader has counted the batches in `_ready` after those handed out. If it has counted more, the
    # batch after them is in `_fetched`.

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
        # What comes after `_ready`; `StopIteration` at the end.
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
                # An interrupt between these lines leaves the batch where it is, or in both places.
                copied = self._copier.copied(self._received.progress.received, self._fetched[0])
                self._ready.append(copied)
                self._fetched.clear()
        except Exception as error:
            self._error = error

    def _fetch(self) -> None:
        """Get the next batch into `_fetched` if it is not there.

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
      number: how many the loader has counted, with this one.
      batch: what is handed out.
      copied: when its copy is done, if that runs in a stream of its own.
    """

    number: int
    batch: Any
    copied: torch.cuda.Event | None = None


class Copier:
    """Moves batches to a device of any kind."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def copied(self, number: int, batch: Any) -> NumberedBatch:
        """``batch`` on the device, or on its way there."""
        return NumberedBatch(number, tree_map(self._move, batch))

    def await_copy(self, batch: NumberedBatch) -> None:
        """Let what the loop does from now on wait until ``batch`` is there."""

    def _move(self, leaf: Any) -> Any:
        return leaf.to(self._device) if hasattr(leaf, "to") else leaf


class CudaCopier(Copier):
    """Copies tensors to a GPU from pinned memory, in a stream of its own, and other objects in that of the loop."""

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
        # The allocator must not give the memory away before that stream is done with it.
        tree_map(lambda leaf: _note_use(leaf, stream), batch.batch)

    def _copy_tensor(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.device.type == "cpu" and not leaf.is_pinned():
            leaf = leaf.pin_memory()
        # The allocator of pinned memory waits for the copy before it gives the memory away.
        return leaf.to(self._device, non_blocking=True)

    def _move(self, leaf: Any) -> Any:
        movable = hasattr(leaf, "to") and not isinstance(leaf, torch.Tensor)
        return leaf.to(self._device, non_blocking=True) if movable else leaf


def _note_use(leaf: Any, stream: torch.cuda.Stream) -> Any:
    if isinstance(leaf, torch.Tensor):
        leaf.record_stream(stream)
    return leaf
