"""The part of a step saved by one rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, final

RUN: Final = r"[0-9a-f]{12}"
HALF: Final = 6
"""Half of the digits of a run.

The first half encodes the start of the run, the second half its work in a step.
"""


@final
@dataclass(frozen=True)
class RankPart:
    """The part of a step saved by one of several ranks.

    Parts that differ only in the rank make a whole.

    Attributes:
      rank: from 0 to ``ranks`` - 1.
      ranks: number of parts of the step; a single part is a whole checkpoint.
      run: of the part, as 12 hexadecimal digits; empty for one rank.
    """

    rank: int = 0
    ranks: int = 1
    run: str = ""

    @property
    def siblings(self) -> Iterator[RankPart]:
        """The parts of the whole, by rank."""
        return (replace(self, rank=rank) for rank in range(self.ranks))

    @property
    def start_digest(self) -> str:
        """The digits for the start of the run."""
        return self.run[:HALF]

    @property
    def work_digest(self) -> str:
        """The digits for the work of the run in a step."""
        return self.run[HALF:]

    @property
    def is_possible(self) -> bool:
        """Whether a rank can have saved this part; a file from elsewhere may contain any values."""
        if self.ranks == 1:
            return self == WHOLE
        return 0 <= self.rank < self.ranks < 1 << 63 and re.fullmatch(RUN, self.run) is not None

    def removes(self, other: RankPart) -> bool:
        """Whether this rank removes ``other``. Exactly one rank removes each part."""
        return other.rank % self.ranks == self.rank

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks}"


WHOLE: Final = RankPart()


def part_from(rank: Any, ranks: Any, run: Any) -> RankPart | None:
    """The part with these values; None if no such part is possible."""
    if type(rank) is not int or type(ranks) is not int or type(run) is not str:
        return None
    part = RankPart(rank, ranks, run)
    return part if part.is_possible else None
