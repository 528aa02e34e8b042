"""A progress bar on standard error: tqdm's if installed, else a plain bar."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from time import monotonic
from typing import Any, Final, Protocol

WIDTH = 40
TOLD_EVERY: Final = 30.0
"""Seconds between two lines on the progress without a terminal."""


class ProgressBar(Protocol):
    """Interface of a progress bar; also a context manager."""

    def update(self, count: int) -> object:
        """Move by ``count``."""

    def set_description(self, text: str) -> object:
        """Name the current work."""

    def __enter__(self) -> ProgressBar: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> object: ...


def progress_bar(total: int | None, unit: str = "steps") -> ProgressBar:
    """A bar over ``total`` steps, or None if unknown; without a terminal a line now and then."""
    if not sys.stderr.isatty():
        return _ProgressLines(total)
    try:
        from tqdm import tqdm
    except ImportError:
        return _PlainBar(total)
    bar: ProgressBar = tqdm(total=total, unit=f" {unit}", file=sys.stderr, dynamic_ncols=True)
    return bar


class _PlainProgress(ABC):
    """Counts finished work, and shows the count as text.

    Args:
      total: amount of work; None if unknown.
    """

    ending = ""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.done = 0
        self.text = ""

    @abstractmethod
    def show(self, *, anew: bool) -> None:
        """Show the progress; ``anew`` at the start of a new description."""

    def update(self, count: int) -> None:
        self.done += count
        self.show(anew=False)

    def set_description(self, text: str) -> None:
        self.text = text
        self.show(anew=True)

    def __enter__(self) -> _PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.write(self.ending)


class _ProgressLines(_PlainProgress):
    """Prints the current work, and the progress of long work."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self._due = monotonic() + TOLD_EVERY

    def show(self, *, anew: bool) -> None:
        line = self.text
        if not anew:
            if monotonic() < self._due:
                return
            self._due = monotonic() + TOLD_EVERY
            of_total = "" if self.total is None else f" of {self.total:,}"
            line = f"{self.text}: {self.done:,}{of_total}"
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class _PlainBar(_PlainProgress):
    """Redraws a line; at most once for each percent, if the total is known."""

    ending = "\n"
    _shown = -1

    def show(self, *, anew: bool) -> None:
        drawn = f"{self.done:,}"
        if self.total is not None:
            percent = min(100 * self.done // max(self.total, 1), 100)
            if percent == self._shown and not anew:
                return
            self._shown = percent
            bar = "#" * (WIDTH * percent // 100)
            drawn = f"[{bar:.<{WIDTH}}] {percent:3d} %"
        sys.stderr.write(f"\r{self.text:<32} {drawn}")
        sys.stderr.flush()
