"""An item meets the same random numbers wherever and by whom it is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import noise_but_thirds, stream, with_noise

import resumable as rs

lengths = st.integers(0, 40)
seeds = st.integers(0, 2**64 - 1)


def dealt(pipelines: Sequence[Iterable[Any]], rounds: int) -> tuple[list[Any], list[bytes]]:
    """Up to ``rounds`` items of each rank in their global order, and the states after them."""
    iterators: list[Any] = [iter(pipeline) for pipeline in pipelines]
    items = [
        item for _ in range(rounds) for one in iterators if (item := next(one, None)) is not None
    ]
    return items, [rs.dumps(one.get_state()) for one in iterators]


@given(
    length=lengths,
    before=st.integers(1, 5),
    after=st.integers(1, 5),
    rounds=st.integers(0, 12),
    seed=seeds,
    workers=st.sampled_from([0, 2]),
    streamed=st.booleans(),
    shuffled=st.booleans(),
)
def test_ranks_may_change_in_mid_epoch_and_draw_what_one_alone_would(
    length: int,
    before: int,
    after: int,
    rounds: int,
    seed: int,
    workers: int,
    streamed: bool,
    shuffled: bool,
) -> None:
    order = stream(length) if streamed else rs.range(length)
    order = order.shuffle(3) if shuffled and not streamed else order

    def ranks(count: int) -> list[rs.Pipeline[Any]]:
        return [
            order.shard(rank, count, uneven="keep")
            .map(abs)
            .random_map(with_noise, seed, workers=workers)
            for rank in range(count)
        ]

    alone = list(order.random_map(with_noise, seed))
    items, states = dealt(ranks(before), rounds)
    if rounds * before <= length:
        assert len(set(states)) == 1
    resumed = [one.resume(rs.loads(states[0])) for one in ranks(after)]
    assert items + dealt(resumed, length)[0] == alone


@given(length=lengths, ranks=st.integers(1, 5), seed=seeds)
def test_it_is_the_same_before_and_after_a_shard(length: int, ranks: int, seed: int) -> None:
    for rank in range(ranks):
        before = rs.range(length).random_map(with_noise, seed).shard(rank, ranks)
        after = rs.range(length).shard(rank, ranks).random_map(with_noise, seed)
        assert list(before) == list(after) == after[:]


@given(length=lengths, inner=st.integers(1, 3), outer=st.integers(1, 3), seed=seeds)
def test_shards_of_shards_draw_what_one_alone_would(
    length: int, inner: int, outer: int, seed: int
) -> None:
    alone = dict(rs.range(length).random_map(with_noise, seed))
    for rank in range(inner):
        for worker in range(outer):
            part = rs.range(length).shard(rank, inner).shard(worker, outer)
            assert dict(part.random_map(with_noise, seed)).items() <= alone.items()


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_workers_compute_the_same_with_the_same_states(executor: str) -> None:
    if executor == "process":
        pytest.importorskip("loky")
    for on_error in ("skip", "raise"):
        source = stream(30) if on_error == "skip" else stream(30).map(lambda n: 3 * n + 1)
        plain = source.random_map(noise_but_thirds, 3, on_error=on_error)
        parallel = source.random_map(
            noise_but_thirds, 3, workers=2, executor=executor, on_error=on_error
        )
        with iter(plain) as alone, iter(parallel) as helped:
            for _ in range(7):
                assert next(alone) == next(helped)
                assert alone.get_state() == helped.get_state()
            state = rs.loads(rs.dumps(helped.get_state()))
            assert list(plain.resume(state)) == list(alone) == list(helped)


def test_dropped_items_are_told_by_their_number() -> None:
    told: list[int] = []
    pipeline = rs.range(9).random_map(
        noise_but_thirds, on_error="skip", on_skip=lambda number, _: told.append(number)
    )
    with iter(pipeline) as iterator:
        assert [item for item, _ in iterator] == [10, 5] * 3
        assert iterator.skipped == {"pipeline": 3}
    assert told == [0, 3, 6]


def test_batches_of_ranks_are_numbered_across_the_ranks() -> None:
    def drawn(batch: Any, rng: np.random.Generator) -> float:
        return rng.random()

    ranks = [rs.range(24).shard(rank, 2).batch(3).random_map(drawn, 1) for rank in range(2)]
    assert dealt(ranks, 4)[0] == list(rs.range(8).random_map(drawn, 1))
    with pytest.raises(rs.StateMismatch, match="saved count=2"):
        rs.range(24).shard(0, 3).batch(3).random_map(drawn, 1).resume(iter(ranks[0]).get_state())


def test_a_state_from_before_ranks_drew_different_numbers_is_refused() -> None:
    pipeline = rs.range(9).shard(1, 2).random_map(with_noise, 1)
    state = iter(pipeline).get_state()
    older = {
        **state,
        "fingerprint": state["fingerprint"].replace(',"over_ranks":true', ""),
    }
    with pytest.raises(rs.StateMismatch, match="gave every rank the same random numbers"):
        pipeline.resume(older)


def test_errors_of_a_state_name_the_stage_and_not_its_parts() -> None:
    pipeline = rs.range(9).random_map(with_noise, 1).batch(2)
    state = iter(pipeline).get_state()
    state["pipeline"]["upstream"]["position"] = 99
    with pytest.raises(
        rs.StateMismatch, match=r"RandomMap.* at pipeline.upstream: saved position=99"
    ):
        pipeline.resume(state)


def test_a_shard_that_was_added_is_told_apart_from_an_older_state() -> None:
    state = iter(rs.range(9).random_map(with_noise, 1)).get_state()
    with pytest.raises(rs.StateMismatch, match="was a shard added or removed before it"):
        rs.range(9).shard(0, 2).random_map(with_noise, 1).resume(state)


@pytest.mark.parametrize("ranks", [1, 3])
def test_places_may_be_beyond_all_that_is_counted(ranks: int) -> None:
    endless = rs.range(10).shard(0, ranks).repeat().random_map(with_noise, 1)
    with iter(endless) as iterator:
        iterator.skip(2**61 + 1)
        again = endless.resume(rs.loads(rs.dumps(iterator.get_state())))
        assert next(again) == next(iterator)


def test_a_function_with_state_is_refused_with_workers() -> None:
    class Dice:
        def __call__(self, item: int, rng: np.random.Generator) -> int:
            return item

        def get_state(self) -> int:
            return 0

        def set_state(self, state: int) -> None: ...

    with pytest.raises(rs.InvalidArgument, match="workers must be 0 for a function that carries"):
        rs.range(3).random_map(Dice(), workers=2)
    assert list(rs.range(3).random_map(Dice())) == [0, 1, 2]
