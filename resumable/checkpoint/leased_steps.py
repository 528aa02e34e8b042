"""The steps of leases, for the loop of a checkpointer: items that are done or dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, final

from ..leases import Leases
from .loop import ResumedLoop

T = TypeVar("T")
R = TypeVar("R")


@final
class LeasedSteps(Generic[T]):
    """`Leases` in the place of an iterator. One thread at a time saves."""

    def __init__(self, leases: Leases[T]) -> None:
        self._leases = leases
        self._saving = threading.RLock()
        self.get_state = leases.get_state
        self.close = leases.close

    @property
    def step(self) -> int:
        """Number of items done or dropped, across resumes."""
        counts = self._leases.counts
        return counts.done + counts.dropped

    def lead(self, loop: ResumedLoop[Any]) -> Leases[T]:
        """The leases; the end of each lease is a step of ``loop``."""
        loop.begin()
        self._leases._after_end = partial(self._locked, loop.between_steps)
        self._leases._save = partial(self._locked, loop.save)
        return self._leases

    def _locked(self, call: Callable[[], R]) -> R:
        with self._saving:
            return call()
