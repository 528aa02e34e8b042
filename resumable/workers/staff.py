"""Keep workers from one pass to the next."""

# Starting processes may take longer than a short pass. Each pass has iterators of its own, so
# the repeat, which begins the passes, has a `Staff`: the maps of a pass leave their workers there
# at its end, and those of the next pass take them. Workers always belong to either a map or the
# staff, and are closed with it, so none outlive the iterator of the repeat.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

from ..core.home_process import HomeProcess
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from .executors import Workers, close_all


@final
class Staff:
    """Idle workers, by the stage that they work for.

    A thread that reads ahead may leave workers here while another thread closes it. There are no
    locks, which an interrupt could leave locked.

    Attributes:
      closed: whether workers are closed rather than kept.
    """

    def __init__(self) -> None:
        self.closed = False
        self._idle: list[tuple[Stage[Any], Workers]] = []
        self._process = HomeProcess()

    def keep(self, stage: Stage[Any], workers: Workers) -> None:
        """Keep ``workers``, which have nothing in work, for the next pass of ``stage``."""
        self._idle.append((stage, workers))
        if self.closed:
            workers.close()

    def send(self, stage: Stage[Any]) -> Workers | None:
        """Hand over workers kept for ``stage``, for a new pass; None if there are none."""
        if self.closed or not self._process.is_this_one():
            return None
        for number, (known, workers) in enumerate(self._idle):
            if known is stage:
                del self._idle[number]
                workers.begin_pass()
                return workers
        return None

    def close(self) -> None:
        """Close the workers kept here, and keep no more; may be called again."""
        self.closed = True
        close_all([workers for _, workers in list(self._idle)])


class SharesStaff(ABC):
    """An iterator that has workers, or that starts iterators which may have some."""

    @abstractmethod
    def share(self, staff: Staff) -> None:
        """Take workers from ``staff`` and leave them there; called before the first item."""


def share_staff(root: StageIterator[Any], staff: Staff) -> None:
    """Let ``root``, which was just started, and all that it reads take workers from ``staff``."""
    if isinstance(root, SharesStaff):
        root.share(staff)
    for upstream in root.inputs:
        share_staff(upstream, staff)
