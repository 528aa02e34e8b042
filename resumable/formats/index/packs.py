"""Look up record indexes in the pack of their folder, and rewrite the pack if many are missing."""

# A pack is only a cache, like the cache of a single file. A damaged pack is deleted, and written
# again when its files are opened next. A pack that another process replaced is read again.

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from ...errors import MalformedItem
from ..io.open_files import DataFile
from ..record import Format, FoundRecords
from .pack_file import PackEntry, PackFile, Row, digest_of_found, write_pack
from .pages import KeptPages
from .record_index import SMALLEST_CACHED, Cached, CachedIndex, known_index
from .scanning import scanned

FEWEST_PACKED: Final = 16
"""Fewest new files that a pack is written for. Fewer files have a cache each, or none."""

MOST_REWRITTEN: Final = 16
"""A pack is written again only if the known files have at most so many times the bytes of new files.

The limit keeps the time of all writing in proportion to the data.
"""


class Pack:
    """The pack at ``path``, if any; follows replacements by other processes.

    Args:
      path: of the pack.
      format: of the records.
    """

    def __init__(self, path: str, format: Format) -> None:
        self._path = path
        self._format = format
        self._find()

    def indexes(self, files: Iterable[DataFile]) -> dict[DataFile, CachedIndex]:
        """The indexes of the ``files`` in the pack."""
        if self._file is None:
            return {}
        rows = [(file, self._file.row(file)) for file in files]
        return {file: self._index(file, row) for file, row in rows if row is not None}

    def others(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Files in the pack other than ``files``, from the same folder."""
        if self._file is None:
            return []
        folder = os.path.dirname(files[0].path)
        others = []
        for name in self._file.rows.keys() - {os.path.basename(file.path) for file in files}:
            path = os.path.join(folder, name)
            with suppress(OSError):
                others.append(DataFile.found(path, os.stat(path)))
        return others

    def _index(self, file: DataFile, row: Row) -> CachedIndex:
        cached = Cached(self._pages, row.first)
        return CachedIndex(file, self._format, row, cached, partial(self._again, file))

    def _find(self) -> None:
        self._file: PackFile | None = None
        with suppress(OSError):
            self._file = PackFile.found(self._path)
        if self._file is not None:
            self._pages = self._file.pages()

    def _again(self, data: DataFile, pages: KeptPages) -> Cached | None:
        """The new place of the numbers of ``data``, after ``pages`` were invalid; None if lost."""
        before = self._file
        if before is not None and pages is self._pages:
            self._find()
        row = None if self._file is None else self._file.row(data)
        if row is None:
            return None
        if before is not None and self._file is not None and self._file.header == before.header:
            with suppress(OSError):  # an error in reading is no damage
                read = self._pages.read()
                if read is None or not read.check_records(
                    range(row.records + row.passed_over), row.first
                ):
                    before.discard()
                    self._file = None
                    return None
        return Cached(self._pages, row.first)


def packed_indexes(
    files: Sequence[DataFile], path: str, cache_of: Callable[[DataFile], str], format: Format
) -> dict[DataFile, CachedIndex]:
    """The indexes of the ``files`` of one folder that have a cache; most are in a pack.

    The pack at ``path`` is written again if many files are missing that are not small compared with
    the pack.

    Args:
      files: without repetition.
      path: of the pack.
      cache_of: returns the path of a file's separate cache; a file with a separate cache is not
        packed.
      format: of the records.

    Raises:
      InvalidArgument: if a file is compressed.
      MalformedItem: if a file has changed since the pipeline was built.
      OSError: if a file cannot be read.
    """
    pack = Pack(path, format)
    known = pack.indexes(files)
    missing = [file for file in files if file not in known]
    if not _is_worth(missing, known):
        return known
    single = {
        file: index
        for file in missing
        if file.size >= SMALLEST_CACHED
        and (index := known_index(file, cache_of(file), format)) is not None
    }
    missing = [file for file in missing if file not in single]
    if not _is_worth(missing, known):
        return known | single
    others = pack.indexes(pack.others(files))
    try:
        write_pack(path, _packed(known, others, missing, format))
    except OSError:
        return known | single
    return Pack(path, format).indexes(files) | single


def _is_worth(missing: Collection[DataFile], known: Iterable[DataFile]) -> bool:
    """Whether to write the pack of the ``known`` files again, with the ``missing`` ones."""
    size = sum(file.size for file in missing)
    return (
        len(missing) >= FEWEST_PACKED
        and size >= SMALLEST_CACHED
        and size * MOST_REWRITTEN >= sum(file.size for file in known)
    )


def _packed(
    known: Mapping[DataFile, CachedIndex],
    others: Mapping[DataFile, CachedIndex],
    missing: Iterable[DataFile],
    format: Format,
) -> Iterator[PackEntry]:
    for file, index in known.items():
        yield file, index.found(), index.content
    for file, index in others.items():
        try:
            found = index.found()
        except (MalformedItem, OSError):  # raised when the file itself is read
            continue
        yield file, found, index.content
    for file in missing:
        found = FoundRecords.joined(scanned(file, format))
        yield file, found, digest_of_found(found, file)
