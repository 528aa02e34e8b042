"""From which record of the source the item at an index comes."""

# No iterator keeps such numbers: an order is arithmetic, so a record is computed after an error.

from __future__ import annotations

from typing import Any

from .indexed import Indexed
from .source_item import SourceItem
from .stage import Stage


def origin_by_index(stage: Stage[Any], indexed: Indexed[Any], place: int) -> SourceItem | None:
    """Where the item at index ``place`` of ``stage`` comes from; None if it is made of several.

    Args:
      stage: has random access.
      indexed: its items by their index.
      place: an index of them.
    """
    source = stage
    while len(source.inputs) == 1:
        (source,) = source.inputs
    number, joins = place, bool(source.inputs)
    while not (joins and indexed.choice) and (found := indexed.made_of(number)):
        indexed, number = found
    # Items that are the same in every epoch and made of nothing are a source's; others are groups of items.
    known = indexed.choice is not None if joins else indexed.every_epoch
    return SourceItem(source, number, place) if known else None
