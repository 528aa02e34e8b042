"""What a run has measured so far, on the disk after each measurement, so that a killed run goes on."""

# A workload does the same in each life of a run, and asks its journal for each measurement by a key. What an
# earlier life has measured is returned at once. So a workload says nothing about how to go on, and needs no
# more than keys that are its own.

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from resumable.checkpoint.files import append_lines, read_regular_file

__all__ = ["Journal"]

T = TypeVar("T")

LEAST: Final = 3
"""Rounds that are run even when the time is over; quartiles need so many."""


class Journal:
    """The measurements of one workload.

    Args:
      path: of the file of lines; None: nothing is kept.
      seconds: that the workload may take, in all lives together; None: as long as it likes.
    """

    def __init__(self, path: Path | None = None, seconds: float | None = None) -> None:
        self._path = path
        self._seconds = seconds
        self._known: dict[str, Any] = {}
        self._before = 0.0
        self._began = time.monotonic()
        if path is not None and path.exists():
            for line in read_regular_file(path).splitlines():
                self._learn(line)

    def once(self, *key: object, measure: Callable[[], T]) -> T:
        """What ``measure`` returns, as JSON has it: measured now, or in an earlier life."""
        name = json.dumps([str(part) for part in key], ensure_ascii=False)
        if name not in self._known:
            measured = measure()
            line = {"key": name, "value": measured, "at": round(self.elapsed, 3)}
            data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if self._path is not None:
                append_lines(self._path, data)
            self._known[name] = json.loads(data)["value"]
        value: T = self._known[name]
        return value

    def turns(self, rounds: int, *key: object, until: float = 1.0) -> Iterator[int]:
        """The numbers of the rounds; fewer, but `LEAST`, if they would last too long.

        Args:
          rounds: how many there are at most.
          key: of what takes turns.
          until: the part of the time of the workload after which no further round begins.
        """
        for turn in range(rounds):
            if not self.once(*key, "turn", turn, measure=partial(self._goes_on, turn, until)):
                return
            yield turn

    def _goes_on(self, turn: int, until: float) -> bool:
        return turn < LEAST or self._seconds is None or self.elapsed < until * self._seconds

    @property
    def elapsed(self) -> float:
        """Seconds that the workload has taken, in all lives up to their last measurement."""
        return self._before + time.monotonic() - self._began

    def __reduce__(self) -> tuple[type[Journal], tuple[()]]:
        """Only the process of the workload keeps what was measured."""
        return Journal, ()

    def _learn(self, line: bytes) -> None:
        """Take in a line; the last one of a killed life may be cut short."""
        try:
            written = json.loads(line)
        except ValueError:
            return
        self._known[written["key"]] = written["value"]
        self._before = written["at"]
