"""A progress bar on standard error: tqdm's if installed, else a plain bar."""

from __future__ import annotations

import sys
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
        return _PlainProgress(total, on_terminal=False)
    try:
        from tqdm import tqdm
    except ImportError:
        return _PlainProgress(total, on_terminal=True)
    bar: ProgressBar = tqdm(total=total, unit=f" {unit}", file=sys.stderr, dynamic_ncols=True)
    return bar


class _PlainProgress:
    """Counts finished work; redraws a line of a terminal, or prints a line now and then.

    Args:
      total: amount of work; None if unknown.
      on_terminal: whether to redraw a line, at most once for each percent if the total is known.
    """

    def __init__(self, total: int | None, *, on_terminal: bool) -> None:
        self._total = total
        self._on_terminal = on_terminal
        self._done = 0
        self._text = ""
        self._percent = -1
        self._due = monotonic() + TOLD_EVERY

    def update(self, count: int) -> None:
        self._done += count
        self._show(anew=False)

    def set_description(self, text: str) -> None:
        self._text = text
        self._show(anew=True)

    def __enter__(self) -> _PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.write("\n" * self._on_terminal)

    def _show(self, *, anew: bool) -> None:
        """Show the progress; ``anew`` at the start of a new description."""
        sys.stderr.write(self._bar(anew) if self._on_terminal else self._line(anew))
        sys.stderr.flush()

    def _line(self, anew: bool) -> str:
        """A line for a log; empty until the next line is due."""
        if anew:
            return f"{self._text}\n"
        if monotonic() < self._due:
            return ""
        self._due = monotonic() + TOLD_EVERY
        of_total = "" if self._total is None else f" of {self._total:,}"
        return f"{self._text}: {self._done:,}{of_total}\n"

    def _bar(self, anew: bool) -> str:
        """The line of a terminal; empty if the percentage is still the same."""
        drawn = f"{self._done:,}"
        if self._total is not None:
            percent = min(100 * self._done // max(self._total, 1), 100)
            if percent == self._percent and not anew:
                return ""
            self._percent = percent
            drawn = f"[{'#' * (WIDTH * percent // 100):.<{WIDTH}}] {percent:3d} %"
        return f"\r{self._text:<32} {drawn}"
