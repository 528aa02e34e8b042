"""Read lines of text files, by index."""

from __future__ import annotations

import bisect
import codecs
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise, repeat
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np

from ..core.arguments import check_bool
from ..core.block import Block, Indices
from ..core.derived import derived
from ..core.indexed import LookedUp
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, Reliance
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .line_file import FEW_LINES, LineFile, Paths, found_files, open_line_files

T = TypeVar("T")

WITHOUT_STATE: Final = frozenset({"utf-8", "ascii", "iso8859-1"})
"""Codecs, by the names Python gives them, that never look beyond a newline."""

MOST_AHEAD: Final = 512
"""Items that are read at once when they are asked for in order."""


class LocatedLine(NamedTuple):
    """A line and where it stands.

    Attributes:
      data: its bytes, without the newline.
      path: the file.
      number: counted from 1.
    """

    data: bytes
    path: str
    number: int


@dataclass(frozen=True, eq=False, repr=False)
class _LineFiles(LookedUp[T]):
    """What the sources of lines share: the files, their indexes and the reading."""

    identity: ClassVar[Mapping[str, Reliance]] = {"files": ALWAYS}
    shown_as: ClassVar[Mapping[str, str]] = {"files": "files of paths"}
    state_cost = "the position"

    paths: Paths
    _: KW_ONLY
    skip_blank: bool = False
    index_dir: str | os.PathLike[str] | None = None
    _files: tuple[LineFile, ...] = field(init=False, repr=False)
    # Item numbers at which each file ends: shape (files,), int64.
    _ends: Indices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_bool("skip_blank", self.skip_blank)
        folder = None if self.index_dir is None else os.path.abspath(self.index_dir)
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        files = open_line_files(found_files(self.paths), folder)
        counts = [
            file.positions.lines - (file.positions.blanks if self.skip_blank else 0)
            for file in files
        ]
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_ends", np.cumsum(counts, dtype=np.int64))

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the indexes again, from their cache.
        state = super().__getstate__()
        del state["_files"], state["_ends"]
        state["paths"] = [file.path for file in self._files]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def length(self) -> int:
        return int(self._ends[-1])

    @property
    def files(self) -> str:
        """The files in a few words: equal for the same names, sizes and number of lines."""
        described = [f"{os.path.basename(file.path)}:{file.size}" for file in self._files]
        digest = hashlib.blake2b(
            "\n".join(described).encode("utf-8", "surrogateescape"), digest_size=6
        )
        first = os.path.basename(self._files[0].path)
        more = f" and {len(self._files) - 1} more" if len(self._files) > 1 else ""
        return f"{shorten(first, 24)}{more}, {self.length} lines, {digest.hexdigest()}"

    def _item(self, data: bytes, file: LineFile, line: int) -> T:
        raise NotImplementedError

    def _items(self, found: list[bytes], files: Iterable[int], lines: Indices) -> list[T]:
        """The items of the lines ``found``, which have these numbers of files and of lines."""
        raise NotImplementedError

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        return Indexed(
            self._gather, _Ahead(self).__getitem__, between=self._between, every_epoch=True
        )

    def _between(self, start: int, stop: int) -> Block:
        return self._gather(np.arange(start, stop, dtype=np.int64))

    def _gather(self, indices: Indices) -> Block:
        if not len(indices):
            return []
        if len(self._files) > 1:
            return self._gather_from_many(indices)
        file = self._files[0]
        lines = file.unskipped(indices) if self.skip_blank else indices
        return self._items(file.read(lines), repeat(0), lines)

    def _gather_from_many(self, indices: Indices) -> list[T]:
        numbers = np.searchsorted(self._ends, indices, side="right")
        # File by file, so that each is checked once.
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        lines = indices[order] - self._begins[numbers]
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(order)]
        files = numbers.tolist()
        parts = [(self._files[files[start]], start, stop) for start, stop in pairwise(cuts)]
        if self.skip_blank:
            for file, start, stop in parts:
                lines[start:stop] = file.unskipped(lines[start:stop])
        gather, few, found = object(), lines.tolist(), list[bytes]()
        for file, start, stop in parts:
            if stop - start < FEW_LINES:
                found += file.read_few(few[start:stop], gather)
            else:
                found += file.read(lines[start:stop], gather)
        items = self._items(found, files, lines)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return [items[place] for place in places.tolist()]

    @derived
    def _begins(self) -> Indices:
        """Item numbers at which each file begins."""
        return np.concatenate([[0], self._ends[:-1]])

    @derived
    def _stops(self) -> list[int]:
        """The same as `_ends`, as a list, which is faster for a single item."""
        stops: list[int] = self._ends.tolist()
        return stops

    def _from(self, index: int, most: int) -> list[T]:
        """The item at ``index``, and items after it in the same file, up to ``most`` in all.

        It does not raise the error of a later item.
        """
        number = bisect.bisect_right(self._stops, index)
        file, begin = self._files[number], self._stops[number - 1] if number else 0
        if most > 1:
            wanted = np.arange(index, min(index + most, self._stops[number]), dtype=np.int64)
            with suppress(MalformedItem, OSError):
                lines = wanted - begin
                if self.skip_blank:
                    lines = file.unskipped(lines)
                found = file.read_page(lines)
                return self._items(found, repeat(number), lines[: len(found)])
        line = index - begin
        if self.skip_blank and file.positions.blanks:
            line = int(file.unskipped(np.array([line], np.int64))[0])
        return [self._item(file.read_few([line])[0], file, line)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.files})"


class _Ahead(dict[int, T]):
    """Items by their index; consecutive ones are read a page at a time.

    It is a dict, so that the items of a page are handed out without Python code. Reading lines has
    no effects, so no user can tell that they are read ahead.
    """

    def __init__(self, lines: _LineFiles[T]) -> None:
        super().__init__()
        self._lines = lines
        self._next = -1

    def __missing__(self, index: int) -> T:
        items = self._lines._from(index, MOST_AHEAD if index == self._next else 1)
        # Another thread may do the same now, which is harmless: every entry is right.
        self.clear()
        if len(items) > 1:
            self.update(zip(range(index, index + len(items)), items, strict=True))
        self._next = index + len(items)
        return items[0]


@dataclass(frozen=True, eq=False, repr=False)
class Lines(_LineFiles[Any]):
    r"""The lines of text files, in the order of the files.

    A line ends with ``\n`` or ``\r\n``, which is not part of the item; the last one may end
    with the file. Files are mapped into memory, never read as a whole.

    State: O(1), the position. Random access, by an index of line ends (8 bytes a line). A resume
    reads nothing.

    Indexes are kept in cache files. The files of a folder share one if there are at least 16 of up
    to 4 MiB each, of 64 KiB together. Any other file of 64 KiB and more has a cache of its own.
    Opening reads the list in the cache of a folder, or the header of a file's own cache. Files
    without a cache are read as a whole. A page of an index is checked before its first use.

    An index is built anew when the size or the modification time of the file has changed. It is
    also built anew when its cache turns out to be damaged, even in the middle of a pass. A cache
    that belongs neither to this user nor to the owner of the file is not believed. If no cache can
    be written, the index stays in memory.

    What is kept of files and caches is bounded, however many there are. At most 64 MiB of files of
    up to 64 KiB are kept, and 128 MiB each of their indexes and of short caches. All others are
    mapped, without an open descriptor: up to a quarter of the maps that the system allows for
    files, and as many for indexes, or 64 each where the address space is limited. A file is checked
    for changes once a block. Lines that are asked for in order are read up to 512 at once, of
    64 KiB together.

    Args:
      paths: a path, a glob pattern, or several of them; matches of a pattern are sorted.
      encoding: of the lines, which must keep ``\n`` as one byte; None gives bytes.
      errors: what to do about undecodable bytes, as in `bytes.decode`.
      skip_blank: leave out lines without any character.
      index_dir: folder of the cache files; beside the data by default.

    Raises:
      InvalidArgument: if no file matches, a file is not a regular, uncompressed one, Python does
        not know ``encoding`` or ``errors``, or ``encoding`` does not keep newlines.
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

    identity: ClassVar[Mapping[str, Reliance]] = dict.fromkeys(
        ("files", "encoding", "skip_blank"), ALWAYS
    )

    encoding: str | None = "utf-8"
    errors: str = "strict"

    def __post_init__(self) -> None:
        try:
            codecs.lookup_error(self.errors)
        except (LookupError, TypeError):
            raise InvalidArgument(
                f"errors must be a handler known to Python, got {self.errors!r}"
            ) from None
        if self.encoding is not None:
            if not isinstance(self.encoding, str):
                raise InvalidType(f"encoding must be a string or None, got {self.encoding!r}")
            try:
                newline = "\n".encode(self.encoding)
            except LookupError:
                raise InvalidArgument(
                    f"encoding must be known to Python, got {self.encoding!r}"
                ) from None
            if not newline.endswith(b"\n") or newline[:-1].strip(b"\xef\xbb\xbf"):
                raise InvalidArgument(
                    f"encoding must keep a newline as one byte, got {self.encoding!r}"
                )
        super().__post_init__()

    def _item(self, data: bytes, file: LineFile, line: int) -> str | bytes:
        if self.encoding is None:
            return data
        try:
            return data.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise MalformedItem(
                f"{file.path}, line {line + 1}, byte {error.start + 1}: cannot decode as "
                f"{self.encoding}: {error.reason}"
            ) from None

    def _between(self, start: int, stop: int) -> Block:
        number = bisect.bisect_right(self._stops, start)
        file, begin = self._files[number], self._stops[number - 1] if number else 0
        blanks = self.skip_blank and file.positions.blanks
        if self.encoding and stop <= self._stops[number] and self._decodes_together and not blanks:
            with suppress(UnicodeDecodeError):  # which does not say in which line
                found = file.read_text(range(start - begin, stop - begin), self.encoding)
                if found is not None:
                    return found
        return super()._between(start, stop)

    @derived
    def _decodes_together(self) -> bool:
        """Whether lines are decoded alike alone and joined by newlines."""
        assert self.encoding is not None
        return self.errors == "strict" and codecs.lookup(self.encoding).name in WITHOUT_STATE

    def _items(self, found: list[bytes], files: Iterable[int], lines: Indices) -> list[Any]:
        encoding, errors = self.encoding, self.errors
        if encoding is None:
            return found
        try:
            if self._decodes_together:
                items = b"\n".join(found).decode(encoding).split("\n")
                if len(items) == len(found):
                    return items
            return [data.decode(encoding, errors) for data in found]
        except UnicodeDecodeError:  # which does not say in which line
            return list(map(self._item, found, map(self._files.__getitem__, files), lines.tolist()))


@dataclass(frozen=True, eq=False, repr=False)
class LocatedLines(_LineFiles[LocatedLine]):
    """The lines of text files as `LocatedLine`: bytes, path and number.

    State: O(1), the position. Random access, as `Lines`.
    """

    def _item(self, data: bytes, file: LineFile, line: int) -> LocatedLine:
        return LocatedLine(data, file.path, line + 1)

    def _items(self, found: list[bytes], files: Iterable[int], lines: Indices) -> list[LocatedLine]:
        return list(
            map(LocatedLine, found, map(self._paths.__getitem__, files), (lines + 1).tolist())
        )

    @derived
    def _paths(self) -> list[str]:
        return [file.path for file in self._files]
