"""A mix against plain loops over its inputs, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from order.by_looking import Turn, changing_by_looking
from support.graphs import stream

import resumable as rs
from resumable.core.block import block_items
from resumable.core.identity import EPOCHS
from resumable.order import changing, long_schedule
from resumable.stages import mix

LONGEST = 8
SECTION = 5
MOST = 300


@contextmanager
def short_sections() -> Iterator[None]:
    """Rounds of more than a few turns are cut into sections of still fewer."""
    mix._schedule.cache_clear()
    try:
        with (
            mock.patch.object(changing, "LONGEST_ROUND", LONGEST),
            mock.patch.object(long_schedule, "SECTION", SECTION),
        ):
            yield
    finally:
        mix._schedule.cache_clear()


@dataclass(frozen=True)
class Mixed:
    """A mix of inputs that are shuffled anew in each of their epochs, and the same by looking."""

    lengths: list[int]
    weights: dict[int, tuple[int, ...]]
    seed: int | None
    stop: str
    reshuffle: bool
    streams: list[bool]

    def inputs(self) -> list[rs.Pipeline[Any]]:
        made = (
            rs.range(length).shuffle(number).map(partial(tagged, number))
            for number, length in enumerate(self.lengths)
        )
        return [
            each.filter(always) if streams else each
            for each, streams in zip(made, self.streams, strict=True)
        ]

    def pipeline(self) -> rs.Pipeline[Any]:
        return rs.mix(
            *self.inputs(),
            weights=self.weights if len(self.weights) > 1 else self.weights[0],
            seed=self.seed,
            stop=self.stop,
            reshuffle=self.reshuffle,
        )

    def turns(self, epoch: int | None, kept: frozenset[tuple[int, int]]) -> Iterator[Turn]:
        return changing_by_looking(self.weights, LONGEST, SECTION, self.seed, epoch, kept)

    def by_looking(self, epoch: int) -> list[Any]:
        """All items of an epoch."""
        if not self.reshuffle:
            return self.walk(self.turns(None, frozenset()), epoch)[0]
        kept: set[tuple[int, int]] = set()
        if not any(self.streams) and self.stop != "all":
            kept.add(self.walk(self.turns(None, frozenset()), epoch)[1])
        firsts = sorted(self.weights)
        for part, (first, stop) in enumerate(pairwise(firsts)):
            weights = {0: self.weights[first]}  # as if they did not change
            walked = changing_by_looking(weights, LONGEST, SECTION, self.seed)
            kept.add((part, next(islice(walked, stop - first, None)).unit))
        return self.walk(self.turns(epoch, frozenset(kept)), epoch)[0]

    def walk(self, turns: Iterator[Turn], epoch: int) -> tuple[list[Any], tuple[int, int]]:
        """The items, and the part and unit of the turn at which the mix ends."""
        items = []
        passes = [0] * len(self.lengths)
        left: list[list[Any]] = []
        for number in range(len(self.lengths)):
            left.append(self.items_of_pass(number, epoch, 0))
        ended: set[int] = set()
        for place, turn in enumerate(turns):
            having_turns = self.having_turns(place)
            if self.stop == "cycle" and having_turns <= ended:
                break
            number = turn.upstream
            if not left[number]:
                ended.add(number)
                if self.stop == "first" or having_turns <= ended:
                    break
                if self.stop == "all":
                    continue
                passes[number] += 1
                left[number] = self.items_of_pass(number, epoch, passes[number])
            items.append(left[number].pop(0))
        return items, (turn.part, turn.unit)

    def having_turns(self, turn: int) -> set[int]:
        """The inputs that have weights at ``turn``."""
        now = max(first for first in self.weights if first <= turn)
        return {number for number, weight in enumerate(self.weights[now]) if weight}

    def items_of_pass(self, number: int, epoch: int, one: int) -> list[Any]:
        upstream = self.inputs()[number]
        if self.stop != "cycle":
            return list(islice(upstream.start(epoch), MOST))
        return list(islice(upstream.start((epoch << 32) + one), MOST))


def tagged(number: int, item: int) -> tuple[int, int]:
    return number, item


def always(item: Any) -> bool:
    return True


@st.composite
def mixes(draw: st.DrawFn) -> Mixed:
    stop = draw(st.sampled_from(["first", "all", "cycle", "cycle"]))
    count = draw(st.integers(1, 3))
    several = partial(st.lists, min_size=count, max_size=count)
    seed = draw(st.none() | st.integers(0, 9))
    shares = several(st.integers(1, 5)).map(lowest)
    weights = {0: draw(shares)}
    if stop != "all":
        some = several(st.integers(0, 5)).filter(any).map(lowest)
        weights |= draw(st.dictionaries(st.integers(1, 25), shares | some, max_size=2))
        if len(weights) > 1 and draw(st.booleans()):
            weights[0] = draw(some)
        assume(all(map(any, zip(*weights.values(), strict=True))))
    return Mixed(
        lengths=draw(several(st.integers(1 if stop == "cycle" else 0, 9))),
        weights=weights,
        seed=seed,
        stop=stop,
        reshuffle=draw(st.booleans()) if seed is not None else False,
        streams=draw(several(st.booleans()) | st.just([False] * count)),
    )


def lowest(weights: list[int]) -> tuple[int, ...]:
    return tuple(int(weight) // int(np.gcd.reduce(weights)) for weight in weights)


@given(mixes(), st.data())
def test_a_mix_is_what_a_plain_loop_over_its_turns_gives(made: Mixed, data: st.DataObject) -> None:
    with short_sections():
        pipeline = made.pipeline()
        for epoch in (0, 3):
            expected = made.by_looking(epoch)
            with pipeline.start(epoch) as iterator:
                assert list(islice(iterator, len(expected) + 1)) == expected
            with pipeline.start(epoch) as iterator:
                sizes = data.draw(st.lists(st.integers(1, 9), max_size=5))
                pulled = [item for size in sizes for item in block_items(iterator.pull(size))]
                assert pulled + list(islice(iterator, len(expected) + 1)) == expected
            assert pipeline.length in (None, len(expected))
        if not any(made.streams):
            assert pipeline.random_access
            assert len(pipeline) == len(expected)
            assert list(pipeline.repeat(2)) == made.by_looking(0) + made.by_looking(1)
            if expected:
                wanted = data.draw(st.lists(st.integers(0, 2 * len(expected) - 1), max_size=9))
                twice = made.by_looking(0) + made.by_looking(1)
                found = block_items(pipeline.repeat(2).gather(np.array(wanted, np.int64)))
                assert found == [twice[index] for index in wanted]


def test_weights_by_item_may_have_names_in_any_order() -> None:
    left, right = rs.range(90), rs.range(100, 190)
    weights: dict[int, Any] = {50: {"right": 2, "left": 1}, 0: {"left": 3, "right": 1}, 20: (1, 1)}
    named = rs.mix({"left": left, "right": right}, weights=weights)
    items = list(named)
    assert items == list(rs.mix(left, right, weights={0: (3, 1), 20: (1, 1), 50: (1, 2)}))
    shares = [sum(item < 100 for item in items[start : start + 12]) for start in (0, 20, 50)]
    assert shares == [9, 6, 4]


def test_weights_that_never_change_are_plain_weights() -> None:
    plain, by_item = (
        rs.mix(rs.range(9), rs.range(9), weights=each) for each in ([2, 1], {0: [2, 1]})
    )
    with iter(plain) as iterator:
        first = list(islice(iterator, 4))
        state = iterator.get_state()
    assert first + list(by_item.resume(state)) == list(plain)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {"weights": {0: [1, 2], 9: [2, 1]}},
            r"saved weights=\{0: \(1, 2\), 5: \(2, 1\)\}, this pipeline has weights=\{0: \(1, 2\), 9: \(2, 1\)\}, "
            r"which differs from item 5 on, and items before 8 were read; .*, 5: \(2, 1\), 8: \(1, 2\), 9: \(2, 1\)\}",
        ),
        (
            {"weights": [1, 2]},
            r"saved weights=\{0: .*this pipeline has weights=\(1, 2\), which differs from item 5 on",
        ),
        ({"weights": {0: [1, 1], 5: [2, 1]}}, r"has weights=\{0: \(1, 1\), .* from item 0 on"),
        ({"reshuffle": False}, "saved reshuffle=True, this pipeline has reshuffle=False"),
        ({"stop": "first"}, "saved stop=cycle, this pipeline has stop=first"),
    ],
)
def test_another_mix_is_refused_by_the_argument_that_differs(
    other: dict[str, Any], says: str
) -> None:
    given: dict[str, Any] = {
        "weights": {0: [1, 2], 5: [2, 1]},
        "seed": 0,
        "stop": "cycle",
        "reshuffle": True,
    }
    inputs = rs.range(9), rs.range(9)
    with iter(rs.mix(*inputs, **given)) as iterator:
        iterator.skip(7)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=says):
        rs.mix(*inputs, **{**given, **other}).resume(state)


def test_an_input_without_items_cannot_begin_again() -> None:
    for inputs in ([stream(0), stream(3)], [stream(3), stream(0)], [stream(0)]):
        with pytest.raises(rs.InvalidArgument, match="which has none in epoch 0; leave it out"):
            list(rs.mix(*inputs, stop="cycle"))


def test_an_input_that_is_used_up_after_a_pass_cannot_begin_again() -> None:
    passes = [[5, 6]]
    once = rs.from_iterable(lambda: iter(passes.pop() if passes else []))
    with iter(rs.mix(once, stream(9), stop="cycle")) as iterator:
        assert list(islice(iterator, 4)) == [5, 0, 6, 1]
        with pytest.raises(rs.InvalidArgument, match="which has none in epoch 1"):
            next(iterator)


def test_a_mix_with_an_endless_input_never_ends_and_keeps_random_access() -> None:
    endless = rs.range(3).shuffle(1).repeat()
    mixed = rs.mix(endless, rs.range(10, 14), stop="cycle")
    assert mixed.length == math.inf
    assert mixed[1000:1004:2] == [endless[500], endless[501]]
    assert list(mixed.take(2000)) == mixed[:2000]
    with_streams = rs.mix(stream(3).repeat(), rs.range(10, 14), stop="cycle")
    assert len(list(islice(with_streams, 500))) == 500


def test_the_epoch_of_a_mix_is_not_that_of_its_inputs() -> None:
    mixed = rs.mix(stream(2), stream(9), stop="cycle").repeat(2)
    with iter(mixed) as iterator:
        assert [iterator.epoch for _ in iterator] == [0] * 19 + [1] * 19


def test_nothing_is_read_beyond_the_end_of_a_mix_of_streams() -> None:
    read: list[tuple[int, int]] = []

    def noted(number: int, length: int) -> rs.Pipeline[int]:
        def note(item: int) -> int:
            read.append((number, item))
            return item

        return stream(length).map(note)

    with iter(rs.mix(noted(0, 2), noted(1, 5), stop="cycle").batch(100)) as iterator:
        (batch,) = iterator
    assert batch.tolist() == [0, 0, 1, 1, 0, 2, 1, 3, 0, 4, 1]
    assert read == [(place % 2, item) for place, item in enumerate(batch.tolist())]


def test_a_schedule_is_kept_at_any_distance() -> None:
    endless = [rs.range(7).shuffle(number).repeat() for number in range(2)]
    mixed = rs.mix(*endless, weights={0: (7, 3), 10**6: (3, 7), 10**9: (1, 10**4)}, seed=0)
    near = 10**9 - 100
    expected = mixed[near : near + 300]
    with iter(mixed.shard(0, 1)) as iterator:
        assert iterator.skip(near) == near
        assert [next(iterator) for _ in range(300)] == expected


@pytest.mark.parametrize("seed", range(5))
def test_turns_drawn_anew_leave_as_many_items_of_each_input_where_weights_change(seed: int) -> None:
    weights = {0: (3, 4), 10: (4, 1), 22: (1, 5), 31: (2, 3)}
    mixed = rs.mix(rs.range(30), rs.range(100, 130), weights=weights, seed=seed, reshuffle=True)
    passes = [list(mixed.start(epoch)) for epoch in range(6)]
    assert len({tuple(items) for items in passes}) == 6
    for items in passes:
        assert len(items) == len(mixed)
        for first in (*weights, None):
            assert sorted(items[:first]) == sorted(passes[0][:first])


def test_passes_of_inputs_that_begin_again_rely_on_the_numbers_of_epochs() -> None:
    cycling, ending = (rs.mix(stream(3), stop=stop).stage for stop in ("cycle", "first"))
    assert cycling.depends_on == ending.depends_on | EPOCHS


@given(st.lists(st.integers(1, 7), min_size=2, max_size=4), st.integers(0, 3), st.booleans())
def test_a_cycle_beside_a_stream_ends_where_one_by_index_does(
    lengths: list[int], place: int, is_seeded: bool
) -> None:
    seed = 1 if is_seeded else None
    by_index = [rs.range(length) for length in lengths]
    beside = by_index.copy()
    beside[place % len(lengths)] = stream(lengths[place % len(lengths)])
    expected = list(rs.mix(*by_index, seed=seed, stop="cycle"))
    mixed = rs.mix(*beside, seed=seed, stop="cycle")
    assert list(islice(mixed, len(expected) + 1)) == expected
    with rs.mix(*beside, seed=seed, stop="cycle").start() as iterator:
        assert block_items(iterator.pull(len(expected) + 1)) == expected


def test_weights_need_an_order() -> None:
    with pytest.raises(rs.InvalidType, match=r"weights must have an order, got \{1, 3\}"):
        rs.mix(rs.range(3), rs.range(3), weights={3, 1})  # type: ignore[arg-type]
