"""Let a training run in a fork of this process for some time, and kill it."""

# TensorFlow is imported once, by the process that forks, which itself must not run any of its operations.
# The training says how far it is; it is killed some time after that.

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

__all__ = ["live_and_be_killed"]


def live_and_be_killed(train: Callable[[int], object], seconds: float, marks: int = 1) -> None:
    """Run ``train`` in a process of its own, and kill that ``seconds`` after it has come to a place.

    Args:
      train: is given a descriptor, to which it writes a byte at each such place; it must not return.
      seconds: from then on.
      marks: how many bytes to wait for.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            train(writing)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert len(pipe.read(marks)) == marks, "the training did not come so far"
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"it ended by itself: {os.waitstatus_to_exitcode(status)}"
