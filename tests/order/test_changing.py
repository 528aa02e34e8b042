"""Weights that change: schedules one after the other, against walking through their turns."""

from __future__ import annotations

import math
from itertools import islice
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order.by_looking import changing_by_looking

from resumable.order import changing, long_schedule
from resumable.order.changing import ChangingSchedule, schedule_of

COUNT = 120


@given(
    shares=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=4),
    lengths=st.lists(st.integers(1, 30), min_size=3, max_size=3),
    seed=st.none() | st.integers(0, 9),
    data=st.data(),
)
def test_turns_are_found_as_by_walking_through_them(
    shares: list[tuple[int, int]], lengths: list[int], seed: int | None, data: st.DataObject
) -> None:
    firsts = np.cumsum([0, *lengths])[: len(shares)].tolist()
    weights = dict(zip(firsts, shares, strict=True))
    walked = list(islice(changing_by_looking(weights, 8, 5, seed), COUNT))
    with (
        mock.patch.object(changing, "LONGEST_ROUND", 8),
        mock.patch.object(long_schedule, "SECTION", 5),
    ):
        changes = list(weights.items())[1:]
        schedule = schedule_of(shares[0], changes, seed, [math.inf] * 2)
        assert isinstance(schedule, ChangingSchedule)
        some = data.draw(st.lists(st.integers(0, COUNT - 1), max_size=9))
        for turns in (some, range(COUNT)):
            upstreams, items = schedule.items_of(np.array(turns, np.int64))
            assert upstreams.tolist() == [walked[turn].upstream for turn in turns]
            assert items.tolist() == [walked[turn].item for turn in turns]
        first = data.draw(st.integers(0, COUNT - 1))
        count = data.draw(st.integers(1, COUNT - first))
        row = schedule.upstreams_from(first, count).tolist()
        assert row == [turn.upstream for turn in walked[first : first + count]]
        for number, turn in enumerate(walked):
            assert schedule.turn_of(turn.upstream, turn.item) == number
        for upstream in (0, 1):
            begin = data.draw(st.integers(0, COUNT - 20))
            expected = next(
                turn for turn in range(begin, COUNT) if walked[turn].upstream == upstream
            )
            assert schedule.next_turn(begin, [upstream]) == expected


@pytest.mark.parametrize("parts", [(1, 2), (2**40, 3 * 2**40 + 1)])
def test_the_last_part_goes_as_far_as_any_schedule(parts: tuple[int, int]) -> None:
    schedule = schedule_of((1, 1), [(10**9, (2, 1)), (2**61, parts)], 3, [math.inf] * 2)
    turns = np.arange(2**61 - 500, 2**61 + 500, dtype=np.int64)
    upstreams, items = schedule.items_of(turns)
    for upstream in (0, 1):
        mine = np.flatnonzero(upstreams == upstream)
        assert (np.diff(items[mine]) == 1).all()
        for place in mine[[0, -1]].tolist():
            assert schedule.turn_of(upstream, int(items[place])) == turns[place]
    assert schedule.turn_of(0, 2**62) >= 2**62
