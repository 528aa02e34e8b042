"""Samplers whose epochs are begun by a loader."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from torch.utils.data import Sampler

import resumable as rs

from .cursor import Cursor, InPasses

__all__ = ["Driven", "Unordered"]


class Driven(InPasses):
    """A sampler that one loader at a time may take over."""

    _is_driven = False
    _driver: weakref.ref[Any] | None = None  # None in a copy too: its loader is a copy

    @property
    def driven(self) -> bool:
        """Whether a loader begins the epochs."""
        return self._is_driven and (self._driver is None or self._driver() is not None)

    def drive(self, loader: object) -> None:
        """Let ``loader`` begin the epochs as long as it exists.

        Raises:
          InvalidArgument: if another loader begins them already.
        """
        if self._driver is not None and self._driver() not in (None, loader):
            raise rs.InvalidArgument(
                f"a sampler serves one loader at a time, got {self!r} of another one"
            )
        self._is_driven, self._driver = True, weakref.ref(loader)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_driver": None}


class Unordered(Sampler[None]):
    """Replaces the sampler of a loader over a stream, so that frameworks can tell it the epoch.

    Lightning does. When it resumes at the end of an epoch, it does nothing else: it loads no state
    of a loader there.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[None]:
        return repeat(None)

    def set_epoch(self, epoch: int) -> None:
        """Let the first pass be that of ``epoch``, unless it has begun or was resumed."""
        progress = self._cursor.progress
        if not (progress.begun or progress.resumed):
            self._cursor.set_epoch(epoch)
