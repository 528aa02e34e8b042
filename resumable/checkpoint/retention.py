"""Decide which checkpoints to keep, and remove the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from ..core.arguments import check_field, check_hours, check_int
from ..errors import CorruptCheckpoint, NewerFormat
from ..errors.foreign_words import with_our_words
from .ranks.part import WHOLE, RankPart
from .ranks.parts import WholeSteps
from .reading import read_checkpoint
from .store import Store

SECONDS_PER_HOUR: Final = 3600.0

Retain: TypeAlias = "Callable[[int, float], str | None]"
"""Called with step and time once a checkpoint is stored; returns an error message, or None."""


@final
@with_our_words
@dataclass(frozen=True)
class Retention:
    """Keep the newest checkpoints, and some older checkpoints at intervals.

    A checkpoint is removed when no rule keeps it. The newest valid checkpoint is always kept.
    Damaged checkpoints and files with other names are neither counted nor removed.

    Args:
      latest: how many of the newest checkpoints to keep, at least 1.
      every_steps: also keep the first checkpoint at or after each multiple of this number of steps.
      every_hours: also keep the first checkpoint in each span of this many hours of the system's
        clock.

    Raises:
      InvalidArgument: if a number is too small.
      InvalidType: if an argument has the wrong type.

    >>> rs.Retention(latest=3, every_steps=1000)
    Retention(latest=3, every_steps=1000, every_hours=None)
    """

    latest: int = 5
    every_steps: int | None = None
    every_hours: float | None = None

    def __post_init__(self) -> None:
        check_field(self, "latest", check_int, minimum=1)
        check_field(self, "every_steps", check_int, optional=True, minimum=1)
        check_field(self, "every_hours", check_hours, optional=True)

    def expired(self, saved: Mapping[int, float]) -> list[int]:
        """The steps to remove, ascending; a pure function.

        Args:
          saved: step and time of each valid checkpoint, in seconds since 1 January 1970.
        """
        steps = sorted(saved)
        kept = set(steps[-self.latest :])
        if self.every_steps is not None:
            kept |= _first_of_each({step: step // self.every_steps for step in steps}, after=0)
        if self.every_hours is not None:
            seconds = self.every_hours * SECONDS_PER_HOUR
            kept |= _first_of_each({step: saved[step] // seconds for step in steps})
        return [step for step in steps if step not in kept]


def _first_of_each(spans: Mapping[int, float], after: float = -math.inf) -> set[int]:
    """The first step of each span above ``after``, also if later steps of the span were removed."""
    firsts: dict[float, int] = {}
    for step, span in spans.items():
        if span > after:
            firsts.setdefault(span, step)
    return set(firsts.values())


@final
class Retainer:
    """Applies a retention to a store after each save.

    The checkpoints in the store are read once; damaged checkpoints are neither counted nor removed.
    Later, only this loop saves and removes.
    """

    def __init__(self, retention: Retention, store: Store) -> None:
        self._retention = retention
        self._store = store
        # The time of each valid checkpoint, by step.
        self._times: dict[int, float] = {}
        # Listed but unread steps; None before the store was listed.
        self._unread: set[int] | None = None

    def apply(self, step: int, time: float) -> str | None:
        """Remove expired checkpoints after the save of ``step``; returns a message of failures.

        A failure here leaves the save valid. The removal is retried after the next save.
        """
        self._times[step] = time
        complaints = [self._list(step), *map(self._read, sorted(self._unread or ()))]
        complaints += map(self._remove, self._retention.expired(self._times))
        found = "; ".join(complaint for complaint in complaints if complaint)
        return f"in {self._store!r}, {found}" if found else None

    def _list(self, saved: int) -> str | None:
        """List the checkpoints from before ``saved``; returns a message of failure."""
        if self._unread is None:
            try:
                self._unread = {step for step in self._store.steps() if step != saved}
            except Exception as error:
                return f"the checkpoints could not be listed: {error}"
        return None

    def _read(self, step: int) -> str | None:
        """Read the time of an earlier checkpoint; returns a message of failure."""
        assert self._unread is not None
        try:
            self._times[step] = read_checkpoint(self._store, step).time
        except FileNotFoundError:
            pass
        except (CorruptCheckpoint, NewerFormat):
            return None
        except Exception as error:
            return f"the checkpoint of step {step} could not be read: {error}"
        self._unread.discard(step)
        return None

    def _remove(self, step: int) -> str | None:
        """Remove a checkpoint; returns a message of failure."""
        try:
            with suppress(FileNotFoundError):
                self._store.remove(step)
        except Exception as error:
            return f"the checkpoint of step {step} could not be removed: {error}"
        del self._times[step]
        return None


@final
class SharedRetainer:
    """Applies a retention after each save of this rank, if several ranks save parts.

    Rank 0 decides. It reads all parts of the checkpoints from before its own saves, each once.
    """

    def __init__(self, retention: Retention, steps: WholeSteps, part: RankPart) -> None:
        self._retention = retention
        self._steps = steps
        self._decides = part.rank == 0
        # The time of each saved or read checkpoint, by step; None for a damaged checkpoint.
        self._times: dict[int, float | None] = {}

    def apply(self, step: int, time: float) -> str | None:
        """Remove this rank's share of expired checkpoints; returns a message of failure.

        A failure here leaves the save valid. The removal is retried after the next save.
        """
        try:
            if self._decides:
                self._times[step] = time
                for expired in self._retention.expired(self._saved()):
                    self._steps.remove(expired)
            self._steps.remove_rest(listed=self._decides)
        except Exception as error:
            return f"in {self._steps!r}, older checkpoints could not be removed: {error}"
        return None

    def _saved(self) -> dict[int, float]:
        """Step and time of each valid, settled checkpoint."""
        settled = self._steps.find_settled_steps()
        known = self._times
        times = {step: known[step] if step in known else self._read(step) for step in settled}
        later = {step: time for step, time in known.items() if step > max(settled, default=-1)}
        self._times = {**times, **later}
        return {step: time for step, time in times.items() if time is not None}

    def _read(self, step: int) -> float | None:
        try:
            return self._steps.saved_at(step)
        except (CorruptCheckpoint, NewerFormat, FileNotFoundError):
            return None


def retainer(retention: Retention | None, steps: WholeSteps, part: RankPart) -> Retain | None:
    """A callback to apply ``retention`` after each save of ``part``; None without a retention."""
    if retention is None:
        return None
    if part == WHOLE:
        return Retainer(retention, steps).apply
    return SharedRetainer(retention, steps, part).apply
