"""Open the file of a table for pyarrow, on a disk or behind a URL; find damage by its errors."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, final

from ...errors import MalformedItem, ReadError
from ..data_files import AnyFile
from ..io.open_files import unreadable
from ..io.remote import RemoteFile
from ..io.remote_content import Span, is_checked_by_reads, read_spans

READ_AHEAD_BYTES: Final = 1 << 16
"""Bytes read at once from a remote file outside the announced ranges, as for headers."""

ByteRanges: TypeAlias = Sequence[tuple[int, int]]
"""Starts and ends of ranges of a file, in order."""


class TableFileAccess:
    """A file as found when the pipeline was built.

    Attributes:
      file: to read.
      path: absolute, or a URL.
      size: in bytes.
      is_remote: whether the file is behind a URL.
    """

    def __init__(self, file: AnyFile) -> None:
        self.file = file
        self.path, self.size = file.path, file.size
        self.is_remote = isinstance(file, RemoteFile)

    def check_unchanged(self) -> None:
        """Check that the file is unchanged.

        Raises:
          MalformedItem: if the file has changed.
          OSError: if the file does not exist.
        """
        self.file.check_unchanged()

    def check_decoded(self) -> None:
        """Like `check_unchanged`, for a local file: decoded rows may refer to its map.

        Reading a map beyond the end of a file cut short would kill the process.
        """
        if not self.is_remote:
            self.check_unchanged()

    def check_around_read(self) -> None:
        """Like `check_unchanged`, unless reads show changes. Call it before and after a read."""
        if not (isinstance(self.file, RemoteFile) and is_checked_by_reads(self.file)):
            self.check_unchanged()

    def open(self, ranges: ByteRanges = ()) -> Any:
        """The file for pyarrow, a context manager; ``ranges`` of a remote file are read at once."""
        if isinstance(self.file, RemoteFile):
            return RemoteBytes(self.file, ranges)
        import pyarrow as pa

        # `OSFile` reads by offset, so forked processes do not move each other's position.
        try:
            return pa.OSFile(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error


DAMAGED: Final = (
    OSError, ValueError, UnicodeDecodeError, KeyError, OverflowError, NotImplementedError,
)  # fmt: skip
"""Exact classes, besides the classes of pyarrow and our own: a signal handler may raise a derived class."""


@contextmanager
def malformed_if_damaged(access: TableFileAccess, where: str) -> Iterator[None]:
    """Turn errors about the content of a file into a `MalformedItem`.

    Args:
      access: to the file.
      where: in the file, such as "row group 3".

    Raises:
      MalformedItem: for damaged content; or, as the likely cause, if the file has changed.
      OSError: if the system, or the network, cannot read the file.
    """
    import pyarrow as pa

    try:
        yield
    except (MalformedItem, ReadError):
        raise
    except (pa.ArrowException, *DAMAGED) as error:
        if not is_damage(error):
            raise
        access.check_unchanged()
        raise MalformedItem(f"{access.path}, {where}: {error}") from error


def is_damage(error: Exception) -> bool:
    """Whether pyarrow raised ``error`` because of the content of a file, and no signal handler did."""
    if isinstance(error, OSError) and error.errno:  # errors of pyarrow's decoders have none
        return False
    return type(error) in DAMAGED or type(error).__module__.startswith(("pyarrow", "resumable"))


@final
class RemoteBytes(io.RawIOBase):
    """A remote file; ``ranges`` are read at once, and other bytes on demand.

    A small read of other bytes also fetches the following bytes.

    Raises:
      MalformedItem: if the file has changed; also while reading.
      ReadError: if the file cannot be read; also while reading.
    """

    def __init__(self, file: RemoteFile, ranges: ByteRanges = ()) -> None:
        super().__init__()
        self._file = file
        self._position = 0
        self._kept = b""
        self._kept_from = 0
        spans = [Span(file, start, end) for start, end in ranges]
        self._starts = [start for start, _ in ranges]
        self._ranges = read_spans(spans, checked=False, whole=True)
        self._left = [span.end - span.start for span in spans]  # bytes not handed out yet

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}
        self._position = max(origin[whence] + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, or all for a negative size; fewer only at the end."""
        start, last = self._position, self._file.size
        stop = last if size < 0 else min(start + size, last)
        if start >= stop:
            return b""
        place = bisect_right(self._starts, start) - 1
        if place >= 0 and stop - self._starts[place] <= len(self._ranges[place]):
            self._position = stop
            found = self._ranges[place][start - self._starts[place] : stop - self._starts[place]]
            self._left[place] -= len(found)
            if self._left[place] <= 0:
                self._ranges[place] = b""
            return found
        if not self._kept_from <= start <= stop <= self._kept_from + len(self._kept):
            end = min(max(stop, start + READ_AHEAD_BYTES), last)
            (data,) = read_spans([Span(self._file, start, end)], checked=False, whole=True)
            if end == stop:
                self._position = stop
                return data
            self._kept, self._kept_from = data, start
        self._position = stop
        return self._kept[start - self._kept_from : stop - self._kept_from]
