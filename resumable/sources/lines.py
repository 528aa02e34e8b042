"""Lines of text files, by index."""

from __future__ import annotations

import bisect
import codecs
import glob
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..arguments import check_bool, shorten
from ..block import Block, Indices
from ..errors import InvalidArgument, InvalidType, MalformedItem
from ..indexed import IndexedIterator
from ..stage import Stage, StageIterator
from .file_data import FileData, file_data
from .line_index import CACHE_SUFFIX, LineIndex, line_index

__all__ = ["Lines", "LocatedLine", "LocatedLines", "Paths"]

T = TypeVar("T")

Bytes: TypeAlias = npt.NDArray[np.uint8]
Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

MAGIC_OF_GZIP = b"\x1f\x8b"
NEWLINE, RETURN = b"\n\r"
# Below so many lines of one file, array operations cost more than they save.
FEW_LINES = 8


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


class _File(NamedTuple):
    path: str
    size: int
    mtime_ns: int
    lines: LineIndex
    # For the j-th blank line, how many lines that are not blank stand before it.
    filled_before: Indices


@dataclass(frozen=True, eq=False, repr=False)
class _LineFiles(Stage[T]):
    """What the sources of lines share: the files, their indexes and the reading."""

    identity: ClassVar[tuple[str, ...]] = ("files",)

    paths: Paths
    _: KW_ONLY
    skip_blank: bool = False
    index_dir: str | os.PathLike[str] | None = None
    _files: tuple[_File, ...] = field(init=False, repr=False)
    # Item numbers at which each file ends: shape (files,), int64.
    _ends: Indices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_bool("skip_blank", self.skip_blank)
        folder = None if self.index_dir is None else Path(self.index_dir)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        files = tuple(_opened(path, folder) for path in _expanded(self.paths))
        counts = [
            len(file.lines.ends) - (len(file.lines.blank) if self.skip_blank else 0)
            for file in files
        ]
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_ends", np.cumsum(counts, dtype=np.int64))

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the indexes again, from their cache.
        state = dict(self.__dict__)
        del state["_files"], state["_ends"]
        state["paths"] = [file.path for file in self._files]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def random_access(self) -> bool:
        return True

    @property
    def length(self) -> int:
        return int(self._ends[-1])

    @property
    def files(self) -> str:
        """The files in a few words: equal for the same names and sizes in the same order."""
        described = [f"{os.path.basename(file.path)}:{file.size}" for file in self._files]
        digest = hashlib.blake2b(
            "\n".join(described).encode("utf-8", "surrogateescape"), digest_size=6
        )
        first = os.path.basename(self._files[0].path)
        more = f" and {len(self._files) - 1} more" if len(self._files) > 1 else ""
        return f"{shorten(first, 24)}{more}, {self.length} lines, {digest.hexdigest()}"

    @property
    def state_cost(self) -> str:
        return "the position"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return IndexedIterator(self, epoch)

    def _item(self, data: bytes, file: _File, line: int) -> T:
        raise NotImplementedError

    def _items(self, found: list[bytes], file: _File, lines: Indices) -> list[T]:
        """`_item` of each."""
        raise NotImplementedError

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        if len(self._files) == 1 or not len(indices):
            return self._items_of(self._files[0], indices)
        numbers = np.searchsorted(self._ends, indices, side="right")
        order = np.argsort(numbers, kind="stable")
        items: list[Any] = [None] * len(indices)
        # Cut the indices, ordered by file, where the file changes.
        ordered = numbers[order]
        cuts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
        for start, stop in zip(cuts, [*cuts[1:], len(order)], strict=True):
            number = int(ordered[start])
            file, where = self._files[number], order[start:stop]
            lines = indices[where] - (self._ends[number - 1] if number else 0)
            for place, item in zip(where.tolist(), self._items_of(file, lines), strict=True):
                items[place] = item
        return items

    def _items_of(self, file: _File, lines: Indices) -> list[T]:
        if self.skip_blank:
            lines = _skipping(lines, file.filled_before)
        return self._items(_read(file, lines), file, lines)

    def lookup(self, epoch: int) -> Callable[[int], T]:
        ends = self._ends.tolist()

        def item_at(index: int) -> T:
            number = bisect.bisect_right(ends, index)
            file = self._files[number]
            line = index - (ends[number - 1] if number else 0)
            if self.skip_blank and len(file.lines.blank):
                line = int(_skipping(np.array([line], np.int64), file.filled_before)[0])
            data = file_data(file.path, file.size, file.mtime_ns)
            return self._item(_line(file, data, line), file, line)

        return item_at

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.files})"


@dataclass(frozen=True, eq=False, repr=False)
class Lines(_LineFiles[Any]):
    r"""The lines of text files, in the order of the files.

    A line ends with ``\n`` or ``\r\n``, which is not part of the item; the last one may end
    with the file. Files are mapped into memory, never read as a whole.

    State: O(1), the position. Random access by an index of line ends (8 bytes a line), kept
    in a cache file for files of 64 KiB and more, and built anew when the size or the
    modification time of the file changes. A resume reads nothing.

    Args:
      paths: a path, a glob pattern, or several of them; matches of a pattern are sorted.
      encoding: of the lines, which must keep ``\n`` as one byte; None gives bytes.
      errors: what to do about undecodable bytes, as in `bytes.decode`.
      skip_blank: leave out lines without any character.
      index_dir: folder of the cache files; beside the data by default.

    Raises:
      InvalidArgument: if no file matches, or a file is not a regular, uncompressed one.
      OSError: if a file cannot be read.
      MalformedItem: while iterating, if a line cannot be decoded.
    """

    identity: ClassVar[tuple[str, ...]] = ("files", "encoding", "skip_blank")

    encoding: str | None = "utf-8"
    errors: str = "strict"

    def __post_init__(self) -> None:
        try:
            codecs.lookup_error(self.errors)
        except (LookupError, TypeError):
            raise InvalidArgument(
                f"errors must be a way known to Python, got {self.errors!r}"
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

    def _item(self, data: bytes, file: _File, line: int) -> str | bytes:
        if self.encoding is None:
            return data
        try:
            return data.decode(self.encoding, self.errors)
        except UnicodeDecodeError as error:
            raise MalformedItem(
                f"{file.path}, line {line + 1}, byte {error.start + 1}: cannot decode as "
                f"{self.encoding}: {error.reason}"
            ) from None

    def _items(self, found: list[bytes], file: _File, lines: Indices) -> list[Any]:
        encoding, errors = self.encoding, self.errors
        if encoding is None:
            return found
        try:
            return [data.decode(encoding, errors) for data in found]
        except UnicodeDecodeError:  # which does not say in which line
            return list(map(self._item, found, repeat(file), lines.tolist()))


@dataclass(frozen=True, eq=False, repr=False)
class LocatedLines(_LineFiles[LocatedLine]):
    """The lines of text files as `LocatedLine`: bytes, path and number.

    State: O(1), the position. Random access, as `Lines`.
    """

    def _item(self, data: bytes, file: _File, line: int) -> LocatedLine:
        return LocatedLine(data, file.path, line + 1)

    def _items(self, found: list[bytes], file: _File, lines: Indices) -> list[LocatedLine]:
        return list(map(LocatedLine, found, repeat(file.path), (lines + 1).tolist()))


def _expanded(paths: Paths) -> list[str]:
    """The files that ``paths`` name."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    elif hasattr(paths, "read"):
        raise InvalidType(f"paths must be paths, got the open file {shorten(paths)}; pass its path")
    elif not isinstance(paths, Iterable) or isinstance(paths, (bytes, bytearray)):
        raise InvalidType(f"paths must be a path, a pattern or several, got {shorten(paths)}")
    found: list[str] = []
    patterns = list(paths)
    for path in patterns:
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidType(f"paths must hold paths, got {shorten(path)}")
        text = os.path.expanduser(os.fspath(path))
        if os.path.lexists(text) or not glob.has_magic(text):
            found.append(text)
            continue
        # The caches of line indexes are not data, whatever the pattern.
        matches = sorted(
            match
            for match in glob.glob(text, recursive=True)
            if os.path.isfile(match) and not match.endswith(CACHE_SUFFIX)
        )
        if not matches:
            raise InvalidArgument(f"paths must match at least one file, got {text!r}")
        found.extend(matches)
    if not found:
        raise InvalidArgument(f"paths must name at least one file, got {patterns!r}")
    return found


def _opened(path: str, folder: Path | None) -> _File:
    if os.path.lexists(path) and not os.path.isfile(path):
        raise InvalidArgument(f"paths must name regular files, got {path!r}")
    with open(path, "rb") as file:
        if file.read(2) == MAGIC_OF_GZIP:
            raise InvalidArgument(f"paths must name uncompressed files, got {path!r}")
        status = os.fstat(file.fileno())
    index = line_index(Path(path), folder)
    filled = np.asarray(index.blank) - np.arange(len(index.blank), dtype=np.int64)
    return _File(os.path.abspath(path), status.st_size, status.st_mtime_ns, index, filled)


def _skipping(lines: Indices, filled_before: Indices) -> Indices:
    """Line numbers of the ``lines``-th lines that are not blank."""
    return lines + np.searchsorted(filled_before, lines, side="right")


def _read(file: _File, lines: Indices) -> list[bytes]:
    """The lines of ``file`` at ``lines``, without their newlines."""
    data = file_data(file.path, file.size, file.mtime_ns)
    ends = file.lines.ends
    if len(lines) < FEW_LINES:
        return [_line(file, data, line) for line in lines.tolist()]
    starts = np.where(lines > 0, ends[lines - 1], 0)
    stops = _stripped_stops(np.frombuffer(data, np.uint8), starts, ends[lines])
    return [data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


def _stripped_stops(text: Bytes, starts: Indices, stops: Indices) -> Indices:
    """Where lines end without what `_stripped` takes away."""
    # This also brings the ends of all lines into the processor's cache, many at a time.
    has_newline = text[stops - 1] == NEWLINE
    bare: Indices = stops - has_newline
    has_return = has_newline & (bare > starts) & (text[bare - 1] == RETURN)
    bare -= has_return
    return bare


def _line(file: _File, data: FileData, line: int) -> bytes:
    ends = file.lines.ends
    return _stripped(data[ends[line - 1] if line else 0 : ends[line]])


def _stripped(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith(b"\n") else line
