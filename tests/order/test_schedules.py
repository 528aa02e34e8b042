"""Turns of a mix: in each round exactly as many as the weights say, however long the round is."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order.by_looking import turns_by_looking

from resumable.order import long_schedule, turns
from resumable.order.long_schedule import LongSchedule
from resumable.order.random_bits import derive, derive_many, random_bits, random_rows
from resumable.order.schedule import Schedule

Kind: TypeAlias = type[Schedule | LongSchedule]

kinds = st.sampled_from([Schedule, LongSchedule])
shares = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple)
seeds = st.none() | st.integers(0, 99)
sections = st.integers(1, 40)
ENDLESS = math.inf


def turns_of(schedule: Schedule | LongSchedule, count: int) -> list[tuple[int, int]]:
    """Upstream and item for each of the first ``count`` turns."""
    upstreams, items = schedule.items_of(np.arange(count, dtype=np.int64))
    return list(zip(upstreams.tolist(), items.tolist(), strict=True))


def upstream_of(schedule: Schedule | LongSchedule, turn: int) -> int:
    """Which upstream has ``turn``, asked for alone."""
    return int(schedule.items_of(np.array([turn]))[0][0])


@given(kind=kinds, parts=shares, seed=seeds, section=sections)
def test_a_round_holds_exactly_its_parts_and_each_upstream_stays_in_order(
    kind: Kind, parts: tuple[int, ...], seed: int | None, section: int
) -> None:
    with mock.patch.object(long_schedule, "SECTION", section):
        schedule = kind(parts, seed, [ENDLESS] * len(parts))
        total = sum(parts)
        turns = turns_of(schedule, 3 * total)
        assert [upstream for upstream, _ in turns] == [
            upstream_of(schedule, turn) for turn in range(3 * total)
        ]
        for upstream, part in enumerate(parts):
            assert [item for one, item in turns if one == upstream] == list(range(3 * part))
            for number in range(3):
                inside = turns[number * total : (number + 1) * total]
                assert sum(one == upstream for one, _ in inside) == part
            if seed is None:
                for place in range(len(turns)):
                    count = sum(one == upstream for one, _ in turns[:place])
                    assert abs(count - place * part / total) <= len(parts) / 2 + 1.5


@given(kind=kinds, parts=shares, seed=seeds, section=sections, data=st.data())
def test_ended_upstreams_are_passed_over_as_by_looking_at_every_turn(
    kind: Kind, parts: tuple[int, ...], seed: int | None, section: int, data: st.DataObject
) -> None:
    sizes = st.lists(st.integers(0, 30), min_size=len(parts), max_size=len(parts))
    lengths = data.draw(sizes)
    with mock.patch.object(long_schedule, "SECTION", section):
        schedule = kind(parts, seed, lengths)
        last = (max(lengths) + 1) * sum(parts)
        turns = turns_of(schedule, last)
        held = [turn for turn, (one, item) in enumerate(turns) if item < lengths[one]]
        for upstream, length in enumerate(lengths):
            assert schedule.turn_of(upstream, length) == turns.index((upstream, length))
        wanted = data.draw(st.permutations(range(len(held))))
        found = schedule.turns_with_items(np.array(wanted, np.int64))
        assert found.tolist() == [held[index] for index in wanted]
        going = data.draw(st.sets(st.sampled_from(range(len(parts))), min_size=1))
        begin = data.draw(st.integers(0, last - sum(parts)))
        assert schedule.next_turn(begin, going) == next(
            turn for turn in range(begin, last) if turns[turn][0] in going
        )


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("parts", [(1, 10**6), (3, 7 * 10**11, 10**12), (1, 2**62 - 1)])
def test_rounds_of_any_length_cost_a_section(parts: tuple[int, ...], seed: int | None) -> None:
    schedule = LongSchedule(parts, seed, [ENDLESS] * len(parts))
    total = sum(parts)
    for first in (0, 10**9, total // 2, 2**61):
        turns = np.arange(first, first + 10_000, dtype=np.int64)
        upstreams, items = schedule.items_of(turns)
        for upstream, part in enumerate(parts):
            mine = items[upstreams == upstream]
            assert (np.sort(mine) == mine[:1] + np.arange(len(mine))).all()
            assert all(abs(mine[:1] - first * part // total) <= long_schedule.SECTION)
    rare = schedule.next_turn(0, [0])
    assert abs(rare - total / parts[0] / 2) <= total / parts[0] / 2
    assert upstream_of(schedule, rare) == 0
    assert schedule.turn_of(0, 0) == rare


@given(
    kind=kinds,
    parts=shares,
    seed=seeds,
    section=sections,
    at_once=st.sampled_from([1, 30, 1000]),
    bits=st.sampled_from([1, 4, 63]),
    data=st.data(),
)
def test_turns_of_many_rounds_are_those_of_one_after_the_other(
    kind: Kind,
    parts: tuple[int, ...],
    seed: int | None,
    section: int,
    at_once: int,
    bits: int,
    data: st.DataObject,
) -> None:
    """Also where random keys of a round are equal, as those of so few ``bits`` are."""

    def few_bits(keys: Any, count: int) -> Any:
        return random_rows(keys, count) >> np.uint64(64 - bits)

    count = 6 * sum(parts)
    walked = turns_by_looking(parts, section if kind is LongSchedule else None, seed, bits=bits)
    expected = [(turn.upstream, turn.item) for turn in islice(walked, count)]
    with (
        mock.patch.object(long_schedule, "SECTION", section),
        mock.patch.object(long_schedule, "SECTIONS_AT_ONCE", at_once),
        mock.patch.object(turns, "TURNS_AT_ONCE", at_once),
        mock.patch.object(turns, "random_rows", few_bits),
    ):
        schedule = kind(parts, seed, [ENDLESS] * len(parts))
        assert turns_of(schedule, count) == expected
        some = data.draw(st.lists(st.integers(0, count - 1), max_size=10))
        upstreams, items = schedule.items_of(np.array(some, np.int64))
        found = list(zip(upstreams.tolist(), items.tolist(), strict=True))
        assert found == [expected[turn] for turn in some]


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**62), max_size=5))
def test_keys_and_bits_of_many_rounds_are_those_of_each(key: int, numbers: list[int]) -> None:
    keys = derive_many(key, np.array(numbers, np.int64))
    assert keys.tolist() == [derive(key, number) for number in numbers]
    rows = random_rows(keys, 7)
    assert rows.tolist() == [random_bits(int(one), np.arange(7)).tolist() for one in keys]


@given(
    parts=st.lists(st.integers(1, 2**40), min_size=1, max_size=5).map(tuple),
    places=st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_the_first_turns_of_a_long_round_are_those_due_first(
    parts: tuple[int, ...], places: list[float]
) -> None:
    total = sum(parts)
    turns = [int(place * total) for place in places]
    for turn, counts in zip(
        turns, long_schedule._due(parts, total, np.array(turns, object)).tolist(), strict=True
    ):
        assert sum(counts) == turn
        pairs = list(enumerate(zip(counts, parts, strict=True)))
        last = max((Fraction(2 * n - 1, w), i) for i, (n, w) in pairs if n or not turn)
        following = min((Fraction(2 * n + 1, w), i) for i, (n, w) in pairs)
        assert last < following
        assert all(0 <= n <= w for n, w in zip(counts, parts, strict=True))
