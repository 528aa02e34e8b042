"""Circumstances made equal in two processes, so that a difference shows the cause."""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

MOMENT: Final = 1_600_000_000
"""The time that a stopped clock shows, in seconds since the epoch."""


@final
@dataclass(frozen=True)
class Conditions:
    """The circumstances of one process.

    Attributes:
      hash_seed: ``PYTHONHASHSEED`` of the process; decides the order of a set of strings.
      seeded: whether generators without a seed get the same seed.
      clock_stands: whether the time of day is always the same.
    """

    hash_seed: int = 0
    seeded: bool = False
    clock_stands: bool = False

    @property
    def are_natural(self) -> bool:
        """Whether the circumstances are the usual; any change may itself cause a failure."""
        return not (self.seeded or self.clock_stands)

    def __str__(self) -> str:
        parts = ["what is random without a seed was seeded"] * self.seeded
        parts += ["the time of day stood still"] * self.clock_stands
        parts += [f"PYTHONHASHSEED was {self.hash_seed}"]
        return " and ".join(parts)

    def bring_about(self) -> None:
        """Change this process for good; to be called before the user's modules are loaded."""
        if self.seeded:
            _seed_everything()
        if self.clock_stands:
            _stop_the_clock()


SAME: Final = Conditions()
"""The usual circumstances, and the same hash seed in each process."""


def _seed_everything() -> None:
    random.seed(0)
    np.random.seed(0)
    source = random.Random(0)

    class Seeded(random.Random):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(0 if seed is None else seed)

    # Replaces the system's randomness for SystemRandom, secrets, uuid, and NumPy's generators
    # without a seed.
    vars(random).update(Random=Seeded, _urandom=source.randbytes)
    vars(os)["urandom"] = source.randbytes
    vars(np.random.bit_generator)["randbits"] = source.getrandbits


def _stop_the_clock() -> None:
    if sys.implementation.name == "cpython":  # elsewhere `datetime` itself asks `time`
        date, moment = datetime.date, datetime.datetime
        _replace_methods(date, today=lambda cls: cls.fromtimestamp(MOMENT))
        _replace_methods(
            moment,
            today=lambda cls: cls.fromtimestamp(MOMENT),
            now=lambda cls, tz=None: cls.fromtimestamp(MOMENT, tz),
            utcnow=lambda cls: cls.fromtimestamp(MOMENT, datetime.timezone.utc).replace(
                tzinfo=None
            ),
        )
    for name in ("localtime", "gmtime", "ctime"):
        vars(time)[name] = _at_moment(vars(time)[name])
    show = time.strftime
    vars(time)["strftime"] = lambda form, *when: show(form, *(when or (time.localtime(),)))
    # Not the monotonic clock: a wait by a stopped clock would never end.
    for name in ("time", "perf_counter"):
        vars(time)[name] = lambda: float(MOMENT)
        vars(time)[f"{name}_ns"] = lambda: MOMENT * 10**9


def _replace_methods(kind: type, **methods: Callable[..., Any]) -> None:
    """Exchange class methods of a built-in type.

    The type itself is changed: a substitute class would crash extension modules (pandas, pyarrow)
    that rely on the memory layout of the type's objects.
    """
    (found,) = gc.get_referents(vars(kind))  # the dict behind the view
    found.update((name, classmethod(method)) for name, method in methods.items())
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _at_moment(convert: Callable[..., Any]) -> Callable[..., Any]:
    return lambda seconds=None: convert(MOMENT if seconds is None else seconds)
