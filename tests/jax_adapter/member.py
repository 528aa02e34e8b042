"""What each of several processes does at its beginning and its end; the other side of `processes`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import jax


def take_part(work: Callable[..., object]) -> None:
    """Join the processes that the command line names, and do ``work`` with its other arguments.

    After an error this process ends at once. Otherwise it would wait for the others, which wait for it.
    """
    number, processes, port, *arguments = sys.argv[1:]
    if int(processes) > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", int(processes), int(number))
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
