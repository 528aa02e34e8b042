"""An origin for people: a row of text for each record of an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

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

INPUT: Final = "of item"
"""Name of an item of an earlier batch that was turned into something else, so it is no row."""


class OriginRow(NamedTuple):
    """A record of an item, or the unknown part.

    Attributes:
      place: place in the item, such as ``"row 3"`` or ``"row 0, tokens 0:17 at 5"``; empty for the
        whole item. A row is always a row of the item: item 2 of an earlier batch, turned into
        something else by a stage, is ``"of item 2"``.
      record: None if unknown.
      unknown: the unknown part; empty if everything is known.
    """

    place: str
    record: Origin | None
    unknown: str = ""


def origin_rows(origin: ItemOrigin, place: str = "", row: str = "row") -> Iterator[OriginRow]:
    """A row for each record of ``origin``, in order.

    Args:
      origin: of an item, or of a part.
      place: place of the part in the item.
      row: name for an item of a batch.

    >>> from resumable.core.origin import Origin, BatchOrigin
    >>> [row.place for row in origin_rows(BatchOrigin((Origin("Range", 4), Origin("Range", 2))))]
    ['row 0', 'row 1']
    """
    if isinstance(origin, Origin):
        yield OriginRow(place, origin)
    elif isinstance(origin, BatchOrigin):
        for number, one in enumerate(origin):
            yield from origin_rows(one, _within(place, f"{row} {number}"), row)
    elif isinstance(origin, ZipOrigin):
        for name, part in origin.parts.items():
            yield from origin_rows(part, _within(place, f"field {name}"), row)
    elif isinstance(origin, PackedOrigin):
        for segment in origin:
            yield from origin_rows(segment.document, _within(place, _tokens(segment)), INPUT)
    elif isinstance(origin, PartOrigin):
        part_of = place if origin.part is None else _within(place, f"part {origin.part}")
        yield from origin_rows(origin.whole, part_of, INPUT)
        if origin.within is not None:
            yield from origin_rows(origin.within, _within(part_of, "within"), row)
    else:
        assert isinstance(origin, UnknownOrigin)
        if not origin.parts:
            yield OriginRow(place, None, origin.why)
        for known in origin.parts:
            for found in origin_rows(known, place, row if len(origin.parts) == 1 else INPUT):
                yield found._replace(unknown=found.unknown or origin.why)


def _within(place: str, part: str) -> str:
    return f"{place}, {part}" if place else part


def _tokens(segment: Segment) -> str:
    return " and ".join(
        f"{field or 'tokens'} {span.begin}:{span.end} at {span.place}"
        for field, span in segment.spans.items()
    )
