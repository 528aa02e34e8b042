"""The numbers of items that a run has handed out and not finished, as a value in a state."""

# A state holds the unfinished numbers. So the size of the state follows from the work in progress,
# and merging ranks is a union. Rank i of r hands out the new numbers first + i,
# first + i + r and so on. The rounds of all ranks show which of these numbers a slow rank has
# missed.

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from ..errors import StateMismatch, shorten
from .value import LARGEST_COUNT, State, unpack, unpack_count

LEASES: Final = "leases"
"""The key of these numbers in a state of `Leases`."""
MOST_UNFINISHED: Final = 1 << 27


def to_ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Ascending ``numbers`` as ranges [start, stop, step], few if the numbers are regular.

    >>> to_ranges([1, 2, 3, 10, 12, 14])
    [[1, 4, 1], [10, 15, 2]]
    """
    found, at, end = [], 0, len(numbers)
    while at < end:
        start, last = numbers[at], at
        step = numbers[at + 1] - start if at + 1 < end else 1
        while last + 1 < end and numbers[last + 1] - numbers[last] == step:
            last += 1
        if last == at + 1 and step > 1:  # two distant numbers are no sequence yet
            last, step = at, 1
        found.append([start, numbers[last] + 1, step])
        at = last + 1
    return found


def from_ranges(ranges: Any) -> list[int]:
    """The numbers in ``ranges`` of a state, ascending.

    Raises:
      StateMismatch: if ``ranges`` are not lists of [start, stop, step], or have a number twice.
    """
    found = [_as_range(one) for one in (ranges if isinstance(ranges, list) else [ranges])]
    if sum(map(len, found)) > MOST_UNFINISHED:
        raise StateMismatch(f"at most {MOST_UNFINISHED:,} numbers can be unfinished")
    numbers = sorted(number for one in found for number in one)
    if len(set(numbers)) < len(numbers):
        raise StateMismatch("an unfinished number is in the state twice")
    return numbers


def _as_range(bounds: Any) -> range:
    if not isinstance(bounds, list) or len(bounds) != 3 or bounds[2] == 0:
        raise StateMismatch(
            f"unfinished numbers must be [start, stop, step], got {shorten(bounds)}"
        )
    return range(*(unpack_count(None, "number", bound, LARGEST_COUNT) for bound in bounds))


@final
@dataclass(frozen=True)
class LeasedNumbers:
    """What one rank has still to do, or all ranks after `merged`.

    Attributes:
      unfinished: handed out and not finished, or dealt to this rank and not handed out; ascending.
      first: the first new number when the ranks were dealt their numbers.
      rounds: how many new numbers this rank has handed out since.
      rank: the rank.
      ranks: number of ranks.
      deal: identifies the state from which all ranks began; empty for one rank.
      done: how many items were done, over all resumes.
      dropped: how many were dropped.
      released: how often an item was given back.
      epoch: the epoch reached at the position of the pipeline, where states record it.
    """

    unfinished: Sequence[int] = ()
    first: int = 0
    rounds: int = 0
    rank: int = 0
    ranks: int = 1
    deal: str = ""
    done: int = 0
    dropped: int = 0
    released: int = 0
    epoch: int | None = None

    @property
    def next(self) -> int:
        """The next new number of this rank."""
        return self.first + self.rank + self.ranks * self.rounds

    @property
    def value(self) -> State:
        """As a value of a state."""
        return {**vars(self), "unfinished": to_ranges(self.unfinished)}

    @classmethod
    def of_value(cls, value: Any) -> LeasedNumbers:
        """The numbers in a state.

        Raises:
          StateMismatch: if ``value`` is none of a state.
        """
        names = list(cls.__dataclass_fields__)
        fields = dict(zip(names, unpack(None, value, *names), strict=True))
        counts = (
            set(names) - {"unfinished", "deal"} - ({"epoch"} if fields["epoch"] is None else set())
        )
        fields |= {name: unpack_count(None, name, fields[name], LARGEST_COUNT) for name in counts}
        if not isinstance(fields["deal"], str) or fields["rank"] >= fields["ranks"]:
            raise StateMismatch(f"the state names no rank of a run: {shorten(value)}")
        return cls(**{**fields, "unfinished": from_ranges(fields["unfinished"])})

    def dealt(self, rank: int, ranks: int) -> LeasedNumbers:
        """The share of ``rank`` of ``ranks``.

        Raises:
          StateMismatch: if this is the share of one rank, and not of this one.
        """
        if self.ranks > 1:
            if (self.rank, self.ranks) != (rank, ranks):
                raise StateMismatch(
                    f"the state is of rank {self.rank} of {self.ranks}, and these leases are of rank {rank} "
                    f"of {ranks}; join the states of all ranks by rs.merge_states"
                )
            return self
        whole = merged([self])
        text = f"{ranks} {whole.value}".encode()
        deal = hashlib.blake2b(text, digest_size=8).hexdigest() if ranks > 1 else ""
        share = replace(
            whole, unfinished=whole.unfinished[rank::ranks], rank=rank, ranks=ranks, deal=deal
        )
        return replace(share, done=0, dropped=0, released=0) if rank else share


def merged(shares: Sequence[LeasedNumbers]) -> LeasedNumbers:
    """The numbers of all ranks of a run together.

    Numbers that a slow rank has not handed out yet count as unfinished.

    Raises:
      StateMismatch: if a rank is missing or given twice, or if the shares are of several deals.
    """
    first = shares[0]
    given = sorted(share.rank for share in shares)
    if any(share.ranks != first.ranks for share in shares) or given != list(range(first.ranks)):
        raise StateMismatch(
            f"the states must be those of all ranks of a run, got ranks {given} of {first.ranks}"
        )
    if any((share.first, share.deal) != (first.first, first.deal) for share in shares):
        raise StateMismatch(
            "the states of the ranks belong to different runs: all ranks must have begun from one state"
        )
    end = first.first + first.ranks * max(share.rounds for share in shares)
    left = [number for share in shares for number in range(share.next, end, first.ranks)]
    return LeasedNumbers(
        sorted([*left, *(number for share in shares for number in share.unfinished)]),
        end,
        done=sum(share.done for share in shares),
        dropped=sum(share.dropped for share in shares),
        released=sum(share.released for share in shares),
    )
