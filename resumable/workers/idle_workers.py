"""Keep workers from one epoch to the next."""

# Starting processes may take longer than a short epoch. Each epoch has separate iterators, so the
# repeat, which begins the epochs, has `IdleWorkers`: at the end of an epoch, maps put their workers
# there, and the maps of the next epoch take the workers. Workers always belong to either a map or
# the `IdleWorkers`, and are closed with their owner, so no worker outlives the iterator of the
# repeat.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, final

from ..core.home_process import HomeProcess
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from .worker_call import make_workers
from .workers import WorkerCall, Workers, close_all


class WorkerSource(ABC):
    """A place from which running iterators take workers, and where they leave workers."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether workers put here are closed."""

    @abstractmethod
    def take(self, stage: Stage[Any], call: WorkerCall, window: int) -> Workers:
        """Workers for ``call`` of ``stage``, with up to ``window`` chunks at once."""

    @abstractmethod
    def put(self, stage: Stage[Any], workers: Workers) -> None:
        """Leave ``workers``, with nothing in work, for the next epoch of ``stage``."""


@final
class IdleWorkers(WorkerSource):
    """Idle workers, by their stage; new workers if none are idle.

    A thread that reads ahead may leave workers here while another thread closes this object. No
    locks are used, since an interrupt could leave a lock locked.
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
"""A source of new workers each time, if nothing keeps workers between epochs."""
NEW_WORKERS.close()


def reuse_workers(root: StageIterator[Any], source: WorkerSource) -> None:
    """Let ``root``, just started, and all its upstreams take workers from ``source``."""
    source = root._use_workers_of(source)
    for upstream in root.inputs:
        reuse_workers(upstream, source)
