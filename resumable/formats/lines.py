"""Read lines of text files, by index."""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

from ..core.arguments import check_bool
from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.identity import ALWAYS, IdentityFields
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .indexed_record_files import IndexedRecordFiles
from .line_file import LineFile, stripped
from .line_scan import scan_lines
from .record import Format, LocatedRecord
from .record_file import AnyRecords
from .record_files import RecordFiles

LINES: Final = Format("lines", "line", scan_lines, stripped, first=1)

WITHOUT_STATE: Final = frozenset({"utf-8", "ascii", "iso8859-1"})
"""Codecs, by Python's names, that never look beyond a newline."""

LONG: Final = 1 << 6
"""Mean bytes of a line above which decoding each line alone takes less time than joining lines."""


def check_encoding(encoding: Any, errors: Any) -> None:
    """Check the arguments for decoding lines.

    Raises:
      InvalidArgument: if Python does not know ``encoding`` or ``errors``, or ``encoding`` does not
        keep newlines.
      InvalidType: if ``encoding`` is neither a string nor None.
    """
    try:
        codecs.lookup_error(errors)
    except (LookupError, TypeError):
        message = f"errors must be a handler known to Python, got {shorten(errors)}"
        raise InvalidArgument(message) from None
    if encoding is not None:
        if not isinstance(encoding, str):
            raise InvalidType(f"encoding must be a string or None, got {shorten(encoding)}")
        try:
            newline = "\n".encode(encoding)
        except LookupError:
            raise InvalidArgument(f"encoding must be known to Python, got {encoding!r}") from None
        if not newline.endswith(b"\n") or newline[:-1].strip(b"\xef\xbb\xbf"):
            raise InvalidArgument(f"encoding must keep a newline as one byte, got {encoding!r}")


def decode_line(record: LocatedRecord, encoding: str | None, errors: str) -> str | bytes:
    """The text of a line, or the bytes without an ``encoding``.

    Raises:
      MalformedItem: with file, line and byte, if the line cannot be decoded.
    """
    data = record.data
    if encoding is None:
        return data
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise MalformedItem(
            f"{record.path}, line {record.number}, byte {error.start + 1}: cannot decode as "
            f"{encoding}: {error.reason}"
        ) from None


@dataclass(frozen=True, eq=False, repr=False)
class _LineFiles(IndexedRecordFiles):
    """The base of the sources of lines."""

    reads_as = LineFile

    _: KW_ONLY
    format: Format = field(default=LINES, init=False)
    skip_blank: bool = False

    def __post_init__(self) -> None:
        check_bool("skip_blank", self.skip_blank)
        super().__post_init__()

    @computed_once
    def _passes_over(self) -> bool:
        return self.skip_blank

    def _trimmed(self, found: list[bytes]) -> list[bytes]:
        return list(map(stripped, found))


@dataclass(frozen=True, eq=False, repr=False)
class Lines(_LineFiles):
    r"""The lines of text files, in the order of the files.

    A line ends with ``\n`` or ``\r\n``, which is not part of the item; the last line may end
    with the file. Files are mapped into memory, never read as a whole.

    State: O(1), the position. Random access, by an index of line ends (8 bytes a line). A resume
    reads nothing.

    Indexes are kept in cache files. At least 16 files of up to 4 MiB each in one folder, with at
    least 64 KiB together, share a cache. Any other file of 64 KiB and more has a separate cache.
    Opening reads the list in the cache of a folder, or the header of a separate cache. Files
    without a cache are read as a whole. A page of an index is checked before the first use.

    An index is built again when the size or the modification time of the file has changed, or when
    its cache turns out to be damaged, even mid-epoch. A cache of another user, except the owner of
    the file, is not trusted. If no cache can be written, the index stays in memory.

    Memory and maps are bounded for any number of files. Files of up to 64 KiB are kept in at most
    64 MiB of memory, their indexes in 128 MiB, and short caches in another 128 MiB. Larger files
    and caches are mapped, without an open descriptor: files take up to a quarter of the maps
    allowed by the system, and indexes as many, or 64 each if the address space is limited. A file
    is checked for changes once a block. Lines read in order are read at most 512, and 64 KiB, at
    once.

    Args:
      paths: a path, a URL, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern are sorted.
      encoding: of the lines, which must keep ``\n`` as one byte; None gives bytes.
      errors: how to treat undecodable bytes, as in `bytes.decode`.
      skip_blank: leave out lines without any character.
      index_dir: folder of the cache files; next to the data by default. A remote file has an index
        only if the folder is given; the index is built by reading the file once.

    Raises:
      InvalidArgument: if no file matches, a file is not regular or is compressed, Python does not
        know ``encoding`` or ``errors``, or ``encoding`` does not keep newlines.
      OSError: if a file cannot be read.
      MalformedItem: while iterating, if a line cannot be decoded, or a file has changed since the
        pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.txt")
    ...     with open(path, "w") as file:
    ...         print("first", "second", sep=os.linesep, file=file)
    ...     list(rs.lines(path))
    ['first', 'second']
    """

    identity: ClassVar[IdentityFields] = {
        **RecordFiles.identity,
        "encoding": ALWAYS,
        "skip_blank": ALWAYS,
    }

    encoding: str | None = "utf-8"
    errors: str = "strict"

    def __post_init__(self) -> None:
        check_encoding(self.encoding, self.errors)
        super().__post_init__()

    def _item(self, data: bytes, file: AnyRecords, number: int) -> str | bytes:
        return decode_line(LocatedRecord(data, file.path, number + 1), self.encoding, self.errors)

    def _gather_range(self, start: int, stop: int) -> Block:
        place = bisect.bisect_right(self._stops, start)
        file, begin = self._files[place], self._stops[place - 1] if place else 0
        blanks = self.skip_blank and file.positions.passed_over
        if self.encoding and stop <= self._stops[place] and self._decodes_together and not blanks:
            assert isinstance(file, LineFile)
            with suppress(UnicodeDecodeError):  # decoded again below, for the number of the line
                found = file.read_text(range(start - begin, stop - begin), self.encoding)
                if found is not None:
                    return found
        return super()._gather_range(start, stop)

    @computed_once
    def _decodes_together(self) -> bool:
        """Whether lines joined by newlines decode to the same text as each line alone."""
        assert self.encoding is not None
        return self.errors == "strict" and codecs.lookup(self.encoding).name in WITHOUT_STATE

    def _items(self, found: list[bytes], files: Iterable[int], numbers: Indices) -> list[Any]:
        encoding, errors = self.encoding, self.errors
        if encoding is None:
            return found
        try:
            if self._decodes_together and sum(map(len, found)) < LONG * len(found):
                items = b"\n".join(found).decode(encoding).split("\n")
                if len(items) == len(found):
                    return items
            return [data.decode(encoding, errors) for data in found]
        except UnicodeDecodeError:  # decoded line by line for an error with the number of the line
            opened = map(self._files.__getitem__, files)
            return list(map(self._item, found, opened, numbers.tolist()))


@dataclass(frozen=True, eq=False, repr=False)
class LocatedLines(_LineFiles):
    """The lines of text files as `LocatedRecord`: bytes without the newline, path and number.

    State: O(1), the position. Random access, as `Lines`.
    """
