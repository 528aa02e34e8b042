"""The records of files in any format, for functions that make items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ..core.block import Indices
from ..core.identity import IdentityFields
from ..errors import MalformedItem
from .data_files import AnyFile, found_data_files
from .indexed_record_files import IndexedRecordFiles
from .io.paths import Paths, repeatable
from .io.pieces import Start
from .io.scan_buffer import ScanBuffer
from .io.stored_files import StoredFiles
from .lines import LINES, LocatedLines
from .record import ByteReader, Format
from .record_file import AnyRecords
from .record_files import RecordFiles
from .stream_file import content_of
from .streams import FORMAT_NAME, RecordStream, stream_of

Records: TypeAlias = "IndexedRecordFiles | RecordStream"


def records(
    format: Format,
    paths: Paths,
    *,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Records:
    """The source of the records of files, without the records that the format passes over.

    The source has random access, unless a file is compressed, or remote without an ``index_dir``.

    Args:
      format: of the records.
      paths: a path, a URL, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern are sorted.
      index_dir: folder of the cached indexes; next to local data by default. Remote files have an
        index only with an ``index_dir``. If some files are compressed, no file needs an index.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if no file matches, a file is not regular, or an ``index_dir`` is given and
        all files are compressed.
      OSError: if a file cannot be read.
      InvalidType: if an argument has the wrong type.
      MissingDependency: if a URL needs a package that is not installed.
    """
    paths = repeatable(paths)
    found = found_data_files(paths, storage_options, format)
    stream = stream_of(found, format, index_dir=index_dir)
    if stream is not None:
        return stream
    shared: Any = {"index_dir": index_dir, "storage_options": storage_options, "found": found}
    if format is LINES:  # under the name in earlier states
        return LocatedLines(paths, skip_blank=True, **shared)
    return LocatedRecords(paths, format=format, **shared)


@contextmanager
def open_bytes(file: AnyFile, format: Format) -> Iterator[ByteReader]:
    """A reader of the content of ``file``, decompressed if necessary, for a scan.

    Raises:
      InvalidArgument: if the file is compressed without the suffix of a compression.
      MalformedItem: if the file has changed, or the bytes read cannot be decompressed.
      OSError: if the file cannot be read.
    """
    pieces = content_of(file, StoredFiles([file]).open(0), Start(0, 0), format)
    with closing(ScanBuffer(pieces, 0)) as buffer:
        yield buffer
        if buffer.damage is not None:
            raise MalformedItem(f"{file.path}: {buffer.damage}")


@dataclass(frozen=True, eq=False, repr=False)
class LocatedRecords(IndexedRecordFiles):
    """The records of files as `LocatedRecord`: bytes, path and number.

    State: O(1), the position. Random access, by an index of where records end (8 bytes a record). A
    resume reads nothing. Indexes are kept in cache files; see `resumable.formats.lines.Lines`.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern are sorted.
      format: of the records.
      index_dir: folder of the cache files; next to the data by default.

    Raises:
      InvalidArgument: if no file matches, or a file is not regular or is compressed.
      OSError: if a file cannot be read.
      MalformedItem: while iterating, if a file has changed since the pipeline was built.
    """

    identity: ClassVar[IdentityFields] = {**RecordFiles.identity, "format_name": FORMAT_NAME}

    @property
    def format_name(self) -> str:
        """The name of the format, with the options that its records depend on."""
        return self.format.name

    def _item(self, data: bytes, file: AnyRecords, number: int) -> Any:
        stripped = self.format.stripped
        return super()._item(data if stripped is None else stripped(data), file, number)

    def _items(self, found: list[bytes], files: Iterable[int], numbers: Indices) -> list[Any]:
        stripped = self.format.stripped
        if stripped is not None:
            found = list(map(stripped, found))
        return super()._items(found, files, numbers)
