"""A stand-in for the module ``os`` of which one call that reaches the system fails."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import pytest

from resumable.checkpoint import directory, files, locking
from resumable.core import regular_files

CALLS = frozenset(
    {"close", "fstat", "fsync", "ftruncate", "link", "listdir", "lseek", "lstat", "mkdir", "open"}
    | {"read", "rename", "rmdir", "stat", "unlink", "write"}
)
NAMING = frozenset({"link", "rename"})
# A close that fails has closed nevertheless: the number may already belong to another file.
DONE_THOUGH_FAILED = frozenset({"close"})
# More calls than any test has a use for.
ENDLESS = 1_000_000


@final
@dataclass(frozen=True)
class Fault:
    """Which call fails, and how.

    Attributes:
      at: number of the call, from 0.
      code: the errno that it reports.
      lasting: whether every later call fails too.
      late: whether it is done before it fails, as NFS may report of a link or a rename.
    """

    at: int
    code: int
    lasting: bool = False
    late: bool = False

    def hits(self, number: int) -> bool:
        return number == self.at or (self.lasting and number > self.at)


@final
class FaultyOs:
    """The module ``os``, except for one fault, for short reads and writes, and for missing links.

    Attributes:
      calls: names of the calls that were made.
      failed: names of those that were made to fail.
      done: names of those that did their work, some of which were then said to have failed.
    """

    def __init__(
        self, fault: Fault | None = None, longest: int | None = None, links: bool = True
    ) -> None:
        self.fault = fault
        self.longest = longest
        self.links = links
        self.calls: list[str] = []
        self.failed: list[str] = []
        self.done: list[str] = []
        self.path = _FaultyPath(self)

    @property
    def leaves_doubt(self) -> bool:
        """Whether it got its name and nothing could be rolled back afterwards."""
        return self.fault is not None and self.fault.lasting and bool(NAMING & {*self.done})

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name) if name in CALLS else getattr(os, name)

    def open_file(self, descriptor: int) -> io.RawIOBase:
        """What `io.FileIO` does with a descriptor, by calls that are counted."""
        return _Raw(self, descriptor)

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        assert len(self.calls) < ENDLESS, f"{name} is called for ever"
        fault = self.fault
        if fault is None or not fault.hits(len(self.calls)):
            self.calls.append(name)
            return self._real(name, *arguments, **options)
        late = fault.late and len(self.calls) == fault.at
        assert not late or name in NAMING
        self.calls.append(name)
        self.failed.append(name)
        if late or name in DONE_THOUGH_FAILED:
            self._real(name, *arguments, **options)
        raise OSError(fault.code, os.strerror(fault.code))

    def _real(self, name: str, *arguments: Any, **options: Any) -> Any:
        if name == "link" and not self.links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if self.longest is not None and name == "write":
            descriptor, data = arguments
            arguments = descriptor, data[: self.longest]
        if self.longest is not None and name == "read":
            descriptor, size = arguments
            arguments = descriptor, min(size, self.longest)
        result = getattr(os, name)(*arguments, **options)
        self.done.append(name)
        return result


@final
class _FaultyPath:
    """``os.path``, whose questions are calls too; it answers no if they fail."""

    def __init__(self, system: FaultyOs) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(os.path, name)

    def lexists(self, path: Any) -> bool:
        try:
            self._system.lstat(path)
        except OSError:
            return False
        return True

    def isdir(self, path: Any) -> bool:
        try:
            return stat.S_ISDIR(self._system.stat(path).st_mode)
        except OSError:
            return False


@final
class _Raw(io.RawIOBase):
    def __init__(self, system: FaultyOs, descriptor: int) -> None:
        self._system = system
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._system.close(self._descriptor)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return int(self._system.lseek(self._descriptor, offset, whence))

    def readinto(self, buffer: Any, /) -> int:
        data = self._system.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def faulty_os(
    fault: Fault | None = None, *, longest: int | None = None, links: bool = True
) -> Iterator[FaultyOs]:
    """Put a `FaultyOs` in the place of ``os`` where checkpoints are written and read.

    Args:
      fault: which call fails; none by default.
      longest: bytes that one read or write moves at most; no limit by default.
      links: whether the file system has them.
    """
    system = FaultyOs(fault, longest, links)
    with pytest.MonkeyPatch.context() as patch:
        for module in (directory, files, locking, regular_files):
            patch.setattr(module, "os", system)
        patch.setattr(regular_files, "FileIO", system.open_file)
        yield system


def faults(calls: list[str], code: int, *, lasting: bool) -> Iterator[Fault]:
    """Every fault of ``code`` that may befall ``calls``, and that can end."""
    for number, name in enumerate(calls):
        # An interrupted read is made again by the interpreter, for ever if need be.
        if code == errno.EINTR and "read" in (calls[number:] if lasting else [name]):
            continue
        yield Fault(number, code, lasting)
        if name in NAMING:
            yield Fault(number, code, lasting, late=True)


def open_descriptors() -> dict[str, str]:
    """What is open in this process: descriptors and what they refer to."""
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:  # the one that listed them
            continue
    return found
