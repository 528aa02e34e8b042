"""Which part of a step one rank saves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, final

RUN: Final = r"[0-9a-f]{12}"
HALF: Final = 6
"""Half of the digits of a run. The first half says where it began, the other what it does in a step."""


@final
@dataclass(frozen=True)
class RankPart:
    """What one of several ranks saves of a step. Parts that differ only in the rank make a whole.

    Attributes:
      rank: from 0 to ``ranks`` - 1.
      ranks: how many parts the step has; a single part is a whole checkpoint.
      run: which run it belongs to, as 12 hexadecimal digits; empty for one rank.
    """

    rank: int = 0
    ranks: int = 1
    run: str = ""

    @property
    def siblings(self) -> Iterator[RankPart]:
        """The parts that make the whole, by rank."""
        return (replace(self, rank=rank) for rank in range(self.ranks))

    @property
    def start_digest(self) -> str:
        """The digits that say where the run began."""
        return self.run[:HALF]

    @property
    def work_digest(self) -> str:
        """The digits that say what the run does in a step."""
        return self.run[HALF:]

    @property
    def is_possible(self) -> bool:
        """Whether a rank can have saved it; a file from elsewhere may say anything."""
        if self.ranks == 1:
            return self == WHOLE
        return 0 <= self.rank < self.ranks < 1 << 63 and re.fullmatch(RUN, self.run) is not None

    def removes(self, other: RankPart) -> bool:
        """Whether this rank removes ``other``. Each part is removed by one rank."""
        return other.rank % self.ranks == self.rank

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks}"


WHOLE: Final = RankPart()


def part_from(rank: Any, ranks: Any, run: Any) -> RankPart | None:
    """The part that these values describe, if they describe one."""
    if type(rank) is not int or type(ranks) is not int or type(run) is not str:
        return None
    part = RankPart(rank, ranks, run)
    return part if part.is_possible else None
