"""A progress bar on standard error: tqdm's where it is installed, else a plain one."""

from __future__ import annotations

import sys
from typing import Any, Protocol

WIDTH = 40


class ProgressBar(Protocol):
    """A progress bar, as its callers use it; also a context manager."""

    def update(self, count: int) -> object:
        """Move by ``count``."""

    def set_description(self, text: str) -> object:
        """Say what is being done."""

    def __enter__(self) -> ProgressBar: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any, /) -> object: ...


def progress_bar(total: int | None, unit: str = "steps") -> ProgressBar:
    """A bar over ``total`` steps, or None if unknown; without a terminal only its texts."""
    if not sys.stderr.isatty():
        return _NoBar()
    try:
        from tqdm import tqdm
    except ImportError:
        return _PlainBar(total)
    bar: ProgressBar = tqdm(total=total, unit=f" {unit}", file=sys.stderr, dynamic_ncols=True)
    return bar


class _NoBar:
    """Prints what is being done, without the progress."""

    def update(self, count: int) -> None:
        """Do nothing."""

    def set_description(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def __enter__(self) -> _NoBar:
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
