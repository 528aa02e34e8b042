"""An origin for people: a row of text for each record that an item was made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..core.origin import (
    BatchOrigin,
    ItemOrigin,
    Origin,
    PackedOrigin,
    PartOrigin,
    Segment,
    UnknownOrigin,
    ZipOrigin,
)


class OriginRow(NamedTuple):
    """A record of an item, or what is not known of it.

    Attributes:
      place: where in the item it is, such as ``"row 3"`` or ``"row 0, tokens 0:17 at 5"``; empty if it is
        all of it.
      record: None where it is not known.
      unknown: what is not known; empty if all is.
    """

    place: str
    record: Origin | None
    unknown: str = ""


def origin_rows(origin: ItemOrigin, place: str = "") -> Iterator[OriginRow]:
    """A row for each record of ``origin``, in order.

    >>> from resumable.core.origin import Origin, BatchOrigin
    >>> [row.place for row in origin_rows(BatchOrigin((Origin("Range", 4), Origin("Range", 2))))]
    ['row 0', 'row 1']
    """
    if isinstance(origin, Origin):
        yield OriginRow(place, origin)
    elif isinstance(origin, BatchOrigin):
        for number, row in enumerate(origin):
            yield from origin_rows(row, _within(place, f"row {number}"))
    elif isinstance(origin, ZipOrigin):
        for name, part in origin.parts.items():
            yield from origin_rows(part, _within(place, f"field {name}"))
    elif isinstance(origin, PackedOrigin):
        for segment in origin:
            yield from origin_rows(segment.document, _within(place, _tokens(segment)))
    elif isinstance(origin, PartOrigin):
        part_of = place if origin.part is None else _within(place, f"part {origin.part}")
        yield from origin_rows(origin.whole, part_of)
        if origin.within is not None:
            yield from origin_rows(origin.within, _within(part_of, "within"))
    else:
        assert isinstance(origin, UnknownOrigin)
        if not origin.parts:
            yield OriginRow(place, None, origin.why)
        for known in origin.parts:
            for found in origin_rows(known, place):
                yield found._replace(unknown=found.unknown or origin.why)


def _within(place: str, part: str) -> str:
    return f"{place}, {part}" if place else part


def _tokens(segment: Segment) -> str:
    return " and ".join(
        f"{field or 'tokens'} {span.begin}:{span.end} at {span.place}"
        for field, span in segment.spans.items()
    )
