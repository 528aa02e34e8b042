"""A mix against plain loops over its inputs, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from order.by_looking import Turn, changing_by_looking

import resumable as rs
from resumable.core.block import block_items
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
        for turn in turns:
            number = turn.upstream
            if not left[number]:
                ended.add(number)
                if self.stop == "first" or len(ended) == len(self.lengths):
                    break
                if self.stop == "all":
                    continue
                passes[number] += 1
                left[number] = self.items_of_pass(number, epoch, passes[number])
            items.append(left[number].pop(0))
        return items, (turn.part, turn.unit)

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
    changes = draw(st.dictionaries(st.integers(1, 25), shares, max_size=2)) if stop != "all" else {}
    return Mixed(
        lengths=draw(several(st.integers(1 if stop == "cycle" else 0, 9))),
        weights={0: draw(shares), **changes},
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
