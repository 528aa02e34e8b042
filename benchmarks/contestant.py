"""Run each contestant in a process of its own, on request."""

# So the threads, allocators and memory of one library do not disturb another's. The epochs of all
# contestants are interleaved by messages to their processes.

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.delivered import Delivered, Tally
from benchmarks.digest import Digest, digest
from benchmarks.discovery import BARE, load
from benchmarks.epochs import seconds_of_an_epoch
from benchmarks.memory import private_bytes
from benchmarks.result import Options
from benchmarks.work import Prepare, Start, Unsupported, Work

__all__ = ["Contestant", "Crashed"]

MOST_SECONDS = 600.0
LONGEST_CHECK = 60.0


class Crashed(Exception):
    """A contestant failed; the message has its traceback."""


class Contestant:
    """The parent's side: each method is one message and its answer.

    Raises:
      Unsupported: from `configurations`, if it cannot do the work.
      Crashed: from any method.
    """

    def __init__(self, name: str, workload: str, options: Options) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._log = options.folder / f"{name}.log"
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._log, name, workload, options)
        )
        self._process.start()
        theirs.close()

    def configurations(self, variant: str) -> list[str]:
        """Names of the configurations for this work, all prepared."""
        prepared: list[str] = self._ask("configurations", variant)
        return prepared

    def digest(self, variant: str, configuration: str) -> Digest:
        """The digest of one untimed epoch."""
        result: Digest = self._ask("digest", variant, configuration)
        return result

    def tally(self, variant: str, configuration: str) -> Tally:
        """What was counted in the epoch of `digest`."""
        result: Tally = self._ask("tally", variant, configuration)
        return result

    def seconds(self, variant: str, configuration: str) -> float:
        """The seconds of an epoch with its start; see `seconds_of_an_epoch` for short and long ones."""
        result: float = self._ask("seconds", variant, configuration)
        return result

    def memory(self) -> int:
        """Private bytes of the process now."""
        result: int = self._ask("memory")
        return result

    def _ask(self, *message: Any) -> Any:
        try:
            self._connection.send(message)
            if not self._connection.poll(MOST_SECONDS):
                raise Crashed(f"{self.name} did not answer within {MOST_SECONDS:.0f} s")
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            end = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
            code = self._process.exitcode
            raise Crashed(f"the process of {self.name} ended with {code}\n{end}") from None
        if kind == "unsupported":
            raise Unsupported(value)
        if kind == "crashed":
            raise Crashed(value)
        return value

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()  # which ends the process
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _Served:
    """The child's side."""

    def __init__(self, name: str, workload: str, options: Options) -> None:
        self.name, self.options = name, options
        self.workload = importlib.import_module(workload)
        self.works: dict[str, Work] = self.workload.works(options)
        self.prepared: dict[tuple[str, str], Start] = {}
        self.tallies: dict[tuple[str, str], Tally] = {}

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

    def digest(self, variant: str, configuration: str) -> Digest:
        work = self.works[variant]
        delivered = Delivered(_in_time(self.prepared[variant, configuration]()), work.tokens)
        found = digest(delivered, batched=work.batch is not None)
        self.tallies[variant, configuration] = delivered.tally
        return found

    def tally(self, variant: str, configuration: str) -> Tally:
        return self.tallies[variant, configuration]

    def seconds(self, variant: str, configuration: str) -> float:
        key = variant, configuration
        expected = self.tallies[key].number
        return seconds_of_an_epoch(
            self.prepared[key], self.works[variant], expected, self.options.quick
        )

    def memory(self) -> int:
        return private_bytes()


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


def _serve(connection: Connection, log: Path, name: str, workload: str, options: Options) -> None:
    _write_output_to(log)
    multiprocessing.set_start_method(None, force=True)  # the default, not this process's own
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


def _write_output_to(log: Path) -> None:
    """Redirect the descriptors, since frameworks print from C++ too."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
