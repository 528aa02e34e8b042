"""Wait for what another thread or process does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import resumable

__all__ = ["Meeting", "wait_until", "waits_in"]

LIBRARY: Final = Path(resumable.__file__).parent

SECONDS: Final = 60
"""How long anything may take that a test waits for."""


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return as soon as ``condition`` holds; fail if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.005)


def waits_in(thread: threading.Thread, *functions: str) -> bool:
    """Whether ``thread`` is in one of these functions of the library, which do little but wait."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if Path(frame.f_code.co_filename).is_relative_to(LIBRARY):
            return frame.f_code.co_name in functions
        frame = frame.f_back
    return False


class Meeting:
    """Another thread begins to ``work`` while this one is in the midst of the same.

    It may stand in for the lock that is to keep the two apart.

    Args:
      work: what the other thread does.

    Attributes:
      met: whether the other thread has come to where this one was, with no lock in between.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self.met = False
        self._work = work
        self._lock = threading.RLock()
        self._came = threading.Event()
        self._other = threading.Thread(target=self._run)

    def within(self) -> None:
        """Say that the caller is in the midst of it.

        The first call returns when the other thread is there too, has come to the lock, or has done its work.
        """
        if threading.current_thread() is self._other:
            self.met = not self._came.is_set()
            self._came.set()
        elif self._other.ident is None:
            self._other.start()
            assert self._came.wait(SECONDS)

    def join(self) -> None:
        """Wait until the other thread has done its work."""
        self._other.join(SECONDS)
        assert not self._other.is_alive()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        if threading.current_thread() is self._other:
            self._came.set()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._came.set()
