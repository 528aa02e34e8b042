"""Numbers of leases as a value: ranges are exact, and ranks are a division of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.state.leased_numbers import LeasedNumbers, from_ranges, merged, to_ranges

NUMBERS = st.sets(st.integers(0, 10**6)) | st.sets(st.integers(0, 40)) | st.builds(
    lambda start, count, step: set(range(start, start + count * step, step)),
    st.integers(0, 99), st.integers(0, 50), st.integers(1, 9),
)  # fmt: skip


@given(NUMBERS)
def test_ranges_are_exactly_the_numbers(numbers: set[int]) -> None:
    ranges = to_ranges(sorted(numbers))
    assert from_ranges(ranges) == sorted(numbers)
    assert len(ranges) <= len(numbers)


@given(st.integers(0, 99), st.integers(1, 50), st.integers(1, 9))
def test_regular_numbers_are_one_range(start: int, count: int, step: int) -> None:
    assert len(to_ranges(range(start, start + count * step, step))) == (
        1 if step == 1 or count != 2 else 2
    )


@given(NUMBERS, st.integers(1, 6), st.data())
def test_ranks_divide_the_numbers_and_merge_into_them_again(
    unfinished: set[int], ranks: int, data: st.DataObject
) -> None:
    first = max(unfinished, default=0) + data.draw(st.integers(1, 9))
    whole = LeasedNumbers(sorted(unfinished), first, done=5, dropped=4, released=3)
    assert LeasedNumbers.of_value(rs.loads(rs.dumps(whole.value))) == whole
    shares = [whole.dealt(rank, ranks) for rank in range(ranks)]
    lengths = [len(share.unfinished) for share in shares]
    assert max(lengths) - min(lengths) <= 1
    assert [share.next for share in shares] == list(range(first, first + ranks))
    assert merged(data.draw(st.permutations(shares))) == whole

    ahead = [
        replace(
            share,
            rounds=rounds,
            unfinished=sorted(
                [*share.unfinished, *range(share.next, share.next + ranks * rounds, ranks)]
            ),
        )
        for share in shares
        for rounds in [data.draw(st.integers(0, 5))]
    ]
    end = first + ranks * max(share.rounds for share in ahead)
    after = merged(ahead)
    assert after.unfinished == sorted([*unfinished, *range(first, end)])
    assert (after.next, after.done, after.dropped, after.released) == (end, 5, 4, 3)
