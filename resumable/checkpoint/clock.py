"""A clock that never goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import final


@final
class SteadyClock:
    """Seconds of ``clock``, which continue from the same value when ``clock`` is set back.

    So setting a clock back by a day does not stop the saves for a day.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._offset = 0.0
        self._last = clock()

    def __call__(self) -> float:
        now = self._clock()
        if now < self._last:
            self._offset += self._last - now
        self._last = now
        return now + self._offset
