"""A progress bar on standard error: tqdm's where it is installed, else a plain one."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any, Final, Protocol

WIDTH = 40
TOLD_EVERY: Final = 30.0
"""Seconds between two lines on the progress where there is no terminal."""


class ProgressBar(Protocol):
    """A progress bar, as its callers use it; also a context manager."""

    def update(self, count: int) -> object:
        """Move by ``count``."""

    def set_description(self, text: str) -> object:
        """Say what is being done."""

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


class _ProgressLines:
    """Prints what is being done, and how far it is once that has taken long."""

    def __init__(self, total: int | None) -> None:
        self._of_total = "" if total is None else f" of {total:,}"
        self._done = 0
        self._text = ""
        self._due = monotonic() + TOLD_EVERY

    def update(self, count: int) -> None:
        self._done += count
        if monotonic() >= self._due:
            self._due = monotonic() + TOLD_EVERY
            self._print(f"{self._text}: {self._done:,}{self._of_total}")

    def set_description(self, text: str) -> None:
        self._text = text
        self._print(text)

    @staticmethod
    def _print(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def __enter__(self) -> _ProgressLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _PlainBar:
    """Redraws one line; at most once for each percent, if the total is known."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = 0
        self._shown = -1
        self._text = ""

    def update(self, count: int) -> None:
        self._done += count
        self._draw()

    def set_description(self, text: str) -> None:
        self._text = text
        self._shown = -1
        self._draw()

    def __enter__(self) -> _PlainBar:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.write("\n")

    def _draw(self) -> None:
        if self._total is None:
            sys.stderr.write(f"\r{self._text:<32} {self._done:,}")
            sys.stderr.flush()
            return
        percent = min(100 * self._done // max(self._total, 1), 100)
        if percent == self._shown:
            return
        self._shown = percent
        filled = WIDTH * percent // 100
        bar = "#" * filled + "." * (WIDTH - filled)
        sys.stderr.write(f"\r{self._text:<32} [{bar}] {percent:3d} %")
        sys.stderr.flush()
