"""Run each contestant in a process of its own, on request."""

# So the threads, allocators and memory of one library do not disturb another's. The epochs of all
# contestants are interleaved by messages to their processes.

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from benchmarks.delivered import Delivered, Tally
from benchmarks.digest import Digest, digest
from benchmarks.discovery import BARE, load
from benchmarks.environments import python_of
from benchmarks.epochs import seconds_of_an_epoch
from benchmarks.fresh import end_with_parent, started
from benchmarks.memory import private_bytes
from benchmarks.result import Options
from benchmarks.work import Prepare, Start, Unsupported, Work

__all__ = ["Contestant", "Crashed"]

MOST_SECONDS = 600.0
LONGEST_CHECK = 60.0


class Crashed(Exception):
    """A contestant failed; the message has its traceback."""


class Contestant:
    """The parent's side: each method is one message and its answer, which the journal keeps.

    The process is started for the first message that has no answer in the journal.

    Raises:
      Unsupported: from `configurations`, if it cannot do the work.
      Crashed: from any method.
    """

    def __init__(self, name: str, workload: str, options: Options) -> None:
        self.name = name
        self.memory = 0
        """The most private bytes that the process had after a timed epoch."""
        self._workload = workload
        self._options = options
        self._log = options.folder / f"{name}.log"
        self._started: tuple[subprocess.Popen[bytes], Connection[Any, Any]] | None = None

    def configurations(self, variant: str) -> list[str]:
        """Names of the configurations for this work, all prepared."""
        prepared: list[str] = self._ask("configurations", variant)
        return prepared

    def digest(self, variant: str, configuration: str) -> Digest:
        """The digest of one untimed epoch."""
        return Digest(*self._ask("digest", variant, configuration)[0])

    def tally(self, variant: str, configuration: str) -> Tally:
        """What was counted in the epoch of `digest`."""
        return Tally(*self._ask("digest", variant, configuration)[1])

    def seconds(self, variant: str, configuration: str, turn: int) -> float:
        """The seconds of an epoch with its start; see `seconds_of_an_epoch` for short and long ones."""
        expected = self.tally(variant, configuration).number
        seconds: float
        seconds, private = self._ask("seconds", variant, configuration, expected, of=(turn,))
        self.memory = max(self.memory, private)
        return seconds

    def _ask(self, *message: Any, of: tuple[int, ...] = ()) -> Any:
        kind, value = self._options.journal.once(
            self.name, *message, *of, measure=lambda: self._answer(message)
        )
        if kind == "unsupported":
            raise Unsupported(value)
        return value

    def _answer(self, message: tuple[Any, ...]) -> tuple[str, Any]:
        """The kind of the answer, and what it says; a crash is none, so the journal does not have it."""
        process, connection = self._process()
        try:
            connection.send(message)
            if not connection.poll(MOST_SECONDS):
                raise Crashed(f"{self.name} did not answer within {MOST_SECONDS:.0f} s")
            kind, value = connection.recv()
        except (EOFError, OSError):
            process.wait(5)
            end = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
            raise Crashed(
                f"the process of {self.name} ended with {process.returncode}\n{end}"
            ) from None
        if kind == "crashed":
            raise Crashed(value)
        return kind, value

    def _process(self) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
        if self._started is None:
            python = sys.executable if self.name == BARE else python_of(self.name)
            self._started = started("benchmarks.contestant", python, self._log)
            self._started[1].send((self.name, self._workload, self._options))
        return self._started

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._started is None:
            return
        process, connection = self._started
        connection.close()  # which ends the process
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _Served:
    """The child's side."""

    def __init__(self, name: str, workload: str, options: Options) -> None:
        self.name, self.options = name, options
        self.workload = importlib.import_module(workload)
        self.works: dict[str, Work] = self.workload.works(options)
        self.prepared: dict[tuple[str, str], Start] = {}

    def configurations(self, variant: str) -> list[str]:
        work = self.works[variant]
        found: dict[str, Prepare]
        if self.name == BARE:
            found = {"": lambda folder: lambda: self.workload.bare(work)}
        else:
            found = load("peers", self.name).configurations(work)
        for number, (configuration, prepare) in enumerate(found.items()):
            folder = self.options.folder / f"{self.name}-{variant.replace(' ', '-')}-{number}"
            folder.mkdir()
            self.prepared[variant, configuration] = prepare(folder)
        return list(found)

    def digest(self, variant: str, configuration: str) -> tuple[Digest, Tally]:
        work = self.works[variant]
        start = self.start_of(variant, configuration)
        delivered = Delivered(_in_time(start()), work.tokens)
        return digest(delivered, batched=work.batch is not None), delivered.tally

    def seconds(self, variant: str, configuration: str, expected: int) -> tuple[float, int]:
        start, work = self.start_of(variant, configuration), self.works[variant]
        seconds = seconds_of_an_epoch(start, work, expected, self.options.quick)
        return seconds, private_bytes()

    def start_of(self, variant: str, configuration: str) -> Start:
        """What begins an epoch; prepared now if an earlier life of the run was told the configurations."""
        if (variant, configuration) not in self.prepared:
            self.configurations(variant)
        return self.prepared[variant, configuration]


def _in_time(delivered: Iterable[Any]) -> Iterator[Any]:
    """The same items, for at most `LONGEST_CHECK` seconds.

    Raises:
      Unsupported: if there are more.
    """
    ends = time.monotonic() + LONGEST_CHECK
    for number, each in enumerate(delivered):
        if time.monotonic() > ends:
            raise Unsupported(
                f"{number:,} items or batches took {LONGEST_CHECK:g} s, too long to compare all"
            )
        yield each


def _serve(connection: Connection[Any, Any]) -> None:
    name, workload, options = connection.recv()
    served: _Served | None = None
    while True:
        try:
            verb, *arguments = connection.recv()
        except EOFError:  # the parent closed its end
            return
        try:
            served = served or _Served(name, workload, options)
            answer = ("done", getattr(served, verb)(*arguments))
        except Unsupported as reason:
            answer = ("unsupported", str(reason))
        except BaseException:
            answer = ("crashed", traceback.format_exc())
        connection.send(answer)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's end ends this process
    end_with_parent(int(sys.argv[2]))
    parent: Connection[Any, Any] = Connection(int(sys.argv[1]))
    with parent:
        _serve(parent)
