"""Ranks of partitions that end together: by dropping, by repeating, or not at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.core import block_items

STAGES = ("map", "batch", "shuffle", "window", "repeat")
sizes = st.integers(1, 40)


def part_of(part: rs.Pipeline[int], stage: str) -> rs.Pipeline[Any]:
    if stage == "batch":
        return part.batch(2, collate=tuple)
    if stage == "shuffle":
        return part.shuffle(1)
    if stage == "window":
        return part.shuffle(1, window=3)
    return part.repeat(2) if stage == "repeat" else part.map(abs)


def rank_of(
    items: int, count: int, stage: str, rank: int, ranks: int, uneven: str, workers: int = 0
) -> rs.Pipeline[Any]:
    numbers = rs.range(items).shuffle(0)
    parts = numbers.partition(count, lambda part: part_of(part, stage), workers=workers)
    return parts.shard(rank, ranks, uneven=uneven)


@given(sizes, st.integers(1, 12), st.sampled_from(STAGES), st.integers(1, 8), st.integers(0, 2))
def test_all_ranks_have_the_steps_of_the_shortest_the_longest_or_their_own(
    items: int, count: int, stage: str, ranks: int, workers: int
) -> None:
    ranks = min(ranks, count)

    def of_all(uneven: str) -> list[list[object]]:
        pipelines = [
            rank_of(items, count, stage, rank, ranks, uneven, workers) for rank in range(ranks)
        ]
        found = [list(pipeline) for pipeline in pipelines]
        assert [len(own) for own in found] == [pipeline.length for pipeline in pipelines]
        return found

    kept = of_all("keep")
    (whole,) = [list(rank_of(items, count, stage, 0, 1, "keep"))]
    assert Counter(item for own in kept for item in own) == Counter(whole), "nothing is lost"
    shortest, longest = min(map(len, kept)), max(map(len, kept))
    assert of_all("drop") == [own[:shortest] for own in kept]
    if shortest:
        # A rank that has ended repeats its last items, as many as there are steps left.
        padded = [own + repeated(own, longest - len(own)) for own in kept]
        assert of_all("pad") == padded
    elif longest:
        with pytest.raises(rs.InvalidArgument, match=r"the partitions of rank .* have none"):
            of_all("pad")


def repeated(own: list[Any], count: int) -> list[Any]:
    first = -count % len(own)
    return [own[(first + number) % len(own)] for number in range(count)]


@given(
    sizes,
    st.integers(1, 12),
    st.sampled_from(STAGES),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=3, max_size=3),
    st.sampled_from(["drop", "pad"]),
)
def test_other_ranks_in_mid_epoch_end_together_and_lose_no_more_than_the_last_ones_drop(
    items: int, count: int, stage: str, plan: list[tuple[int, int]], uneven: str
) -> None:
    done: list[object] = []
    state = None
    for ranks, steps in [*plan, (plan[0][0], 10**6)]:
        ranks = min(ranks, count, items)
        own, states = [], []
        for rank in range(ranks):
            pipeline = rank_of(items, count, stage, rank, ranks, uneven)
            with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
                own.append(list(islice(iterator, steps)))
                states.append(iterator.get_state())
        assert len({*map(len, own)}) == 1, "ranks end at different steps"
        state = rs.loads(rs.dumps(rs.merge_states(states)))
        for rank in range(ranks):  # a rank may also resume from the state of its own alone
            alone = rank_of(items, count, stage, rank, ranks, uneven).resume(states[rank])
            joined = rank_of(items, count, stage, rank, ranks, uneven).resume(state)
            assert list(islice(alone, 5)) == list(islice(joined, 5))
        done += [item for found in own for item in found]
    whole = Counter(rank_of(items, count, stage, 0, 1, "keep"))
    if uneven == "drop":
        assert Counter(done) <= whole
    else:
        assert Counter(done) >= whole, "a rank that pads has handed out all it has"


def test_another_number_of_ranks_needs_all_partitions() -> None:
    with iter(rank_of(20, 6, "map", 0, 2, "drop")) as iterator:
        next(iterator)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=r"state of all partitions, got that of 3 of 6"):
        rank_of(20, 6, "map", 0, 6, "drop").resume(state)
    for number in (4, 6):
        with pytest.raises(
            rs.StateMismatch, match="join the states of all ranks with merge_states"
        ):
            rank_of(20, 6, "map", 1, number, "keep").resume(state)


def test_another_way_to_end_needs_all_partitions() -> None:
    states = []
    for rank in range(2):
        with iter(rank_of(21, 6, "map", rank, 2, "pad")) as iterator:
            next(iterator)
            states.append(iterator.get_state())
    with pytest.raises(rs.StateMismatch, match="another way to even out their steps, needs"):
        rank_of(21, 6, "map", 0, 2, "drop").resume(states[0])
    whole = rs.merge_states(states)
    assert len(list(rank_of(21, 6, "map", 0, 2, "drop").resume(whole))) == 9
    assert len(list(rank_of(21, 6, "map", 0, 2, "pad").resume(whole))) == 10


def test_a_saved_number_of_steps_is_no_more_than_there_are() -> None:
    with iter(rank_of(20, 6, "map", 0, 2, "drop")) as iterator:
        state = iterator.get_state()
    state["pipeline"]["left"] = 50
    with pytest.raises(rs.StateMismatch, match="saved left=50 lies beyond 10 steps"):
        rank_of(20, 6, "map", 0, 2, "drop").resume(state)


def test_partitions_of_an_endless_upstream_may_end() -> None:
    endless = rs.range(10).repeat().partition(3, lambda part: part.take(3))
    assert len(endless) == len(list(endless)) == 9
    for uneven in ("drop", "pad"):
        assert len(list(endless.shard(0, 2, uneven=uneven))) == (3 if uneven == "drop" else 6)


@pytest.mark.parametrize("ranks", range(1, 5))
def test_a_rank_whose_partitions_have_no_records_ends_where_others_are_endless(ranks: int) -> None:
    parts = rs.range(2).partition(4, lambda part: part.repeat())
    lengths = [math.inf if {rank, rank + ranks} & {0, 1} else 0 for rank in range(ranks)]
    for rank, length in enumerate(lengths):
        own = parts.shard(rank, ranks)
        assert own.length == length
        assert len(own.take(5)) == len(list(own.take(5))) == min(length, 5)
        for uneven in ("drop", "pad"):
            if 0 in lengths:
                with pytest.raises(
                    rs.InvalidArgument, match=f"rank 2 of {ranks} end after 0 items"
                ):
                    parts.shard(rank, ranks, uneven=uneven)
            else:
                assert len(list(parts.shard(rank, ranks, uneven=uneven).take(5))) == 5


def test_what_was_dropped_is_counted_while_a_rank_pads() -> None:
    with iter(
        rs.range(10).partition(3, lambda part: part.map(abs)).shard(1, 2, uneven="pad")
    ) as one:
        for _ in one:
            assert one.skipped == {}


@given(
    records=st.sets(st.integers(0, 19), max_size=4),
    ranks=st.integers(1, 4),
    first=st.sampled_from([0, 2]),
)
def test_records_that_are_left_out_of_some_partitions_count_in_the_steps(
    records: set[int], ranks: int, first: int
) -> None:
    left_out = {0: [], first: sorted(records)} if first else sorted(records)

    def of_all(uneven: str) -> list[list[int]]:
        parts = rs.range(20).partition(4, lambda part: part.exclude(left_out))
        pipelines = [parts.shard(rank, ranks, uneven=uneven) for rank in range(ranks)]
        found = [list(pipeline) for pipeline in pipelines]
        assert [*map(len, found)] == [*map(len, pipelines)]
        return found

    kept = of_all("keep")
    shortest, longest = min(map(len, kept)), max(map(len, kept))
    assert of_all("drop") == [own[:shortest] for own in kept]
    assert of_all("pad") == [own + repeated(own, longest - len(own)) for own in kept]


class EverySecond(rs.TransformIterator[int]):
    def pull(self, count: int) -> list[int]:
        return block_items(self._upstream.pull(2 * count))[::2]


@dataclass(frozen=True, eq=False, repr=False)
class SaysTwice(rs.Transform[int]):
    """Every second item, though its length says that it has all of them."""

    @property
    def length(self) -> Any:
        return self.upstream.length

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return EverySecond(self, epoch)


WAYS: dict[str, Callable[[rs.Pipeline[int]], Any]] = {
    "items": list,
    "blocks": lambda pipeline: iter(pipeline).pull(9),
    "skips": lambda pipeline: iter(pipeline).skip(9),
}


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("way", WAYS)
def test_no_item_is_repeated_in_the_place_of_those_that_a_length_only_says(
    way: str, uneven: str
) -> None:
    parts = rs.range(24).partition(4, lambda part: part.apply(SaysTwice))
    with pytest.raises(rs.InvalidArgument, match="as their length says, got 6 fewer of 12"):
        WAYS[way](parts.shard(0, 2, uneven=uneven))
