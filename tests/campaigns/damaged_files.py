"""Damaged files that need a library of others, or a decompressor, read from a disk as users do."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from campaigns.damaged_records import check_named, damaged_anywhere, lines_of, text_files
from formats.compressing import COMPRESS, HAS_ZSTD, IN_PARTS
from formats.table_files import write_more_parquet, write_tables

import resumable as rs
from resumable.core.block import block_items
from resumable.formats.tables import parquet_file
from resumable.formats.tables import source as tables
from resumable.testing.comparing import same

__all__ = [
    "COMPRESSED",
    "CompressedTarget",
    "OneByteTarget",
    "TableTarget",
    "written",
    "written_beside",
]


class CompressedTarget(NamedTuple):
    """A way to compress lines.

    Attributes:
      suffix: of the names of such files.
      real: good files.
      decompress: as another reader does it.
      errors: those that it raises for damage.
      lenient: whether it reads some files that break the rules of the format: gzip in Python does not
        look at flags that are reserved, bzip2 and xz not at what follows the last stream.
      damaged: a file that follows from random choices and the good ones.
    """

    suffix: str
    real: list[bytes]
    decompress: Callable[[bytes], bytes]
    errors: tuple[type[Exception], ...]
    lenient: bool = False
    damaged: Callable[[Random, list[bytes]], bytes] = damaged_anywhere

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as a file: how many lines it gave, and whether one was refused.

        Raises:
          AssertionError: if they are not the lines that the other reader decompresses, or if only one
            of the two refuses the file.
        """
        items, refused = list[Any](), False
        with written(data, folder, self.suffix) as path:
            try:
                for item in rs.lines(path, encoding=None, skip_blank=True):
                    items.append(item)
            except rs.MalformedItem as error:
                check_named(error, str(path))
                refused = True
        for whole in self.real:
            if refused and whole.startswith(data):  # it was only cut
                expected = lines_of(self.decompress(whole))
                assert items == expected[: len(items)], "a cut file gives other lines"
        others = self._lines(data)
        if others is None:
            assert refused, "the other reader refuses the file"
        elif refused:
            assert self.lenient, "the other reader reads the file"
            # The last line of either may be cut: what the other one ignores may be a damaged member.
            count = min(len(items), len(others)) - 1
            assert items[: max(count, 0)] == others[: max(count, 0)]
        else:
            assert items == others, "the other reader gives other lines"
        return len(items), int(refused)

    def _lines(self, data: bytes) -> list[bytes] | None:
        """Those that the other reader finds; None if it refuses the file."""
        try:
            return lines_of(self.decompress(data)) if data else []
        except self.errors:
            return None


class TableTarget:
    """A format of rows that pyarrow decodes.

    Args:
      open: makes a pipeline of a path.
      pattern: of the names of good files among those that tests write.
    """

    def __init__(self, open: Callable[[Path], rs.Pipeline[Any]], pattern: str) -> None:
        self._open = open
        self._pattern = pattern

    @staticmethod
    def damaged(random: Random, real: list[bytes]) -> bytes:
        return damaged_anywhere(random, real)

    @cached_property
    def real(self) -> list[bytes]:
        """Small files of many types of columns and ways to encode them."""
        with TemporaryDirectory() as folder:
            write_tables(Path(folder))
            write_more_parquet(Path(folder))
            return [path.read_bytes() for path in sorted(Path(folder).glob(self._pattern))]

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as a file: how many rows it gave, and whether one was refused.

        Raises:
          AssertionError: if rows that are looked up differ from those that come in order, or there are not
            as many as the file says.
        """
        tables.decoded.clear()
        parquet_file.keep_readers(0)
        items = list[Any]()
        with written(data, folder) as path:
            try:
                pipeline = self._open(path)
                for item in pipeline:
                    items.append(item)
                assert len(items) == len(pipeline)
                backwards = block_items(pipeline.gather(np.arange(len(items))[::-1]))
                assert same(items[::-1], backwards), "rows that are looked up are others"
            except rs.MalformedItem as error:
                check_named(error, str(path))
                return len(items), 1
            except rs.InvalidArgument:  # two columns have one name now, or there is none
                return 0, 1
        return len(items), 0


class OneByteTarget(TableTarget):
    """The same with one byte of a file replaced, which must not hide rows."""

    @staticmethod
    def damaged(random: Random, real: list[bytes]) -> bytes:
        data = bytearray(random.choice(real))
        data[random.randrange(len(data))] = random.choice((0, 1, 255, random.randrange(256)))
        return bytes(data)

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """As `TableTarget`, and all rows are there unless one was refused."""
        count, refused = super().read(data, folder)
        if not refused:
            whole = next(one for one in self.real if _differing_bytes(one, data) <= 1)
            assert count == super().read(whole, folder)[0], "rows are lost, or made up"
        return count, refused


def _differing_bytes(one: bytes, other: bytes) -> int:
    """How many bytes differ; more than one if the sizes do."""
    if len(one) != len(other):
        return 2
    return int((np.frombuffer(one, "u1") != np.frombuffer(other, "u1")).sum())


@contextmanager
def written_beside(path: Path, suffix: str, data: bytes) -> Iterator[None]:
    """Another file with ``data`` and the name of ``path`` but for its suffix."""
    other = path.with_suffix(suffix)
    other.write_bytes(data)
    try:
        yield
    finally:
        other.unlink()


@contextmanager
def written(data: bytes, folder: Path, suffix: str = "") -> Iterator[Path]:
    """A file with ``data``, under a name of its own, since what is kept of a file is known by its name."""
    path = folder / f"{zlib.crc32(data)}{suffix}"
    path.write_bytes(data)
    try:
        yield path
    finally:
        path.unlink()


def compressed(*suffixes: str) -> list[bytes]:
    """Lines in one member and in several."""
    ways = [(COMPRESS | IN_PARTS)[suffix] for suffix in suffixes]
    return [compress(data * 30) for compress in ways for data in text_files()[:2]]


def decompress_zstd(data: bytes) -> bytes:
    from backports import zstd

    content = b""
    while data:
        frame = zstd.ZstdDecompressor()
        content += frame.decompress(data)
        if not frame.eof:
            raise EOFError("a frame is cut short")
        data = frame.unused_data.lstrip(b"\0")  # of padding
    return content


COMPRESSED: Final = {
    "gz": CompressedTarget(
        ".gz",
        compressed(".gz", "m.gz", "m.bgz"),
        gzip.decompress,
        (OSError, EOFError, zlib.error),
        lenient=True,
    ),
    "bz2": CompressedTarget(
        ".bz2", compressed(".bz2", "m.bz2"), bz2.decompress, (OSError, ValueError), lenient=True
    ),
    "xz": CompressedTarget(
        ".xz",
        compressed(".xz", "m.xz"),
        lambda data: lzma.decompress(data.rstrip(b"\0"), lzma.FORMAT_XZ),  # without padding
        (lzma.LZMAError,),
        lenient=True,
    ),
}
if HAS_ZSTD:
    from backports import zstd

    COMPRESSED["zst"] = CompressedTarget(
        ".zst", compressed(".zst", "m.zst"), decompress_zstd, (zstd.ZstdError, EOFError)
    )
