"""The line indexes of the many small files of a folder, which share a cache."""

# A pack is only a cache, as those of single files are. One that is damaged is taken away and
# written anew by the next who opens it; one that another process replaced is read anew.

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from ..errors import MalformedItem
from .index_pages import KeptPages
from .line_index import SMALLEST_CACHED, Cached, CachedIndex, known_index
from .line_pack import PackFile, write_pack
from .line_scan import FoundLines, scanned
from .open_files import DataFile

FEWEST_PACKED: Final = 16
"""Files that are put into a pack at once. Fewer have a cache each, or none."""

MOST_REWRITTEN: Final = 16
"""How many times what is new may be written with it, so that all writing stays linear."""


class Pack:
    """The pack that is at ``path``, if there is one, whoever puts another one there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._find()

    def indexes(self, files: Iterable[DataFile]) -> dict[DataFile, CachedIndex]:
        """The indexes of those of ``files`` that it knows."""
        if self._file is None:
            return {}
        rows = [(file, self._file.row(file)) for file in files]
        return {
            file: CachedIndex(file, row, Cached(self._pages, row.first), partial(self._again, file))
            for file, row in rows
            if row is not None
        }

    def others(self, files: Sequence[DataFile]) -> list[DataFile]:
        """What it may know of their folder besides ``files``."""
        if self._file is None:
            return []
        folder = os.path.dirname(files[0].path)
        others = []
        for name in self._file.rows.keys() - {os.path.basename(file.path) for file in files}:
            path = os.path.join(folder, name)
            with suppress(OSError):
                others.append(DataFile.found(path, os.stat(path)))
        return others

    def _find(self) -> None:
        self._file: PackFile | None = None
        with suppress(OSError):
            self._file = PackFile.found(self._path)
        if self._file is not None:
            self._pages = KeptPages(self._file)

    def _again(self, data: DataFile, pages: KeptPages) -> Cached | None:
        """Where the numbers of ``data`` are, after ``pages`` were not right."""
        before = self._file
        if before is not None and pages is self._pages:
            self._find()
        row = None if self._file is None else self._file.row(data)
        if row is None:
            return None
        if before is not None and self._file is not None and self._file.header == before.header:
            with suppress(OSError):  # which is no damage
                read = self._pages.read()
                if read is None or not read.check_lines(range(row.lines + row.blanks), row.first):
                    before.discard()
                    self._file = None
                    return None
        return Cached(self._pages, row.first)


def packed_indexes(
    files: Sequence[DataFile], path: str, cache_of: Callable[[DataFile], str]
) -> dict[DataFile, CachedIndex]:
    """The indexes of ``files``, all of one folder, that are in its pack at ``path``.

    That is written anew where many are missing, and much of what it would know.

    Args:
      files: without repetition.
      path: of the pack.
      cache_of: the path of the cache that a file may have for itself, and then needs no other.

    Raises:
      InvalidArgument: if a file is compressed.
      MalformedItem: if one has changed since it was found.
      OSError: if one cannot be read.
    """
    pack = Pack(path)
    known = pack.indexes(files)
    missing = [file for file in files if file not in known]
    if not _is_worth(missing, known):
        return known
    single = _single_indexes(missing, cache_of)
    missing = [file for file in missing if file not in single]
    if not _is_worth(missing, known):
        return known | single
    others = pack.indexes(pack.others(files))
    try:
        write_pack(path, _found(known, others, missing))
    except OSError:
        return known | single
    return Pack(path).indexes(files) | single


def _is_worth(missing: Collection[DataFile], known: Iterable[DataFile]) -> bool:
    """Whether the pack of what is ``known`` is to be written again, with what is ``missing``."""
    size = sum(file.size for file in missing)
    return (
        len(missing) >= FEWEST_PACKED
        and size >= SMALLEST_CACHED
        and size * MOST_REWRITTEN >= sum(file.size for file in known)
    )


def _single_indexes(
    files: Iterable[DataFile], cache_of: Callable[[DataFile], str]
) -> dict[DataFile, CachedIndex]:
    found = (
        (file, known_index(file, cache_of(file))) for file in files if file.size >= SMALLEST_CACHED
    )
    return {file: index for file, index in found if index is not None}


def _found(
    known: Mapping[DataFile, CachedIndex],
    others: Mapping[DataFile, CachedIndex],
    missing: Iterable[DataFile],
) -> Iterator[tuple[DataFile, Iterable[FoundLines]]]:
    for file, index in known.items():
        yield file, [index.found()]
    for file, index in others.items():
        try:
            found = index.found()
        except (MalformedItem, OSError):  # which is for its readers to hear of
            continue
        yield file, [found]
    for file in missing:
        yield file, scanned(file)
