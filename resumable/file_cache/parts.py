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
        found: dict[PartName, WantedPart] = {}
        for span in wanted:
            for part, start, end in self._cuts(span):
                before = found.get(part)
                total = end - start
                if before is not None:
                    total += before.total
                    start, end = min(start, before.start), max(end, before.end)
                size = self.size_of(span.file, part.number)
                found[part] = WantedPart(span.file, size, start, end, total)
        return found

    def assembled(self, span: Span, pieces: Mapping[PartName, Piece]) -> list[Content | Span]:
        """The bytes of ``span`` in order, at least one piece; a span for bytes not in ``pieces``."""
        found: list[Content | Span] = []
        for part, start, end in self._cuts(span):
            piece, begin = pieces.get(part), part.number * self.part_bytes
            if piece is not None:
                whole = end - start == len(piece.data)
                view = slice(start - piece.start, end - piece.start)
                found.append(piece.data if whole else memoryview(piece.data)[view])
            elif found and isinstance(last := found[-1], Span):
                found[-1] = last._replace(end=begin + end)
            else:
                found.append(Span(span.file, begin + start, begin + end))
        return found or [b""]

    def _cuts(self, span: Span) -> Iterator[tuple[PartName, int, int]]:
        """Each part with bytes of ``span``, and the offsets of these bytes in the part."""
        size, content = self.part_bytes, span.file.content_name
        # An empty span, as of an empty document, is in no part.
        first = span.start - span.start % size if span.start < span.end else span.end
        for begin in range(first, span.end, size):
            start, end = max(span.start - begin, 0), min(span.end - begin, size)
            yield PartName(content, begin // size), start, end
