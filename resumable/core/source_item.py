"""The source of an item, as far as a running pipeline knows it."""

from __future__ import annotations

from typing import NamedTuple


class SourceItem(NamedTuple):
    """The source of an item; numbers count from 0.

    Attributes:
      source: the source; with several sources, the stage that joins the sources.
      number: number of the item in ``source``.
      place: number of the item in the order of handing out; None if items were dropped since.
    """

    source: object
    number: int
    place: int | None
