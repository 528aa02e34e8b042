"""Wait for what another thread or process does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import resumable

__all__ = ["wait_until", "waits_in"]

LIBRARY: Final = Path(resumable.__file__).parent


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
