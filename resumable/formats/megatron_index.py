"""Read the places of sequences and documents of Megatron-LM: the file ``PREFIX.idx``."""

# All numbers are little-endian. After the head come, for S sequences and D documents, S lengths in
# tokens (int32), S offsets in bytes (int64), D + 1 numbers of sequences (int64), where document d
# has the sequences from number d to number d + 1, and S modes (int8) if the files are multimodal.
# The file ``PREFIX.bin`` has the tokens of all sequences, one sequence after another.

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from ..core.block import NO_INDICES, Indices
from ..errors import MalformedItem
from .data_files import AnyFile
from .index.record_index import HeldIndex
from .io.maps import map_file
from .io.open_files import DataFile, FileData
from .io.remote_content import Span, read_spans
from .record import FoundRecords

MAGIC: Final = b"MMIDIDX\0\0"
HEAD: Final = Struct("<9sQBQQ")
"""Magic bytes, version, code of the dtype, number of sequences, and number of documents + 1."""

VERSION: Final = 1
DTYPES: Final[Mapping[int, npt.DTypeLike]] = {
    1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2",
}  # fmt: skip

SEQUENCE: Final = "sequence"
DOCUMENT: Final = "document"


@final
class TokenIndex(HeldIndex):
    """The end of each item in a file of tokens, in memory: 8 bytes an item.

    Args:
      index: the file ``PREFIX.idx``.
      tokens: the file ``PREFIX.bin``.
      items: `DOCUMENT` or `SEQUENCE`.

    Attributes:
      dtype: of the tokens.

    Raises:
      MalformedItem: if ``index`` is damaged or does not fit ``tokens``, or a file has changed.
      ReadError: if a remote file cannot be read.
      OSError: if a file cannot be read.
    """

    def __init__(self, index: AnyFile, tokens: AnyFile, items: str) -> None:
        parts = _Parts(index)
        ends = parts.ends_of_sequences(tokens)
        starts = parts.starts_of_documents()
        if items == DOCUMENT:
            ends = np.concatenate([[0], ends])[starts[1:]]
        super().__init__(tokens, FoundRecords(ends, NO_INDICES))
        self.dtype = parts.dtype
        known = self.content + self.dtype.str.encode()
        self.content = hashlib.blake2b(known, digest_size=len(self.content)).digest()


class _Parts:
    """The parts of an index whose size fits its head.

    Attributes:
      dtype: of the tokens.
    """

    def __init__(self, file: AnyFile) -> None:
        self._path = file.path
        if file.size < HEAD.size:
            raise self._refused(f"it has {file.size} bytes, and the head alone has {HEAD.size}")
        self._data = _content_of(file)
        head = bytes(self._data[: HEAD.size])
        magic, version, code, sequences, bounds = HEAD.unpack(head)
        if magic != MAGIC:
            raise self._refused(f"it must begin with {MAGIC!r}, and begins with {magic!r}")
        if version != VERSION:
            raise self._refused(f"its version must be {VERSION}, and is {version}")
        if code not in DTYPES:
            raise self._refused(f"the code of its dtype must be 1 to {len(DTYPES)}, and is {code}")
        self.dtype: np.dtype[Any] = np.dtype(DTYPES[code])
        size = HEAD.size + 12 * sequences + 8 * bounds
        if file.size not in (size, size + sequences):
            raise self._refused(
                f"it has {file.size} bytes, and needs {size} for {sequences} sequences and "
                f"{bounds - 1} documents, or {size + sequences} with modes"
            )
        self._sequences, self._bounds = sequences, bounds

    def ends_of_sequences(self, tokens: AnyFile) -> Indices:
        """The offset in bytes after each sequence: shape (sequences,), int64.

        Raises:
          MalformedItem: if the sequences are not adjacent, or do not fill ``tokens``.
        """
        lengths = self._numbers("<i4", self._sequences, 0)
        offsets = self._numbers("<i8", self._sequences, 4 * self._sequences)
        wrong = np.flatnonzero(lengths < 0)
        if len(wrong):
            raise self._refused(f"sequence {wrong[0]} has {lengths[wrong[0]]} tokens")
        ends: Indices = np.cumsum(lengths, dtype=np.int64)
        size = int(ends[-1]) * self.dtype.itemsize if len(ends) else 0
        if size != tokens.size:
            raise self._refused(
                f"its sequences have {size} bytes, and {tokens.path} has {tokens.size}; "
                "is one of the two cut short, or of other data?"
            )
        ends *= self.dtype.itemsize
        wrong = np.flatnonzero(offsets != np.concatenate([[0], ends[:-1]])[: len(ends)])
        if len(wrong):
            number = int(wrong[0])
            expected = int(ends[number - 1]) if number else 0
            raise self._refused(
                f"sequence {number} must begin at byte {expected}, where the one before it ends, and "
                f"begins at {offsets[number]}"
            )
        return ends

    def starts_of_documents(self) -> Indices:
        """The number of the first sequence of each document, and last the count of sequences.

        The shape is (documents + 1,), the dtype int64. A document may have no sequence.

        Raises:
          MalformedItem: if a sequence belongs to no document, or to several.
        """
        starts: Indices = self._numbers("<i8", self._bounds, 12 * self._sequences)
        if not len(starts) or starts[0] != 0 or starts[-1] != self._sequences:
            raise self._refused(
                f"its documents must begin with sequence 0 and end after all {self._sequences}, and are "
                f"bounded by {starts[[0, -1]].tolist() if len(starts) else 'nothing'}"
            )
        wrong = np.flatnonzero(np.diff(starts) < 0)
        if len(wrong):
            raise self._refused(f"document {wrong[0]} ends before it begins")
        copy: Indices = starts.copy()
        return copy

    def _numbers(self, dtype: str, count: int, offset: int) -> npt.NDArray[Any]:
        """A part of the file, shape (count,); use it at once, since a map may be cut short later."""
        if not count:
            return np.empty(0, dtype)
        numbers: npt.NDArray[Any] = np.frombuffer(self._data, dtype, count, HEAD.size + offset)
        return numbers

    def _refused(self, reason: str) -> MalformedItem:
        return MalformedItem(f"{self._path}: no index of Megatron-LM, or a damaged one: {reason}")


def _content_of(file: AnyFile) -> FileData:
    """All bytes of ``file``, at least one; a file on a disk is mapped."""
    if not isinstance(file, DataFile):
        return read_spans([Span(file, 0, file.size)])[0]
    with file.open() as opened:
        mapped = map_file(opened, file.size)
    if mapped is None:
        raise file.changed()
    return mapped
