"""The batches of an epoch taken by torch, checked when torch raises instead of giving a batch."""

# If torch's iterator raises, the possible causes are:
# - A batch could not be made. Torch has taken the batch, and continues with the next batch.
# - A signal handler raised while torch waited. Torch has not taken the batch; the batch comes next.
# The type of the exception does not distinguish the causes, since a handler may raise any type. The
# number of batches taken by torch does. With workers, torch itself counts the batches. Without
# workers, each draw from the sampler makes one batch, so we count the draws.
#
# A handler may also raise in the middle of torch's own bookkeeping, or inside the sampler. A
# sampler is a generator, so the exception ends the sampler. Torch might leave batches out
# afterwards, so the epoch must not continue.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CountingSampler", "TorchProgress"]


class CountingSampler:
    """A sampler with iterators that count draws."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        return CountingDraws(iter(self._sampler))

    def __len__(self) -> int:
        return len(self._sampler)


class CountingDraws(Iterator[Any]):
    """Counts draws.

    Attributes:
      count: number of draws.
      ended: whether the sampler has ended.
      interrupted: whether an exception, such as from a signal handler, interrupted a draw.
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
    """Number of batches of an epoch taken by torch, and whether torch can continue.

    Args:
      batches: torch's iterator over a loader with a `CountingSampler`.
      take: ``__next__`` of ``batches``, perhaps timed.
      skips_failed: whether more batches come after a failed batch, since each draw makes one batch,
        as with a map-style data set.
    """

    def __init__(self, batches: Any, take: Callable[[], Any], skips_failed: bool) -> None:
        self.take = take
        self.skips_failed = skips_failed
        self._batches = batches
        self._workers = batches._num_workers > 0
        self._before = 0
        self._alive: list[bool] = []

    def note_before_next(self) -> None:
        """Remember the position of torch before calling for a batch."""
        self._before = self._count
        if self._workers:
            self._alive = list(self._batches._workers_status)

    @property
    def taken(self) -> int:
        """Number of batches taken by torch since `note_before_next`, delivered or not."""
        return self._count - self._before

    @property
    def leaves_none_out(self) -> bool:
        """Whether torch, if continued, leaves out no batch after the batches taken."""
        torch, drawn = self._batches, self._batches._sampler_iter
        if drawn.interrupted:
            return False
        if not self._workers:
            return True
        # Torch skips the batches of a dead worker, and any batch missing in its list of tasks.
        # Invariant of torch: it waits for as many batches as the list has entries without data.
        waiting = sum(len(info) == 1 for info in torch._task_info.values())
        return (
            torch._workers_status == self._alive
            and torch._tasks_outstanding == waiting
            and (torch._rcvd_idx == torch._send_idx or torch._rcvd_idx in torch._task_info)
            and (not self.skips_failed or self._has_sent_every_draw)
        )

    @property
    def _has_sent_every_draw(self) -> bool:
        """Whether every draw was sent to a worker, and workers have all the batches allowed."""
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
