"""Samplers that let a loader begin their passes."""

from __future__ import annotations

import weakref
from typing import Any

import resumable as rs

from .cursor import InPasses

__all__ = ["Driven"]


class Driven(InPasses):
    """A sampler that one loader at a time may take over."""

    _is_driven = False
    _driver: weakref.ref[Any] | None = None  # None also in a copy, whose driver was copied too

    @property
    def driven(self) -> bool:
        """Whether a loader begins the passes."""
        return self._is_driven and (self._driver is None or self._driver() is not None)

    def drive(self, loader: object) -> None:
        """Let ``loader`` begin the passes as long as it exists.

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
