"""Let a training run in a fork of this process for some time, and kill it; and run a campaign of that."""

# TensorFlow is imported once, by the process that forks, which itself must not run any of its operations.
# The training says how far it is; it is killed some time after that.

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

__all__ = ["live_and_be_killed", "run_campaign"]


class Report(Protocol):
    """What a campaign found."""

    @property
    def clean(self) -> bool: ...


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


def run_campaign(
    campaign: Callable[[int, int, Path], Report], name: str, description: str | None
) -> int:
    """Run a campaign with the arguments of the command line, and print its report; 0 if it was clean.

    Args:
      campaign: is given how many kills, a seed, and the folder where to save.
      name: of the temporary folder.
      description: what ``--help`` says.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to save (default: a temporary folder)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix=f"resumable-{name}-"))
    started = time.perf_counter()
    report = campaign(options.kills, options.seed, folder)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{report}\n{time.perf_counter() - started:.0f} s")
    return 0 if report.clean else 1
