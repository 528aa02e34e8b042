"""Which batches of an epoch torch has taken when an exception came instead of a batch."""

# An exception from torch's iterator has one of two causes. Either a batch could not be made; torch
# then continues after it. Or a signal handler raised while torch waited; the batch then still
# comes. The exception does not tell which, since a handler may raise any type. So torch is asked:
# with workers, it counts the batches that it has handed out. Without workers, each draw from the
# sampler makes one batch, so the draws are counted.
#
# A handler may also raise in the middle of torch's own bookkeeping, or in the sampler, a generator,
# which then ends. Later batches may leave some out, so the epoch must not continue.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["CountingSampler", "TorchProgress"]


class CountingSampler:
    """A sampler whose iterators count what is drawn from them."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        return CountingDraws(iter(self._sampler))

    def __len__(self) -> int:
        return len(self._sampler)


class CountingDraws(Iterator[Any]):
    """Counts what is drawn.

    Attributes:
      count: number of draws.
      ended: whether the sampler has ended.
      interrupted: whether an exception, such as that of a signal handler, interrupted a draw.
    """

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices
        self.count = 0
        self.ended = False
        self.interrupted = False

    def __next__(self) -> Any:
        self.interrupted = True
        try:
            drawn = next(self._indices)
        except StopIteration:
            self.ended, self.interrupted = True, False
            raise
        self.count += 1
        self.interrupted = False
        return drawn


class TorchProgress:
    """The batches of a pass that torch has taken.

    Args:
      batches: torch's iterator over a loader whose sampler is `CountingSampler`.
      ordered: whether each draw makes one batch, as with a map-style data set.
    """

    def __init__(self, batches: Any, ordered: bool) -> None:
        self._batches = batches
        self._ordered = ordered
        self._workers = batches._num_workers > 0
        self._before = 0
        self._alive: list[bool] = []

    def note_before_next(self) -> None:
        """Note where torch stands before it is asked for a batch."""
        self._before = self._count
        if self._workers:
            self._alive = list(self._batches._workers_status)

    @property
    def taken(self) -> int:
        """Number of batches that torch has taken since `note_before_next`, delivered or not."""
        return self._count - self._before

    @property
    def leaves_none_out(self) -> bool:
        """Whether torch continues after the batches it has taken and leaves none out."""
        torch, drawn = self._batches, self._batches._sampler_iter
        if drawn.interrupted:
            return False
        if not self._workers:
            return True
        # Torch skips the batches of a dead worker, and a batch that is not in its list of tasks.
        # Its own invariant: it waits for as many batches as the list has entries without data.
        waiting = sum(len(info) == 1 for info in torch._task_info.values())
        return (
            torch._workers_status == self._alive
            and torch._tasks_outstanding == waiting
            and (torch._rcvd_idx == torch._send_idx or torch._rcvd_idx in torch._task_info)
            and (not self._ordered or self._has_sent_every_draw)
        )

    @property
    def _has_sent_every_draw(self) -> bool:
        """Whether every draw was sent to a worker, and the full number of batches is in work."""
        torch, drawn = self._batches, self._batches._sampler_iter
        ahead = torch._prefetch_factor * torch._num_workers
        return bool(
            drawn.count == torch._send_idx
            and (drawn.ended or torch._send_idx - torch._rcvd_idx == ahead)
        )

    @property
    def _count(self) -> int:
        if self._workers:
            return int(self._batches._rcvd_idx)
        return int(self._batches._sampler_iter.count)
