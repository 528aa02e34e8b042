"""Fork a process that runs no other Python thread."""

# Libraries may have threads in it: NumPy's OpenBLAS starts some when it is imported. They wait for
# work, and OpenBLAS starts them anew in a forked child, so Python's warning about threads does not
# apply.

from __future__ import annotations

import os
import sys
import warnings


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
