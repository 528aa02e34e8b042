"""Find the parts of files that hold wanted bytes, and put the bytes together from the parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

from .part_file import Content, PartName


class CachedFile(Protocol):
    """A remote file whose parts a cache keeps."""

    @property
    def path(self) -> str:
        """Its URL."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def content_name(self) -> str:
        """32 hexadecimal digits for the file and its version."""


class Span(NamedTuple):
    """The bytes of a remote file from ``start`` to ``end``, offsets within the file."""

    file: Any
    start: int
    end: int


class Piece(NamedTuple):
    """Some bytes of a part.

    Attributes:
      start: offset of the first byte in the part.
      data: the bytes.
    """

    start: int
    data: Content


class WantedPart(NamedTuple):
    """A part with wanted bytes.

    Attributes:
      file: of the part.
      size: of the part, in bytes.
      start: offset of the first wanted byte in the part.
      end: offset after the last wanted byte.
      total: how many bytes are wanted.
    """

    file: CachedFile
    size: int
    start: int
    end: int
    total: int


@final
class PartCutter:
    """Cuts files into parts of ``part_bytes``; the last part of a file may be shorter."""

    def __init__(self, part_bytes: int) -> None:
        self.part_bytes = part_bytes

    def size_of(self, file: CachedFile, number: int) -> int:
        """Bytes of a part."""
        return min(self.part_bytes, file.size - number * self.part_bytes)

    def wanted_parts(self, wanted: Sequence[Span]) -> dict[PartName, WantedPart]:
        """The parts that hold the ``wanted`` bytes."""
        size, found = self.part_bytes, dict[PartName, WantedPart]()
        for span in wanted:
            for number in self._numbers(span):
                start = max(span.start - number * size, 0)
                end = min(span.end - number * size, size)
                part = PartName(span.file.content_name, number)
                before = found.get(part)
                if before is not None:
                    total = before.total + end - start
                    start, end = min(start, before.start), max(end, before.end)
                else:
                    total = end - start
                found[part] = WantedPart(
                    span.file, self.size_of(span.file, number), start, end, total
                )
        return found

    def gaps(self, span: Span, pieces: Mapping[PartName, Piece]) -> list[Span]:
        """The bytes of ``span`` in parts without a piece; neighbours are joined."""
        found: list[Span] = []
        for number in self._numbers(span):
            if PartName(span.file.content_name, number) in pieces:
                continue
            start = max(number * self.part_bytes, span.start)
            end = min((number + 1) * self.part_bytes, span.end)
            if found and found[-1].end == start:
                found[-1] = found[-1]._replace(end=end)
            else:
                found.append(Span(span.file, start, end))
        return found

    def assembled(
        self, span: Span, pieces: Mapping[PartName, Piece], gaps: Iterator[bytes]
    ) -> list[Content]:
        """The bytes of ``span``, at least one piece, from ``pieces`` and the next ``gaps``."""
        size, found, at = self.part_bytes, list[Content](), span.start
        for number in self._numbers(span):
            end = min((number + 1) * size, span.end)
            if at >= end:  # within a gap
                continue
            piece = pieces.get(PartName(span.file.content_name, number))
            if piece is None:
                found.append(next(gaps))
            else:
                start, length = at - number * size - piece.start, end - at
                whole = length == len(piece.data)
                data = piece.data if whole else memoryview(piece.data)[start : start + length]
                found.append(data)
            at += len(found[-1])
        return found or [b""]

    def _numbers(self, span: Span) -> range:
        if span.end <= span.start:  # for example an empty document, in no part
            return range(0)
        return range(span.start // self.part_bytes, -(-span.end // self.part_bytes))
