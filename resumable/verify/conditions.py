"""What a process is made to have in common with another, so that a difference shows its cause."""

from __future__ import annotations

import datetime
import os
import random
import time
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

__all__ = ["Conditions"]

MOMENT: Final = 1_600_000_000
"""Seconds since the epoch at which a clock stands that stands."""


@final
@dataclass(frozen=True)
class Conditions:
    """The circumstances of one process.

    Attributes:
      hash_seed: its ``PYTHONHASHSEED``; the order of a set of strings follows it.
      seeded: whether what is random without a seed begins with the same one.
      clock_stands: whether the time of day is always the same.
    """

    hash_seed: int = 0
    seeded: bool = False
    clock_stands: bool = False

    def bring_about(self) -> None:
        """Change this process for good; to be called before the user's modules are loaded."""
        if self.seeded:
            _seed_everything()
        if self.clock_stands:
            _stop_the_clock()


def _seed_everything() -> None:
    random.seed(0)
    np.random.seed(0)
    unseeded, generator = random.Random, np.random.default_rng

    class Seeded(unseeded):  # type: ignore[misc, valid-type]
        def __init__(self, seed: Any = 0) -> None:
            super().__init__(seed)

    vars(random)["Random"] = Seeded
    vars(np.random)["default_rng"] = lambda seed=None: generator(0 if seed is None else seed)
    source = unseeded(0)
    vars(os)["urandom"] = source.randbytes


def _stop_the_clock() -> None:
    class Date(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(MOMENT)

    class DateTime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(MOMENT, tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(MOMENT, datetime.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(MOMENT)

    vars(datetime).update(date=Date, datetime=DateTime)
    # Not the monotonic clock: who waits by it would wait for ever.
    for name in ("time", "perf_counter"):
        vars(time)[name] = lambda: float(MOMENT)
        vars(time)[f"{name}_ns"] = lambda: MOMENT * 10**9
