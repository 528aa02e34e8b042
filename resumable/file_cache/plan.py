"""When the parts of a cache are needed next, by the orders of all processes that use the cache."""

# Each process writes its known future uses into a locked file. A process that must make room reads
# the files of all processes, and removes the parts that are needed last. The file of an ended
# process is not locked: it is ignored and removed.

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.block import Indices
from ..core.file_locks import close_locked, lock_shared, open_locked, unlock
from ..core.regular_files import STRICT
from .part_file import write_all

Codes: TypeAlias = npt.NDArray[np.uint64]

PLANS: Final = "plans"
MAGIC: Final = b"resumable plan 1"
ENDING: Final = ".plan"
FLAGS: Final = os.O_RDWR | STRICT
_DTYPE: Final = np.dtype("<u8")


class NextUses(NamedTuple):
    """When parts are needed next.

    Attributes:
      codes: of the parts, ascending, shape (n,), uint64.
      at: how many items come before, shape (n,), int64.
      contents: codes of all contents in use, needed soon or not, ascending, shape (m,), uint64.
    """

    codes: Codes
    at: Indices
    contents: Codes

    @classmethod
    def first_of(cls, codes: Codes, at: Indices, contents: Codes) -> NextUses:
        """The first uses, from columns of shape (n,) in any order and contents of shape (m,)."""
        order = np.lexsort((at, codes))
        first, places = np.unique(codes[order], return_index=True)
        return cls(first, at[order][places], np.unique(contents))

    @classmethod
    def joined(cls, all_uses: Iterable[NextUses]) -> NextUses:
        """The first uses by any of several processes."""
        uses = [NO_USES, *all_uses]
        return cls.first_of(*(np.concatenate(column) for column in zip(*uses, strict=True)))

    def of(self, codes: Codes) -> Indices:
        """When parts ``codes``, shape (n,), are needed next, of the same shape; -1 if unknown."""
        if not len(self.codes):
            return np.full(len(codes), -1, np.int64)
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        found: Indices = np.where(self.codes[places] == codes, self.at[places], -1)
        return found

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        counts = np.array([len(self.codes), len(self.contents)], _DTYPE)
        columns = (counts, self.codes, self.at.astype(_DTYPE), self.contents)
        return MAGIC + b"".join(column.astype(_DTYPE).tobytes() for column in columns)

    @classmethod
    def from_bytes(cls, data: bytes) -> NextUses | None:
        """The uses in bytes from `to_bytes`; None if ``data`` is something else or incomplete."""
        if not data.startswith(MAGIC) or (len(data) - len(MAGIC)) % 8:
            return None
        numbers = np.frombuffer(data, _DTYPE, offset=len(MAGIC)).astype(np.uint64)
        if len(numbers) < 2:
            return None
        uses, contents = map(int, numbers[:2])
        if len(numbers) != 2 + 2 * uses + contents:
            return None
        codes, at, rest = np.split(numbers[2:], [uses, 2 * uses])
        return cls(codes, at.astype(np.int64), rest)


NO_USES: Final = NextUses(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint64))


@final
class PlanFile:
    """The file with the future uses of this process; locked until the process ends."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, PLANS)
        self._path = ""
        self._descriptor: int | None = None
        self._process = os.getpid()

    def write(self, uses: NextUses) -> None:
        """Replace the content of the file by ``uses``.

        Raises:
          OSError: if the file cannot be written.
        """
        if self._process != os.getpid():  # a forked child has closed the parent's file
            self._process, self._descriptor = os.getpid(), None
        os.makedirs(self._folder, exist_ok=True)
        while self._descriptor is None:
            # Before the lock, another process may take the file for a dead process's.
            self._path = os.path.join(self._folder, f"{uuid.uuid4().hex}{ENDING}")
            self._descriptor = open_locked(self._path)
        data = uses.to_bytes()
        # A process that reads the file during the write finds an incomplete plan, and takes the
        # plan for empty.
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        write_all(self._descriptor, data)
        os.ftruncate(self._descriptor, len(data))

    @property
    def name(self) -> str:
        """The name of the file; empty before the first `write`."""
        return os.path.basename(self._path)

    def close(self) -> None:
        """Remove the file; may be called again."""
        if self._descriptor is not None and self._process == os.getpid():
            with suppress(OSError):
                os.unlink(self._path)
            close_locked(self._descriptor)
        self._descriptor, self._path = None, ""


def plans_of_others(folder: str, own: str) -> list[NextUses]:
    """The plans of the other living processes; files of dead processes are removed.

    Args:
      folder: of the cache.
      own: file name of this process's plan.
    """
    found: list[NextUses] = []
    with suppress(OSError), os.scandir(os.path.join(folder, PLANS)) as entries:
        for entry in entries:
            if entry.name != own and entry.name.endswith(ENDING):
                uses = _plan_at(entry.path)
                if uses is not None:
                    found.append(uses)
    return found


def _plan_at(path: str) -> NextUses | None:
    """The plan of a living process, empty during a write; None if the process has ended."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError:
        return None
    try:
        try:
            lock_shared(descriptor)
        except BlockingIOError:  # the process lives
            size = os.fstat(descriptor).st_size
            return NextUses.from_bytes(os.read(descriptor, size)) or NO_USES
        if os.read(descriptor, len(MAGIC)) in (MAGIC, b""):
            os.unlink(path)
        unlock(descriptor)
        return None
    except OSError:
        return None
    finally:
        os.close(descriptor)
