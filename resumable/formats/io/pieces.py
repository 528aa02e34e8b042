"""The content of a file in order, a piece at a time: as stored, or decompressed."""

# Memory is bounded by a piece of input and a piece of output, however much the input expands.
#
# A decoder loses the output of a call in which it meets damage. So the calls are the same for every
# start of reading and every requested size: input is cut at multiples of `INPUT` of the stored
# file, and output is requested by `PIECE`. Otherwise a resume would find other records before the
# damage than the run did.

from __future__ import annotations

import lzma
import os
import zlib
from bisect import bisect_left
from io import FileIO
from typing import Final, NamedTuple, Protocol

from ..record import Format
from .compression import Compression, MemberDecoder, check_uncompressed
from .open_files import DataFile

PIECE: Final = 1 << 16
"""Bytes that are decoded at once."""

INPUT: Final = 1 << 16
DAMAGED: Final = (zlib.error, lzma.LZMAError, ValueError, EOFError, OSError)
"""Errors of decoders, as exact classes, since a signal handler may raise a derived class."""


class Damage(Exception):
    """The compressed content is damaged from here on; the message says how."""


class Start(NamedTuple):
    """A place where decoding can begin.

    Attributes:
      stored: bytes of the stored file before the place.
      content: bytes of the content before the place.
    """

    stored: int
    content: int


class Pieces(Protocol):
    """Content in order.

    Attributes:
      size: of all content in bytes; None if not known before the end.
    """

    size: int | None

    def read_some(self, most: int) -> bytes:
        """Up to ``most`` of the next bytes; none only at the end.

        Raises:
          Damage: if the bytes cannot be decompressed.
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be read.
        """

    def start_before(self, offset: int) -> Start:
        """The start for reading the content at ``offset`` again, after it has been read.

        Later calls must not pass a smaller offset: the earlier starts are forgotten.
        """

    def close(self) -> None:
        """Release the file; may be called again."""


class StoredPieces:
    """A file on a disk as stored, from ``start`` on.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      OSError: if the file cannot be opened.
    """

    def __init__(self, file: DataFile, start: int = 0) -> None:
        self.size: int | None = file.size
        self._file = file
        self._opened: FileIO = file.open()
        self._opened.seek(start)

    def read_some(self, most: int) -> bytes:
        piece = self._opened.read(most)
        if not piece:
            self._file.check_unchanged(os.fstat(self._opened.fileno()))
        return piece

    def start_before(self, offset: int) -> Start:
        return Start(offset, offset)

    def close(self) -> None:
        self._opened.close()

    def __del__(self) -> None:
        # Nobody closes an iterator that is dropped mid-epoch.
        if hasattr(self, "_opened"):
            self._opened.close()


class CheckedPieces:
    """The content of ``pieces``; refused if it begins like a compressed file.

    Args:
      pieces: a file from its start.
      path: of the file.
      format: content that surely begins a file of this format is not refused.
    """

    def __init__(self, pieces: Pieces, path: str, format: Format) -> None:
        self.size = pieces.size
        self._pieces = pieces
        self._path: str | None = path
        self._format = format
        self.start_before = pieces.start_before
        self.close = pieces.close

    def read_some(self, most: int) -> bytes:
        piece = self._pieces.read_some(most)
        if self._path is not None:
            check_uncompressed(piece, self._path, self._format)
            self._path = None
        return piece


class Decompressed:
    """The decompressed content of ``stored``.

    Args:
      stored: the bytes of the file, from the start of a member.
      compression: of the file.
      start: of the member.
    """

    def __init__(self, stored: Pieces, compression: Compression, start: Start) -> None:
        self.size: int | None = None
        self._stored = stored
        self._compression = compression
        self._decoder: MemberDecoder | None = None
        self._input = b""
        self._output = b""  # the last decoded piece
        self._taken = 0  # bytes of the piece that were handed out
        self._position, self._content = start
        self._first = start.stored == 0
        # Starts of members, ascending; of several at one offset in the content, only the last.
        self._stored_starts = [start.stored]
        self._content_starts = [start.content]

    def read_some(self, most: int) -> bytes:
        if self._taken == len(self._output):
            self._output, self._taken = self._decoded(), 0
        begin = self._taken
        self._taken = min(begin + most, len(self._output))
        return self._output[begin : self._taken]

    def _decoded(self) -> bytes:
        """The next piece of content; empty only at the end."""
        while True:
            if self._decoder is None and not self._begin_member():
                return b""
            assert self._decoder is not None
            at_end = self._decoder.needs_input and not self._input and not self._refill()
            piece = self._decode()
            if self._decoder.eof:
                self._input = self._decoder.unused_data
                self._decoder = None
            elif at_end and not piece:
                raise Damage("the compressed file ends in the middle")
            if piece:
                self._content += len(piece)
                return piece

    def start_before(self, offset: int) -> Start:
        # Once the content up to `offset` was read, all members that begin before `offset` are
        # known. A member at `offset` itself may not be known, so it is never the answer.
        index = max(bisect_left(self._content_starts, offset) - 1, 0)
        del self._stored_starts[:index], self._content_starts[:index]
        return Start(self._stored_starts[0], self._content_starts[0])

    def close(self) -> None:
        self._stored.close()

    def _begin_member(self) -> bool:
        """Begin the next member; False at the end of the file."""
        while True:
            # Members may be padded with zeros; no member begins with a zero.
            self._input = self._input.lstrip(b"\0") if not self._first else self._input
            if self._input or not self._refill():
                break
        if not self._input:
            return False
        self._first = False
        begin = self._position - len(self._input)
        if self._content_starts[-1] == self._content:
            self._stored_starts[-1] = begin
        else:
            self._stored_starts.append(begin)
            self._content_starts.append(self._content)
        self._decoder = self._compression.decoder()
        return True

    def _refill(self) -> bool:
        """Add the stored bytes up to a multiple of `INPUT` to the input; False at the end."""
        begin = self._position
        end = begin - begin % INPUT + INPUT
        # A remote file may give less at a time.
        while piece := self._stored.read_some(end - self._position):
            self._position += len(piece)
            self._input += piece
            if self._position in (end, self._stored.size):
                break
        return self._position > begin

    def _decode(self) -> bytes:
        assert self._decoder is not None
        given, self._input = self._input, b""
        try:
            return self._decoder.decompress(given, PIECE)
        except DAMAGED as error:
            if type(error) not in DAMAGED:
                raise
            raise Damage(f"not {self._compression.name}, or damaged: {error}") from error
