"""Memory that a process shares with those it starts, in slots."""

# It has no name in any file system, so nothing is left behind, however a process ends. What
# nobody has written takes no memory.

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable
from itertools import accumulate
from multiprocessing import reduction
from typing import Any, final

__all__ = ["SHARES_MEMORY", "Arena"]

SHARES_MEMORY = hasattr(reduction, "DupFd")  # not on Windows


@final
class Arena:
    """``slots`` pieces of shared memory of ``size`` bytes each.

    It can be pickled only for a process that is being started.
    """

    def __init__(self, slots: int, size: int) -> None:
        self._size = size
        self._descriptor = _anonymous_file()
        os.ftruncate(self._descriptor, slots * size)
        self._memory = mmap.mmap(self._descriptor, slots * size)

    def write(self, slot: int, parts: Iterable[Any]) -> None:
        """Put ``parts``, bytes-like, into ``slot``, one after the other."""
        start = slot * self._size
        for part in parts:
            stop = start + len(part)
            self._memory[start:stop] = part
            start = stop

    def read(self, slot: int, lengths: list[int]) -> list[memoryview]:
        """The parts in ``slot``, which lie there until it is written again."""
        view = memoryview(self._memory)[slot * self._size :]
        ends = list(accumulate(lengths))
        return [view[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def close(self) -> None:
        """Let go of the memory; may be called again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> tuple[int, int, Any]:
        return self._size, len(self._memory), reduction.DupFd(self._descriptor)

    def __setstate__(self, state: tuple[int, int, Any]) -> None:
        self._size, length, duplicate = state
        self._descriptor = duplicate.detach()
        self._memory = mmap.mmap(self._descriptor, length)


def _anonymous_file() -> int:
    """A descriptor of a file in memory that has no name, or else of a removed one."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("resumable-map")
    descriptor, path = tempfile.mkstemp(prefix="resumable-map-")
    os.unlink(path)
    return descriptor
