"""How items were dealt out to ranks."""

from __future__ import annotations

from typing import NamedTuple


class RankShare(NamedTuple):
    """How an order was dealt out: item n of this rank has the place n * ranks + rank."""

    rank: int = 0
    ranks: int = 1
