"""Seconds and processor time of an epoch of a contestant in processes of its own, with all that it starts."""

# An epoch that is stopped says little of workers: they have begun before the first batch comes, and go on after
# the last one that is asked for. So an epoch is whole, in a new process. What starting takes is known from
# an epoch over fewer items, and taken off. The processor time of workers is known once they have ended and were
# waited for. Those whose parent ended first become children of the process that measures (Linux).

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.discovery import BARE, load
from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options
from benchmarks.work import Start, Work

__all__ = ["Entry", "Spent", "whole_epoch"]

BECOME_PARENT_OF_ORPHANS: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


class Entry(NamedTuple):
    """A contestant in one of its configurations.

    Attributes:
      workload: name of the module that has the work.
      contestant: name of the module of a peer, or of the bare loop.
      configuration: one of those that it has for the work.
    """

    workload: str
    contestant: str
    configuration: str


class Spent(NamedTuple):
    """What an epoch took.

    Attributes:
      seconds: by the clock.
      processor: seconds of the processor, of all processes together.
    """

    seconds: float
    processor: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.seconds - other.seconds, self.processor - other.processor)


def whole_epoch(entry: Entry, variant: str, options: Options) -> Spent:
    """What a whole epoch takes, from the start of its process to the end of the last one."""
    # A peer that has an interpreter of its own makes no whole epochs: none can do these works.
    return in_fresh_process(_of_a_family, entry, variant, options)


def _of_a_family(entry: Entry, variant: str, options: Options) -> Spent:
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(BECOME_PARENT_OF_ORPHANS, 1, 0, 0, 0)
    before = _processor_time()
    began = time.perf_counter()
    command = [sys.executable, "-m", __name__, *entry, variant, str(options.folder)]
    subprocess.run([*command, str(int(options.quick))], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    with suppress(ChildProcessError):  # when all are waited for
        while True:
            os.wait()
    return Spent(seconds, _processor_time() - before)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_of(entry: Entry, work: Work, folder: Path) -> Start:
    """What begins an epoch of the contestant."""
    if entry.contestant == BARE:
        return lambda: importlib.import_module(entry.workload).bare(work)
    start: Start = load("peers", entry.contestant).configurations(work)[entry.configuration](folder)
    return start


def _main(workload: str, contestant: str, configuration: str, variant: str, *rest: str) -> None:
    folder, quick = Path(rest[0]), bool(int(rest[1]))
    work = importlib.import_module(workload).works(Options(folder, quick=quick))[variant]
    with tempfile.TemporaryDirectory(dir=folder) as own:
        start = start_of(Entry(workload, contestant, configuration), work, Path(own))
        assert sum(1 for _ in start()), "nothing was delivered"


if __name__ == "__main__":
    _main(*sys.argv[1:])
