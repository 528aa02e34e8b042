"""Read in a worker of torch as if torch had no workers."""

# A data set in torch's workers may divide its items among the workers: the data set gets the number
# of its worker from torch, when iterated or at any item. Here the data set of this package divides
# the items, so each worker must read all items, and a source must not notice the worker.

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils.data import get_worker_info
from torch.utils.data._utils import worker

import resumable as rs

__all__ = ["hide_worker", "hidden_worker"]


@contextmanager
def hidden_worker() -> Iterator[None]:
    """Context, or decorator, in which `torch.utils.data.get_worker_info` returns None.

    Raises:
      WorkerError: if this version of torch keeps the number of the worker elsewhere.
    """
    shown = worker._worker_info
    hide_worker()
    try:
        yield
    finally:
        worker._worker_info = shown


def hide_worker() -> None:
    """Let `torch.utils.data.get_worker_info` return None from now on, in every thread.

    Raises:
      WorkerError: if this version of torch keeps the number of the worker elsewhere.
    """
    worker._worker_info = None
    if get_worker_info() is not None:
        raise rs.WorkerError(
            "torch.utils.data.get_worker_info() cannot be made to return None in this version of "
            "torch, so a source might read a worker's part only; use num_workers=0"
        )
