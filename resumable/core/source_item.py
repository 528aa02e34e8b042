"""Where an item comes from, as far as a running pipeline can tell."""

from __future__ import annotations

from typing import NamedTuple


class SourceItem(NamedTuple):
    """Where an item comes from; numbers count from 0.

    Attributes:
      source: the source; if it is one of several, the stage that joins them.
      number: of the item there.
      place: its number in the order in which items were handed out; None if some were dropped since.
    """

    source: object
    number: int
    place: int | None
