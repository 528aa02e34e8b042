"""What the kill campaigns share: processes that are killed, what they tell until then, and the report.

A campaign starts a process (`start`, `start_telling`) and kills it at a random moment (`kill`, `live_and_be_killed`).
It reads what the process has told through a pipe, or logged (`Log`, `logged`), compares that with the
uninterrupted run, and starts the next one where the last was killed. `run_campaign` prints what was counted.
"""

# Each process is a fork of this one, so that a start costs milliseconds and what is large, such as
# TensorFlow, is imported once. This process itself must not run any operation of TensorFlow.

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import resumable as rs

KILLED: Final = -signal.SIGKILL
"""How a process ended that was killed, as `subprocess` says it."""


class CampaignReport(Protocol):
    """What a campaign found."""

    @property
    def clean(self) -> bool: ...


@dataclass
class Report:
    """What a campaign found that kills one training again and again."""

    kills: int = 0
    steps: int = 0
    """Up to which the trainings came."""
    unfinished: int = 0
    """Kills that fell into the write of a model."""
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether the training always went on with the model and the input of one step."""
        return not self.problems


class Log(rs.CheckpointListener):
    """Appends what happens to ``path``, each as one line by one write.

    Args:
      path: of a file that several processes share.
      writer: the process or rank that writes.
    """

    def __init__(self, path: Path, writer: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.writer = writer

    def after_save(self, step: int, path: str) -> None:
        self.write("saved", step)

    def write(self, event: str, step: int = 0, detail: int | str = 0) -> None:
        line = json.dumps([event, self.writer, step, detail]) + "\n"
        os.write(self._descriptor, line.encode())


def logged(path: Path) -> Iterator[Any]:
    """The events of a log, each with its writer, its step and its detail."""
    return map(json.loads, path.read_text().splitlines())


def start(work: Callable[[], object]) -> int:
    """The number of a fork that does ``work``; it ends with 0, and with 1 after an error."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def start_telling(work: Callable[[int], object]) -> tuple[int, BinaryIO]:
    """The number of a fork that does ``work``, and what it writes to the descriptor that ``work`` is given."""
    reading, writing = os.pipe()

    def tell() -> None:
        os.close(reading)
        work(writing)

    child = start(tell)
    os.close(writing)
    return child, open(reading, "rb", buffering=0)


def status_of(child: int) -> int | None:
    """How a process has ended; None if it runs."""
    ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def kill(child: int) -> int:
    """Kill a process; returns how it ended, which is not `KILLED` if it had ended by itself."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def live_and_be_killed(work: Callable[[int], object], seconds: float, marks: int = 0) -> bytes:
    """Do ``work`` in a process of its own, and kill that ``seconds`` after it has come to a place.

    Args:
      work: is given a descriptor to write to; it must not return.
      seconds: from the start, or from the last mark on.
      marks: how many bytes to wait for.

    Returns:
      what it wrote after these.
    """
    child, told = start_telling(work)
    with told:
        for _ in range(marks):
            assert told.read(1), "the process did not come so far"
        time.sleep(seconds)
        status = kill(child)
        assert status == KILLED, f"the process ended by itself: {status}"
        return told.read()


def fresh_folders(folder: Path, lives: int) -> Iterator[Path]:
    """For each life the folder where to save: another one after so many, and those before are removed."""
    place = folder
    for life in count():
        if life % lives == 0:
            shutil.rmtree(place, ignore_errors=True)
            place = folder / f"{life}"
        yield place


class Progress:
    """Says on the standard error how many kills there were, once for ``every`` of them."""

    def __init__(self, kills: int, every: int) -> None:
        self._kills, self._every = kills, every
        self._done = 0

    def add(self, kills: int = 1) -> None:
        before, self._done = self._done, self._done + kills
        if self._done // self._every > before // self._every:
            print(f"{self._done} of {self._kills} kills", file=sys.stderr)


def command_line(description: str | None, **most: float) -> argparse.ArgumentParser:
    """The arguments of every campaign, with what bounds it and by how much it does so by default."""
    parser = argparse.ArgumentParser(description=description)
    for name, default in most.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to save (default: a temporary folder)")
    return parser


def run_campaign(
    campaign: Callable[[Path], CampaignReport],
    name: str,
    folder: Path | None = None,
    printed: str = "{report}\n{seconds:.0f} s",
) -> int:
    """Run a campaign that saves in ``folder``, which is removed, and print its report; 0 if it was clean."""
    folder = folder or Path(tempfile.mkdtemp(prefix=f"resumable-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    report = campaign(folder)
    shutil.rmtree(folder, ignore_errors=True)
    print(printed.format(report=report, seconds=time.perf_counter() - started))
    return 0 if report.clean else 1


def run_kills(
    campaign: Callable[[int, int, Path], CampaignReport],
    name: str,
    description: str | None,
    kills: int = 200,
) -> int:
    """The same with a command line, for a campaign that is given how many kills, a seed and a folder."""
    options = command_line(description, kills=kills).parse_args()
    return run_campaign(partial(campaign, options.kills, options.seed), name, options.folder)
