"""Keep workers from one epoch to the next."""

# Starting processes may take longer than a short epoch. Each epoch has iterators of its own, so the
# repeat, which begins the epochs, has `IdleWorkers`: the maps of an epoch put their workers there at
# its end, and the maps of the next epoch take them. Workers always belong to either a map or the idle
# ones, and are closed with it, so none outlive the iterator of the repeat.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, final

from ..core.home_process import HomeProcess
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from .worker_call import make_workers
from .workers import WorkerCall, Workers, close_all


class WorkerSource(ABC):
    """Where running iterators get workers, and where they leave them."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether workers that are put here are closed."""

    @abstractmethod
    def take(self, stage: Stage[Any], call: WorkerCall, window: int) -> Workers:
        """Workers that make ``call`` for ``stage``, up to ``window`` chunks at once."""

    @abstractmethod
    def put(self, stage: Stage[Any], workers: Workers) -> None:
        """Leave ``workers``, which have nothing in work, for the next epoch of ``stage``."""


@final
class IdleWorkers(WorkerSource):
    """Idle workers, by the stage that they work for; new ones where there are none.

    A thread that reads ahead may leave workers here while another thread closes it. There are no
    locks, which an interrupt could leave locked.
    """

    def __init__(self) -> None:
        self._closed = False
        self._idle: list[tuple[Stage[Any], Workers]] = []
        self._process = HomeProcess()

    @property
    def closed(self) -> bool:
        return self._closed

    def take(self, stage: Stage[Any], call: WorkerCall, window: int) -> Workers:
        if not self._closed and self._process.is_this_one():
            for number, (known, workers) in enumerate(self._idle):
                if known is stage:
                    del self._idle[number]
                    workers.begin_epoch()
                    return workers
        return make_workers(call, window)

    def put(self, stage: Stage[Any], workers: Workers) -> None:
        self._idle.append((stage, workers))
        if self._closed:
            workers.close()

    def close(self) -> None:
        """Close the workers kept here, and keep no more; may be called again."""
        self._closed = True
        close_all([workers for _, workers in list(self._idle)])


NEW_WORKERS: Final = IdleWorkers()
"""A source of new workers each time, where nothing keeps them between epochs."""
NEW_WORKERS.close()


class ReusesWorkers:
    """An iterator that has workers, or that starts iterators which may have some."""

    # Not an abstract class, of which `isinstance` takes five times as long: it is asked in every epoch.

    def use_workers_of(self, source: WorkerSource) -> WorkerSource:
        """Take workers from ``source`` and leave them there; called before the first item.

        Returns:
          where the iterators that this one reads take theirs.
        """
        raise NotImplementedError


def reuse_workers(root: StageIterator[Any], source: WorkerSource) -> None:
    """Let ``root``, which was just started, and all that it reads take workers from ``source``."""
    if isinstance(root, ReusesWorkers):
        source = root.use_workers_of(source)
    for upstream in root.inputs:
        reuse_workers(upstream, source)
