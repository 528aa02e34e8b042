"""Shards: the global order is dealt out exactly, also when the number of ranks changes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs


def source(kind: str, length: int) -> rs.Pipeline[int]:
    if kind == "stream":
        return stream(length)
    return rs.range(length).shuffle(3)


def dealt(parts: list[list[Any]]) -> list[Any]:
    """The items of all ranks, round by round."""
    missing = object()
    rounds = itertools.zip_longest(*parts, fillvalue=missing)
    return [item for turn in rounds for item in turn if item is not missing]


@pytest.mark.parametrize("kind", ["random access", "stream"])
@given(length=st.integers(0, 30), count=st.integers(1, 7))
def test_the_ranks_share_the_global_order(kind: str, length: int, count: int) -> None:
    order = list(source(kind, length))
    for uneven in ("drop", "pad", "keep"):
        shards = [source(kind, length).shard(index, count, uneven=uneven) for index in range(count)]
        parts = [list(shard) for shard in shards]
        rest = length % count
        if uneven == "drop":
            assert dealt(parts) == order[: length - rest]
        elif uneven == "keep":
            assert dealt(parts) == order
        else:
            last = order[length - rest :] if rest else []
            padded = [last[index % rest] for index in range(rest, count)] if rest else []
            assert dealt(parts) == order + padded
        if kind == "random access":
            assert [len(shard) for shard in shards] == [len(part) for part in parts]


@pytest.mark.parametrize("kind", ["random access", "stream"])
@given(
    length=st.integers(0, 80),
    phases=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), max_size=5),
    batch_size=st.integers(1, 3),
)
def test_another_number_of_ranks_continues_the_global_order(
    kind: str, length: int, phases: list[tuple[int, int]], batch_size: int
) -> None:
    order = list(source(kind, length))
    got: list[int] = []
    state = None

    def rank(index: int, count: int) -> rs.Pipeline[Any]:
        return source(kind, length).shard(index, count, uneven="keep").batch(batch_size)

    for count, steps in [*phases, (1, length + 1)]:
        if (count * steps * batch_size) + len(got) > length and steps <= length:
            continue  # a phase within which the data end is the other test's
        states, parts = set(), []
        for index in range(count):
            pipeline = rank(index, count)
            iterator = pipeline.resume(state) if state else iter(pipeline)
            batches = list(itertools.islice(iterator, steps))
            parts.append([item for batch in batches for item in batch.tolist()])
            states.add(rs.dumps({**iterator.get_state(), "step": 0}))
        assert len(states) == 1, "ranks differ in their state"
        state = rs.loads(states.pop())
        got += dealt(parts)
    assert got == order


@pytest.mark.parametrize("uneven", ["drop", "pad", "keep"])
def test_a_rank_at_its_end_is_at_the_end_of_the_global_order(uneven: str) -> None:
    for index in range(4):
        with iter(rs.range(10).shard(index, 4, uneven=uneven)) as iterator:
            list(iterator)
            state = iterator.get_state()
        assert state["pipeline"] == {"position": 10}
        assert list(rs.range(10).shard(0, 1, uneven=uneven).resume(state)) == []


def test_the_state_is_the_global_position() -> None:
    with iter(rs.range(100).shard(2, 4)) as iterator:
        list(itertools.islice(iterator, 3))
        assert iterator.get_state()["pipeline"] == {"position": 12}


def test_a_shard_of_a_shuffle_gathers_whole_blocks() -> None:
    pipeline = rs.range(10**12).shuffle(0).shard(3, 8)
    assert iter(pipeline).pull(5).tolist() == rs.range(10**12).shuffle(0)[3:43:8]
