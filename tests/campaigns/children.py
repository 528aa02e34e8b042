"""Try cases in child processes, so that one that crashes, hangs or takes all memory is known by its number."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from resumable.workers.fork_server import fork

__all__ = ["Tried", "tried_in_children"]

PORTION: Final = 1000
"""Cases of one child."""
SECONDS: Final = 10
"""Of the processor, after which a case ends by a signal."""
MEMORY: Final = 1 << 31
"""Bytes of address space that a child may have beyond what it begins with; more is a `MemoryError`."""


class Tried(NamedTuple):
    """What came of a case.

    Attributes:
      result: what it returned; None if it ended its process.
      seconds: of the processor.
      status: of the process that it ended, as of `subprocess`; 0 if it ended none.
    """

    result: Any
    seconds: float
    status: int


def tried_in_children(case: Callable[[int], Any], count: int) -> Iterator[Tried]:
    """What comes of ``case(number)`` for each number below ``count``, in order.

    Args:
      case: to be tried; what it returns must be JSON.
      count: of the cases.
    """
    begin = 0
    while begin < count:
        reading, writing = os.pipe()
        child = fork()
        if not child:
            _try(case, range(begin, min(begin + PORTION, count)), writing)
        os.close(writing)
        try:
            with os.fdopen(reading) as lines:
                for line in lines:
                    begin += 1
                    result, seconds = json.loads(line)
                    yield Tried(result, seconds, 0)
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            begin += 1
            yield Tried(None, float("nan"), status)


def _try(case: Callable[[int], Any], numbers: range, writing: int) -> None:
    """Write a line for each case, and end the process."""
    status = 1
    try:
        _bound_memory()
        for number in numbers:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # which ends the process
            began = time.process_time()
            result = case(number)
            line = json.dumps([result, time.process_time() - began])
            os.write(writing, f"{line}\n".encode())
        status = 0
    finally:
        os._exit(status)


def _bound_memory() -> None:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
