"""What torch has taken of the batches of a pass, when an exception came in the place of one."""

# An exception out of torch's iterator may mean that a batch could not be made, and torch goes on behind
# it. Or a signal handler raised it while torch waited, and the batch still comes. Which of the two it is
# cannot be told from the exception, as handlers raise whatever they like. So torch is asked. With workers
# it counts the batches that it has handed out. Without, it makes each batch that it draws from the sampler.
#
# A handler may also have raised in the midst of torch's own bookkeeping, or in the sampler, which is a
# generator and ends with that. What then comes may leave batches out, so nobody may go on.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Drawable", "Taken"]


class Drawable:
    """A sampler whose iterators know how much was drawn from them."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        return Drawn(iter(self._sampler))

    def __len__(self) -> int:
        return len(self._sampler)


class Drawn(Iterator[Any]):
    """Counts what is drawn.

    Attributes:
      count: what was drawn.
      ended: whether nothing was left.
      torn: whether an exception, such as that of a signal handler, interrupted a draw.
    """

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices
        self.count = 0
        self.ended = False
        self.torn = False

    def __next__(self) -> Any:
        self.torn = True
        try:
            drawn = next(self._indices)
        except StopIteration:
            self.ended, self.torn = True, False
            raise
        self.count += 1
        self.torn = False
        return drawn


class Taken:
    """The batches that torch has taken of a pass.

    Args:
      batches: torch's iterator over a loader whose sampler is `Drawable`.
      ordered: whether each batch is that of one draw, as over a map-style data set.
    """

    def __init__(self, batches: Any, ordered: bool) -> None:
        self._batches = batches
        self._ordered = ordered
        self._workers = batches._num_workers > 0
        self._before = 0
        self._working: list[bool] = []

    def note(self) -> None:
        """Note where torch stands before it is asked for a batch."""
        self._before = self._count
        if self._workers:
            self._working = list(self._batches._workers_status)

    @property
    def more(self) -> int:
        """The batches that torch has taken since `note`, delivered or not."""
        return self._count - self._before

    @property
    def sound(self) -> bool:
        """Whether torch goes on behind what it has taken, and leaves nothing out."""
        torch, drawn = self._batches, self._batches._sampler_iter
        if drawn.torn:
            return False
        if not self._workers:
            return True
        # Torch passes over what a dead worker should have made, and over a batch that is not in its list.
        # Its own invariant is that it waits for as many batches as the list has without data.
        waiting = sum(len(info) == 1 for info in torch._task_info.values())
        return (
            torch._workers_status == self._working
            and torch._tasks_outstanding == waiting
            and (torch._rcvd_idx == torch._send_idx or torch._rcvd_idx in torch._task_info)
            and (not self._ordered or self._asked_for_all)
        )

    @property
    def _asked_for_all(self) -> bool:
        """Whether each batch that was drawn is one that workers make, and always as many."""
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
