"""Partitions by laws: whoever runs them, and however often that changes, each delivers its items."""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until

import resumable as rs
from resumable.core.block import block_length

Fn = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]

ENDED: Final = object()


def numbers_in(item: Any) -> list[int]:
    """The numbers of the source of which an item was made, in order."""
    if isinstance(item, dict):
        return [number for number in item["tokens"].tolist() if number]
    return list(chain.from_iterable(map(numbers_in, item))) if isinstance(item, list) else [item]


def fails_unless(divisor: int, item: Any) -> Any:
    return item if sum(numbers_in(item)) % divisor else 1 // 0


# A stage for each kind of motion, of which ``size`` is an argument. Each item is made of numbers of
# its own partition.
STAGES: dict[str, Callable[[rs.Pipeline[Any], int], rs.Pipeline[Any]]] = {
    "filter": lambda part, size: part.filter(lambda item: sum(numbers_in(item)) % (size + 1)),
    "map": lambda part, size: part.map(lambda item: fails_unless(size + 1, item), on_error="skip"),
    "flat_map": lambda part, size: part.flat_map(
        lambda item: [item] * (sum(numbers_in(item)) % (size + 1))
    ),
    "pack": lambda part, size: part.map(numbers_in).pack(3 * size, group=2),
    "window": lambda part, size: part.shuffle(size, window=size),
    "batch": lambda part, size: part.batch(size, collate=list),
    "repeat": lambda part, size: part.repeat(min(size, 2)),
    "prefetch": lambda part, size: part.prefetch(size),
    "enumerate": lambda part, size: part.enumerate().map(lambda pair: pair[1]),
}

chains: st.SearchStrategy[list[tuple[str, int]]] = st.lists(
    st.tuples(st.sampled_from([*STAGES]), st.integers(1, 4)), max_size=4
)


def function_of(stages: Sequence[tuple[str, int]]) -> Fn:
    def build(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        for name, size in stages:
            part = STAGES[name](part, size)
        return part

    return build


class Generation(NamedTuple):
    """So many steps with so many ranks, each with so many workers."""

    ranks: int
    workers: int
    steps: int


generations = st.lists(
    st.builds(Generation, st.integers(1, 8), st.integers(0, 3), st.integers(0, 7)),
    min_size=3,
    max_size=3,
)


def turns(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """One item of each in turn; those that have ended are passed over."""
    rounds = chain.from_iterable(zip_longest(*parts, fillvalue=ENDED))
    return [item for item in rounds if item is not ENDED]


def steps_of(
    pipelines: Sequence[rs.Pipeline[Any]], state: rs.State | None, steps: int | None
) -> tuple[list[list[Any]], rs.State]:
    """What the ranks deliver in each of so many steps, or until all have ended; and the whole state."""
    own, states = [], []
    for pipeline in pipelines:
        with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
            own.append(list(islice(iterator, steps)))
            states.append(rs.loads(rs.dumps(iterator.get_state())))
    taken = zip_longest(*own, fillvalue=ENDED)
    found = [[item for item in step if item is not ENDED] for step in taken]
    return found, rs.loads(rs.dumps(rs.merge_states(states)))


@given(st.integers(1, 60), st.integers(1, 16), chains, generations)
def test_whoever_runs_the_partitions_each_delivers_its_items_in_order(
    items: int, count: int, stages: list[tuple[str, int]], plan: list[Generation]
) -> None:
    fn = function_of(stages)
    parts = [
        list(map(numbers_in, fn(rs.from_sequence(range(1 + number, 1 + items, count)))))
        for number in range(count)
    ]
    expected = turns(parts)

    def pipelines(ranks: int, workers: int) -> list[rs.Pipeline[Any]]:
        made = rs.range(1, 1 + items).partition(count, fn, workers=workers)
        ranks = min(ranks, count)
        return [made.shard(rank, ranks) for rank in range(ranks)]

    (whole,) = pipelines(1, 0)
    assert list(map(numbers_in, whole)) == expected

    done: list[list[int]] = []
    state = None
    in_order = True
    going = min(map(len, parts)) * count  # until a partition ends
    for ranks, workers, limit in [*plan, Generation(plan[0].ranks, 1, items * 100)]:
        now = pipelines(ranks, workers)
        in_order = in_order and count % len(now) == 0
        found, following = steps_of(now, state, limit)
        if workers:
            assert following == steps_of(pipelines(ranks, 0), state, limit)[1]
        state = following
        for step in found:
            delivered = list(map(numbers_in, step))
            place = len(done)
            if in_order and place + len(now) <= going:
                # The order goes on with the rank that owns the next turn, which need not be the first.
                first = place % len(now)
                assert delivered[first:] + delivered[:first] == expected[place : place + len(now)]
            done += delivered
    by_partition: dict[int, list[Any]] = defaultdict(list)
    for numbers in done:
        by_partition[(numbers[0] - 1) % count].append(numbers)
    assert [by_partition[number] for number in range(count)] == parts


@given(
    st.integers(1, 60),
    st.integers(1, 9),
    chains,
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from(["skip", "pull", "next"]), st.integers(0, 30)), max_size=6),
)
def test_items_passed_over_or_taken_together_are_those_taken_one_by_one(
    items: int,
    count: int,
    stages: list[tuple[str, int]],
    workers: int,
    moves: list[tuple[str, int]],
) -> None:
    numbers = rs.range(1, 1 + items).shuffle(0)
    fn = function_of(stages)
    with (
        iter(numbers.partition(count, fn)) as one_by_one,
        iter(numbers.partition(count, fn, workers=workers)) as iterator,
    ):
        for move, size in moves:
            taken = list(map(numbers_in, islice(one_by_one, size)))
            if move == "skip":
                assert iterator.skip(size) == len(taken)
            else:
                block = iterator.pull(size) if move == "pull" else list(islice(iterator, size))
                assert block_length(block) == len(taken)
            assert iterator.get_state() == one_by_one.get_state()
        assert list(map(numbers_in, iterator)) == list(map(numbers_in, one_by_one))


def test_what_is_passed_over_does_not_end_with_the_first_partition_that_ends() -> None:
    numbers = rs.range(9).partition(4, lambda part: part.filter(lambda number: number != 7))
    for passed in range(9):
        with iter(numbers) as iterator:
            assert iterator.skip(passed) == min(passed, 8)
            assert list(iterator) == [0, 1, 2, 3, 4, 5, 6, 8][passed:]
            assert iterator.skip(9) == 0


HOLD_ITEMS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "window shuffle": lambda rank: rank.shuffle(1, window=5),
    "window": lambda rank: rank.window(3, shift=2),
    "pack": lambda rank: rank.map(numbers_in).pack(8, group=3),
    "bucket": lambda rank: rank.bucket(abs, batch_size=2, group=3),
    "scan": lambda rank: rank.scan(lambda total, item: (total, item), 0),
    "flat_map": lambda rank: rank.flat_map(lambda item: [item, item]),
    "interleave": lambda rank: rank.interleave_map(lambda item: [item, item], 2),
    "map_batches": lambda rank: rank.map_batches(list, batch_size=2),
    "unbatch": lambda rank: rank.batch(2).unbatch(),
    "rebatch": lambda rank: rank.batch(2).rebatch(3),
    "function with state": lambda rank: rank.map(Total()),
    "collate with state": lambda rank: rank.batch(2, collate=Total()),
    "predicate with state": lambda rank: rank.filter(Total()),
    "condition with state": lambda rank: rank.take_while(Total()),
    "mix": lambda rank: rs.mix(rank, rank, seed=0),
    "take": lambda rank: rank.take(30),
    "skip": lambda rank: rank.skip(1),
    "enumerate": lambda rank: rank.enumerate(),
    "take_while": lambda rank: rank.take_while(abs),
    "map skipping": lambda rank: rank.map(abs, on_error="skip"),
    "stage of one's own": lambda rank: rank.apply(Held),
}
HOLD_NONE: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "map": lambda rank: rank.map(abs).random_map(lambda item, rng: item, 0).filter(bool),
    "batch": lambda rank: rank.batch(2),
    "repeat": lambda rank: rank.repeat(2).prefetch(2),
}


class Total:
    """A function with state."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, item: Any) -> Any:
        return item

    def get_state(self) -> int:
        return self.total

    def set_state(self, state: int) -> None:
        self.total = state


class Held(rs.Transform[Any]):
    """A stage that says nothing about what it holds."""

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return self.upstream.start(epoch)


def after_shard(
    stage: Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]], rank: int, ranks: int
) -> rs.Pipeline[Any]:
    return stage(rs.range(1, 49).partition(4, lambda part: part.map(abs)).shard(rank, ranks))


@pytest.mark.parametrize("name", [*HOLD_ITEMS, *HOLD_NONE])
def test_only_a_stage_that_holds_items_of_its_rank_fixes_the_ranks(name: str) -> None:
    stage = (HOLD_ITEMS | HOLD_NONE)[name]
    states = []
    for rank, ranks in ((0, 2), (1, 2), (0, 1)):
        with iter(after_shard(stage, rank, ranks)) as iterator:
            next(iterator)
            states.append(iterator.get_state())
    with after_shard(stage, 1, 2).resume(states[1]) as own:
        next(own)
    if name in HOLD_NONE:
        after_shard(stage, 0, 1).resume(rs.merge_states(states[:2])).close()
        after_shard(stage, 1, 2).resume(states[2]).close()
        return
    with pytest.raises(rs.StateMismatch, match=" holds items of its rank after Partition"):
        rs.merge_states(states[:2])
    with pytest.raises(rs.StateMismatch, match=r"saved count of ranks=1.* holds items of its rank"):
        after_shard(stage, 0, 2).resume(states[2])


@pytest.mark.usefixtures("states_kept_rarely")
def test_after_an_error_the_ranks_stay_the_same() -> None:
    def pipeline(rank: int, ranks: int) -> rs.Pipeline[int]:
        parts = rs.range(24).partition(4, lambda part: part.map(lambda item: 1 // (item - 9)))
        return parts.shard(rank, ranks)

    with iter(pipeline(0, 1)) as iterator:
        with pytest.raises(ZeroDivisionError):
            list(iterator)
        state = iterator.get_state()
    assert state["ahead"]
    with pytest.raises(rs.StateMismatch, match="count of ranks"):
        pipeline(0, 2).resume(state)


def drawn(item: int, rng: np.random.Generator) -> tuple[int, float]:
    return item, rng.random()


def test_an_item_meets_the_same_random_numbers_before_within_and_after_partitions() -> None:
    numbers = rs.range(24).shuffle(1)
    before = sorted(numbers.random_map(drawn, 0))
    within = numbers.partition(4, lambda part: part.random_map(drawn, 0))
    after = numbers.partition(4, lambda part: part.map(abs)).random_map(drawn, 0)
    assert len({number for _, number in before}) == 24
    for dealt in (within, after):
        assert sorted(item for rank in range(2) for item in dealt.shard(rank, 2)) == before


def test_a_map_that_counts_what_it_drops_stands_within_the_partitions() -> None:
    parts = rs.range(9).partition(3, lambda part: part.map(abs))
    with pytest.raises(rs.InvalidArgument, match="shard cannot keep the partitions before Map"):
        parts.map(abs, on_error="skip").shard(0, 3)


def test_padding_computes_each_item_again_once() -> None:
    calls: list[int] = []

    def noted(item: int) -> int:
        calls.append(item)
        return item

    padded = rs.range(300).partition(3, lambda part: part.map(noted), workers=1)
    batches = list(padded.shard(1, 2, uneven="pad").batch(4))
    assert sum(map(len, batches)) == 200
    assert len(calls) <= 2 * 100 + 100


def test_a_dropped_pass_leaves_nothing_of_the_partitions_open() -> None:
    opened: list[weakref.ref[Any]] = []

    def held(item: int) -> Any:
        opened.append(weakref.ref(source := Endless()))
        return source

    for _ in rs.range(64).partition(4, lambda part: part.flat_map(held), workers=2):
        break
    gc.collect()
    wait_until(lambda: not any(one() for one in opened))


class Endless:
    """Items that stay alive as long as somebody iterates over them."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield id(self)


def test_the_epoch_is_that_of_the_item_handed_out_last() -> None:
    repeated = rs.range(6).partition(3, lambda part: part.repeat(3))
    with iter(repeated) as iterator:
        epochs = [iterator.epoch for _ in iterator]
    assert epochs == [0] * 6 + [1] * 6 + [2] * 6


def test_the_number_of_partitions_is_fixed() -> None:
    with iter(rs.range(20).partition(4, lambda part: part.map(float))) as iterator:
        state = iterator.get_state()
    with pytest.raises(
        rs.StateMismatch,
        match="saved count of partitions=4, this pipeline has count of partitions=5; the number of "
        "partitions is fixed for a run",
    ):
        rs.range(20).partition(5, lambda part: part.map(float)).resume(state)
