"""Workers that stay from one pass to the next."""

# To start processes may take longer than a short pass. Each pass has iterators of its own, so
# whoever begins the passes, a repeat, keeps a `Staff`: the maps of a pass leave their workers there
# when they are through, and those of the next pass find them. Workers are always in one place, at
# a map or in the staff, and end with either; nothing outlives the iterator of the repeat.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

from ..core.home_process import HomeProcess
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from .executors import Workers


@final
class Staff:
    """Workers without work, by the stage that they work for.

    A thread that reads ahead may leave workers here while another one closes it: so no locks.

    Attributes:
      closed: whether nobody is kept any more.
    """

    def __init__(self) -> None:
        self.closed = False
        self._idle: list[tuple[Stage[Any], Workers]] = []
        self._process = HomeProcess()

    def keep(self, stage: Stage[Any], workers: Workers) -> None:
        """Let ``workers``, who have nothing in work, wait for the next pass of ``stage``."""
        self._idle.append((stage, workers))
        if self.closed:
            workers.close()

    def send(self, stage: Stage[Any]) -> Workers | None:
        """Workers of ``stage`` for a new pass, if there are any; they are not here any more."""
        if self.closed or not self._process.is_this_one():
            return None
        for number, (known, workers) in enumerate(self._idle):
            if known is stage:
                del self._idle[number]
                workers.begin_pass()
                return workers
        return None

    def close(self) -> None:
        """End whoever is here, and keep nobody; may be called again."""
        self.closed = True
        for _, workers in list(self._idle):
            workers.close()


class SharesStaff(ABC):
    """An iterator that has workers, or begins passes of others that may have some."""

    @abstractmethod
    def share(self, staff: Staff) -> None:
        """Take workers from ``staff`` and leave them there; called before the first item."""


def share_staff(root: StageIterator[Any], staff: Staff) -> None:
    """Let whatever ``root`` reads, just started, take its workers from ``staff``."""
    if isinstance(root, SharesStaff):
        root.share(staff)
    for upstream in root.inputs:
        share_staff(upstream, staff)
