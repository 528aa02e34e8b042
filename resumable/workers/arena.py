"""Memory in slots, shared by a process with its child processes."""

# The memory has no name in any file system, so nothing is left over, however a process ends. Pages
# never written take no memory.

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate
from multiprocessing import reduction
from typing import Any, Final, final

SHARES_MEMORY = hasattr(reduction, "DupFd")  # not on Windows
SLOT_BYTES: Final = 1 << 28


def new_arena(slots: int) -> Arena | None:
    """Shared memory of ``slots`` slots of `SLOT_BYTES`; None if unavailable or not enough."""
    if not SHARES_MEMORY or not slots:
        return None
    try:
        return Arena(slots, SLOT_BYTES)
    except OSError:
        return None


@final
class Arena:
    """``slots`` pieces of shared memory of ``size`` bytes each.

    An arena can be pickled only while a process is being started. The new process then writes to
    the slots given to it.
    """

    _descriptor = -1
    _memory: mmap.mmap | None = None

    def __init__(self, slots: int, size: int) -> None:
        self._size = size
        self._free = list(range(slots))
        self._descriptor = _anonymous_file()
        os.ftruncate(self._descriptor, slots * size)
        self._memory = mmap.mmap(self._descriptor, slots * size)

    def take(self) -> int | None:
        """A slot to write to; None if none is free."""
        try:
            return self._free.pop()  # the slot used last, with existing pages
        except IndexError:
            return None

    def give_back(self, slot: int) -> None:
        """Free ``slot``, no longer read or written by anybody."""
        self._free.append(slot)

    def write(self, slot: int, parts: Iterable[Any]) -> None:
        """Write the bytes-like ``parts`` into ``slot``, one after another."""
        # Not through the map: pages written there count as memory of this process, and look like a
        # leak.
        start = slot * self._size
        for part in parts:
            rest = memoryview(part).cast("B")
            while rest:
                written = os.pwrite(self._descriptor, rest, start)
                rest, start = rest[written:], start + written

    def read(self, slot: int, lengths: list[int]) -> list[memoryview]:
        """Views of the parts in ``slot``, valid until the slot is written again."""
        assert self._memory is not None
        view = memoryview(self._memory)[slot * self._size :]
        ends = list(accumulate(lengths))
        return [view[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def close(self) -> None:
        """Release the memory; may be called again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        if self._memory is not None:
            with suppress(BufferError):  # a view is still in use
                self._memory.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> tuple[int, Any]:
        return self._size, reduction.DupFd(self._descriptor)

    def __setstate__(self, state: tuple[int, Any]) -> None:
        self._size, duplicate = state
        self._descriptor = duplicate.detach()


def _anonymous_file() -> int:
    """A descriptor of a file without a name: in memory, or else a temporary file."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.memfd_create("resumable-map")
    descriptor, path = tempfile.mkstemp(prefix="resumable-map-")
    os.unlink(path)
    return descriptor
