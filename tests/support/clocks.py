"""A clock for what takes one as an argument."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Clock"]


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
