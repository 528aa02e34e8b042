"""One test for each fault that was found in the order of other loaders."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.graphs import stream, with_noise

import resumable as rs


@pytest.mark.parametrize("length", [65537, 262145, 1048577])
def test_a_global_shuffle_is_a_bijection(length: int) -> None:
    block = iter(rs.range(length).shuffle(42)).pull(length)
    assert len(block) == length
    assert len(set(block.tolist())) == length


@pytest.mark.parametrize("seed", [0, 1, 41])
def test_the_next_epoch_is_not_the_order_of_the_next_seed(seed: int) -> None:
    makers: list[Callable[[int], rs.Pipeline[int]]] = [
        lambda seed: rs.range(100).shuffle(seed),
        lambda seed: stream(100).shuffle(seed, window=20),
        lambda seed: rs.range(5000).shuffle(seed),
    ]
    for make in makers:
        pipeline, following = make(seed), make(seed + 1)
        assert list(pipeline.start(1)) != list(following.start(0))


def test_a_fixed_seed_gives_another_order_each_epoch() -> None:
    for pipeline in (rs.range(100).shuffle(0), stream(100).shuffle(0, window=20)):
        items = list(pipeline.repeat(3))
        epochs = [items[:100], items[100:200], items[200:]]
        assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
        assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
        assert items == list(pipeline.repeat(3)), "and the same in every run"


@pytest.mark.parametrize("length", range(0, 60, 7))
@pytest.mark.parametrize("window", [1, 2, 10, 59, 100])
def test_a_window_shuffle_with_a_partial_last_window_keeps_every_item(
    length: int, window: int
) -> None:
    for carry in (False, True):
        assert sorted(stream(length).shuffle(3, window=window, carry=carry)) == list(range(length))


@pytest.mark.parametrize(
    "after",
    [
        lambda ranked: ranked,
        lambda ranked: ranked.map(abs).prefetch(2),
        lambda ranked: ranked.filter(lambda item: item % 3),
        lambda ranked: rs.mix(ranked, ranked.map(abs)),
        lambda ranked: ranked.shard(0, 2),
    ],
)
def test_ranks_do_not_all_draw_the_same_random_numbers(
    after: Callable[[rs.Pipeline[int]], rs.Pipeline[int]],
) -> None:
    drawn = [
        noise
        for rank in range(4)
        for _, noise in after(rs.range(48).shard(rank, 4)).random_map(with_noise, seed=1)
    ]
    assert len(set(drawn)) == len(drawn) > 20


@pytest.mark.parametrize("seed", [None, 3])
def test_small_weights_of_a_mix_are_not_rounded(seed: int | None) -> None:
    rare, common = rs.range(10**12), rs.range(-(10**18), 0)
    mixed = rs.mix(rare, common, weights=[1e-4, 1 - 1e-4], seed=seed)
    assert sum(item >= 0 for item in mixed[:300_000]) == 30
    six = rs.mix(rare, common, weights=[1, 10**6], seed=seed)
    assert six.stage.parts == (1, 10**6)  # type: ignore[attr-defined]
    assert sum(item >= 0 for item in six[10**15 + 10**9 : 10**15 + 10**9 + 2_000_002]) == 2
