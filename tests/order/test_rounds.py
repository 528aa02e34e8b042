"""Turns of partitions are those of a plain loop."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from resumable.order.rounds import turns_in_rounds

partitions = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=9)


def turns_one_by_one(positions: Sequence[int], ended: Sequence[bool], count: int) -> list[int]:
    moved, turns = list(positions), []
    for _ in range(count):
        going = [place for place, over in enumerate(ended) if not over]
        if not going:
            break
        turns.append(min(going, key=moved.__getitem__))
        moved[turns[-1]] += 1
    return turns


@given(partitions, st.integers(0, 40), st.integers(0, 2**60))
@example([(1, False), (1, False), (0, False)], 4, 0)
@example([(2, False), (1, True), (1, False)], 4, 0)
def test_turns_are_those_of_a_plain_loop(
    parts: list[tuple[int, bool]], count: int, done: int
) -> None:
    positions, ended = [position for position, _ in parts], [over for _, over in parts]
    expected = turns_one_by_one(positions, ended, count)
    assert turns_in_rounds(positions, ended, count).tolist() == expected
    # What all have handed out before makes no difference.
    moved = [done + position for position in positions]
    assert turns_in_rounds(moved, ended, count).tolist() == expected


@given(partitions, st.integers(0, 20), st.integers(0, 20))
def test_turns_that_are_planned_in_two_parts_are_the_same(
    parts: list[tuple[int, bool]], count: int, more: int
) -> None:
    positions, ended = [position for position, _ in parts], [over for _, over in parts]
    turns = turns_in_rounds(positions, ended, count)
    for place in turns.tolist():
        positions[place] += 1
    following = turns_in_rounds(positions, ended, more)
    positions = [position for position, _ in parts]
    whole = turns_in_rounds(positions, ended, count + more)
    assert [*turns.tolist(), *following.tolist()] == whole.tolist()


def test_those_far_behind_catch_up_in_bounded_time() -> None:
    turns = turns_in_rounds([2**62, 0, 2**62], [False] * 3, 9)
    assert turns.tolist() == [1] * 9
