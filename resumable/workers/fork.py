"""Fork a process that runs no other Python thread, and tell who asked for it how it ends."""

# Libraries may have threads in it: NumPy's OpenBLAS starts some when it is imported. They wait for
# work, and OpenBLAS starts them anew in a forked child, so Python's warning about threads does not
# apply.

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress


def fork() -> int:
    """`os.fork` without the warning about threads, and with new random numbers in the child.

    Raises:
      OSError: if no more processes are possible.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
    if not child and "numpy.random" in sys.modules:  # `random` seeds itself anew after a fork
        sys.modules["numpy.random"].seed()
    return child


def send_number(pipe: int, number: int) -> None:
    """Send a process id or an exit status, if somebody is left to read it."""
    with suppress(BrokenPipeError):
        os.write(pipe, number.to_bytes(8, "little", signed=True))


def next_number(pipe: int) -> int | None:
    """Wait for what `send_number` sends; None if nobody is left to send it."""
    found = os.read(pipe, 8)
    return int.from_bytes(found, "little", signed=True) if found else None
