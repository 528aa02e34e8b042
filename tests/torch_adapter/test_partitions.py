"""Workers that own partitions: nothing is read twice, and any number of them goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resumable_torch import (  # noqa: E402
    PartitionedState,
    PipelineDataset,
    ResumableDataLoader,
)
from resumable_torch.batch_states import BYTES_A_BATCH  # noqa: E402
from resumable_torch.cursor import KEY  # noqa: E402
from support.graphs import RunningSum  # noqa: E402
from support.tiers import examples  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.core.merging import merge_owner_states  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

MAIN = os.getpid()
GENERATIONS = 3


def good(number: int) -> bool:
    return number % 5 != 3


def repeated(number: int) -> list[int]:
    """Each number once, and some of them with a companion."""
    return [number, -number] if number % 7 == 4 else [number]


def filtered(part: Any) -> Any:
    return part.filter(good).flat_map(repeated).shuffle(1, window=3)


def partitioned(length: int, count: int, rank: int = 0, ranks: int = 1, **options: Any) -> Any:
    numbers = rs.range(length).shuffle(seed=0)
    return numbers.partition(count, filtered, **options).shard(rank, ranks)


def loader_over(pipeline: Any, batch_size: int | None = None, **options: Any) -> Any:
    dataset = PipelineDataset(pipeline)
    return ResumableDataLoader(dataset, batch_size, collate_fn=as_it_is, **options)


def as_it_is(batch: Any) -> Any:
    return batch


def saved(loader: Any) -> Any:
    return rs.loads(loader.state_dict()[KEY])


def taken(iterators: list[Iterator[int]], rounds: int) -> list[int]:
    """What ranks deliver that go step by step together."""
    turns = zip_longest(*(islice(iterator, rounds) for iterator in iterators))
    return [item for turn in turns for item in turn if item is not None]


def steps(items: list[int], ranks: int) -> list[list[int]]:
    """The items of each step: it may be another rank than the first that has the first of them."""
    return [sorted(items[at : at + ranks]) for at in range(0, len(items), ranks)]


def ended(state: Any, pipeline: Any) -> bool:
    """Whether a partition has handed out its last item, noticed or not."""
    with iter(pipeline) as iterator:
        iterator.skip(1000)
        lengths = iterator.get_state()["pipeline"]["positions"]
    return any(map(int.__ge__, state["pipeline"]["positions"], lengths))


@settings(max_examples=max(examples() // 3, 4), phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_ranks_and_workers_may_change_in_mid_epoch(data: st.DataObject) -> None:
    length, count = data.draw(st.integers(30, 90)), data.draw(st.sampled_from([1, 2, 4, 6, 12]))
    whole = list(partitioned(length, count))
    state: rs.State | None = None
    done: list[Any] = []
    in_order = True
    for generation in range(GENERATIONS):
        last = generation == GENERATIONS - 1
        ranks = data.draw(st.integers(1, min(count, 3)))
        workers = data.draw(st.integers(0, min(count // ranks, 3)))
        rounds = length * 2 if last else data.draw(st.integers(0, 9))
        loaders: list[ResumableDataLoader[Any]] = [
            loader_over(partitioned(length, count, rank, ranks), num_workers=workers)
            for rank in range(ranks)
        ]
        if state is not None:
            for loader in loaders:
                loader.load_state_dict({KEY: rs.dumps(state)})
        iterators = [iter(loader) for loader in loaders]
        got = taken(iterators, rounds)
        if last:
            done += got
            break
        states = [saved(loader) for loader in loaders]
        state = merge_owner_states(states)
        at_once = count % ranks == 0 and (count // ranks) % max(workers, 1) == 0
        in_order = in_order and at_once and not ended(state, partitioned(length, count))
        if in_order:
            assert steps(got, ranks) == steps(whole[len(done) : len(done) + len(got)], ranks)
            plain = [iter(partitioned(length, count, rank, ranks)) for rank in range(ranks)]
            if generation == 0 and rounds:  # the same bytes as without workers
                taken(plain, rounds)
                for one, loader in zip(plain, loaders, strict=True):
                    assert rs.dumps(one.get_state()) == loader.state_dict()[KEY]
        rest = list(partitioned(length, count).resume(state))
        assert sorted(done + got + rest) == sorted(whole)
        done += got
        del iterators
    assert sorted(done) == sorted(whole)


class Counted:
    """Writes down each number that it is called with, in whichever process that is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, number: int) -> int:
        with self.path.open("a") as log:
            log.write(f"{number}\n")
        return number

    def calls(self) -> list[int]:
        return sorted(map(int, self.path.read_text().split())) if self.path.exists() else []


@pytest.mark.parametrize("batch_size", [None, 3])
def test_the_workers_of_all_ranks_together_read_everything_once(
    batch_size: int | None, tmp_path: Path
) -> None:
    read = Counted(tmp_path / "read")
    delivered: list[Any] = []
    for rank in range(2):
        pipeline = (
            rs.range(60)
            .partition(6, lambda part: part.map(read).filter(good))
            .shard(rank, 2)
            .map(abs)
            .random_map(lambda number, rng: number, seed=1)
            .prefetch(2)
        )
        loader = loader_over(pipeline, batch_size, num_workers=3)
        for batch in loader:
            delivered += [batch] if batch_size is None else batch
            saved(loader)  # reads nothing again either
    assert sorted(delivered) == list(filter(good, range(60)))
    assert read.calls() == list(range(60))


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_own_the_partitions_of_pipelines_by_epoch(persistent: bool, tmp_path: Path) -> None:
    def by_epoch(read: Any = abs) -> Any:
        data = rs.by_epoch({0: rs.range(40), 1: rs.range(40, 61), 3: rs.range(90, 130)})
        return data.partition(6, lambda part: part.map(read).filter(good)).map(abs)

    read = Counted(tmp_path / "read")
    loader = loader_over(by_epoch(read), 3, num_workers=3, persistent_workers=persistent)
    lengths = {0: range(40), 1: range(40, 61), 2: range(40, 61), 3: range(90, 130)}
    for epoch, numbers in lengths.items():
        loader.set_epoch(epoch)
        batches = []
        for batch in loader:
            batches.append(batch)
            if len(batches) == 2:
                state = saved(loader)
        assert sorted(chain(*batches)) == list(filter(good, numbers))
        for workers in (0, 2):
            other = loader_over(by_epoch(), 3, num_workers=workers)
            other.load_state_dict({KEY: rs.dumps(state)})
            assert sorted(chain(*batches[:2], *other)) == list(filter(good, numbers))
    assert read.calls() == sorted(chain(*lengths.values()))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_state_after_any_batch_goes_on_with_any_workers(
    batch_size: int | None, persistent: bool
) -> None:
    pipeline = partitioned(40, 6)
    options: dict[str, Any] = {"num_workers": 3, "persistent_workers": persistent}
    loader = loader_over(pipeline, batch_size, **options)
    states, batches, epochs = [loader.state_dict()], [], []
    for _ in range(2):
        for batch in loader:
            batches.append([batch] if batch_size is None else batch)
            states.append(loader.state_dict())
            epochs.append(loader.epoch)
            if len(batches) > 1 and epochs[-1] == epochs[-2]:
                assert loader.state_dict(held=1) == states[-2]
    size = epochs.count(0)
    for epoch, one_pass in enumerate((batches[:size], batches[size:])):
        assert sorted(chain(*one_pass)) == sorted(pipeline.start(epoch))
    for stop in range(0, len(batches), 11):
        state = states[stop]
        first_pass = list(chain(*(batches[stop:size] if stop < size else batches[stop:])))
        rest = pipeline.resume(rs.loads(state[KEY]))
        assert sorted(rest) == sorted(first_pass)
        assert rest.step == rs.loads(state[KEY])["step"] + len(first_pass)
        for workers in (0, 2):
            again = loader_over(pipeline, None, num_workers=workers)
            again.load_state_dict(state)
            assert again.state_dict() == state
            assert sorted(again) == sorted(first_pass)


def test_workers_that_end_early_lose_nothing() -> None:
    def fewer(part: Any) -> Any:
        return part.filter(lambda number: number % 4 or number < 8)  # partition 0 ends early

    pipeline = rs.range(80).partition(4, fewer)
    loader = loader_over(pipeline, num_workers=4)
    delivered = []
    for number in loader:
        delivered.append(number)
        rest = list(pipeline.resume(saved(loader)))
        assert sorted(delivered + rest) == sorted(pipeline)
    assert delivered == list(pipeline)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_rank_that_has_ended_is_joined_with_one_that_goes_on(workers: int) -> None:
    pipeline = rs.range(60).partition(4, lambda part: part.filter(lambda n: n % 2 or n < 9))
    ranks = [loader_over(pipeline.shard(rank, 2), num_workers=workers) for rank in range(2)]
    ended = iter(ranks[0])
    done = list(ended)
    for _ in range(3):  # it stays at the end
        assert next(ended, None) is None
    iterator = iter(ranks[1])
    done += [next(iterator) for _ in range(7)]
    by_partition = {}
    for rank in ranks:
        by_partition.update(PartitionedState(rank).state_dict())
    alone = loader_over(pipeline)
    PartitionedState(alone).load_state_dict(by_partition)
    rest = list(alone)
    assert sorted(done + rest) == sorted(pipeline)
    again = [loader_over(pipeline.shard(rank, 2)) for rank in range(2)]
    for rank in again:
        PartitionedState(rank).load_state_dict(by_partition)
        assert rank.epoch == 0
    assert sorted(chain(*again)) == sorted(rest)
    assert [rank.epoch for rank in again] == [1, 1]
    assert rs.loads(ranks[0].get_state()[KEY])["epoch"] == 1  # of the epoch to come


def test_partitions_of_several_sources_are_saved_by_two_ranks_and_loaded_by_three() -> None:
    def mixed(few: Any, many: Any) -> Any:
        return rs.mix(filtered(few), many.filter(good), weights=(1, 2), stop="all")

    def loader_of(rank: int, ranks: int) -> Any:
        parts = rs.partition({"few": rs.range(30), "many": rs.range(100, 190)}, 6, mixed)
        drawn = parts.random_map(lambda number, rng: (number, rng.random()), seed=1)
        return loader_over(drawn.shard(rank, ranks))

    delivered: list[Any] = []
    saved_parts: dict[str, bytes] = {}
    for rank in range(2):
        loader = loader_of(rank, 2)
        delivered += islice(loader, 11)
        saved_parts.update(PartitionedState(loader).state_dict())
    assert len(saved_parts) == 6
    for rank in range(3):
        loader = loader_of(rank, 3)
        PartitionedState(loader).load_state_dict(saved_parts)
        delivered += loader
    assert sorted(delivered) == sorted(loader_of(0, 1))


def test_more_workers_than_partitions_are_refused() -> None:
    expected = r"num_workers must be at most 2, since .* 3 ranks have 7, got 3"
    with pytest.raises(rs.InvalidArgument, match=expected):
        loader_over(partitioned(20, 7, 0, 3), num_workers=3)
    fewer = {0: partitioned(20, 7), 4: partitioned(20, 2)}
    with pytest.raises(rs.InvalidArgument, match=r"at most 2, since .* have 2 in epoch 4, got 3"):
        loader_over(rs.by_epoch(fewer), num_workers=3)
    # The whole is read by each where an epoch has no partitions.
    loader = loader_over(rs.by_epoch({0: partitioned(20, 7), 4: rs.range(9)}), num_workers=3)
    assert sorted(loader) == sorted(partitioned(20, 7))


def add(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


@pytest.mark.parametrize(
    "built",
    [
        lambda: partitioned(40, 6).batch(4),
        lambda: partitioned(40, 6).scan(add, 0),
        lambda: partitioned(40, 6).repeat(2),
        lambda: partitioned(40, 6).map(RunningSum()),
        lambda: partitioned(40, 6).map(abs, on_error="skip"),
        lambda: partitioned(40, 6).batch(2).random_map(lambda pair, rng: rng.random(), seed=1),
        lambda: rs.range(40).partition(4, lambda part: part).shard(1, 3, uneven="pad"),
        lambda: rs.range(40).partition(4, lambda part: part).shard(1, 3, uneven="drop"),
        lambda: rs.mix(partitioned(40, 6), partitioned(30, 2), seed=1, weights=[1, 2]),
    ],
)
def test_what_belongs_to_the_whole_rank_keeps_its_order_and_is_read_by_each_worker(
    built: Any,
) -> None:
    pipeline = built()
    loader = loader_over(pipeline, num_workers=3)
    expected, states = [repr(item) for item in pipeline], []
    for item, wanted in zip(loader, expected, strict=True):
        assert repr(item) == wanted
        states.append(saved(loader))
    for number in range(0, len(expected), 7):
        rest = [repr(item) for item in built().resume(states[number])]
        assert rest == expected[number + 1 :]


def test_a_large_state_of_a_worker_comes_with_one_batch_of_many() -> None:
    def grow(total: np.ndarray[Any, Any], number: int) -> tuple[Any, int]:
        return total + number, int(total[0])

    zeros = np.zeros(BYTES_A_BATCH, np.int64)
    pipeline = rs.range(40).partition(4, lambda part: part.scan(grow, zeros))
    expected = list(pipeline)
    loader = loader_over(pipeline, num_workers=2)
    for number, item in enumerate(loader):
        assert item == expected[number]
        assert list(pipeline.resume(saved(loader))) == expected[number + 1 :]


class Fails:
    """Fails at one number as long as a file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, number: int) -> int:
        if number == 8 and self.path.exists():
            raise ValueError("bad luck")
        return number


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("partitions", [False, True])
def test_after_an_error_nothing_more_is_delivered_until_it_is_resumed(
    partitions: bool, workers: int, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    fails = Fails(flag)
    pipeline = rs.range(30).map(fails)
    if partitions:
        pipeline = rs.range(30).partition(6, lambda part: part.map(fails))
    loader = loader_over(pipeline, num_workers=workers)
    got, iterator = [], iter(loader)
    with pytest.raises(ValueError, match="bad luck"):
        got.extend(iterator)
    assert got == list(range(8))
    for _ in range(3):
        with pytest.raises(rs.WorkerError, match="ended with the error before"):
            next(iterator)
    flag.unlink()
    loader.load_state_dict(loader.state_dict())
    assert sorted(got + list(loader)) == list(range(30))


def test_workers_of_torch_run_partitions_without_threads_of_their_own() -> None:
    def by_the_main_thread(number: int) -> bool:
        return threading.current_thread() is threading.main_thread() and os.getpid() != MAIN

    pipeline = rs.range(30).partition(6, lambda part: part.map(by_the_main_thread), workers=2)
    assert list(loader_over(pipeline, num_workers=3)) == [True] * 30


def test_a_pass_with_nothing_left_says_so_once() -> None:
    pipeline = rs.range(8).partition(2, lambda part: part.filter(bool))
    loader = loader_over(pipeline)
    assert len(list(loader)) == 7
    state, again = loader.state_dict(), loader_over(pipeline)
    again.load_state_dict(state)
    with pytest.warns(RuntimeWarning, match=r"end at step 7, .* the next loop, which is epoch 1"):
        assert list(again) == []
    assert len(list(again)) == 7
    again.load_state_dict(state)
    again.set_epoch(0)  # the caller knows which pass it wants
    assert list(again) == []
    ranks = [loader_over(pipeline.shard(rank, 2)) for rank in range(2)]
    for rank in ranks:  # others may have something left
        rank.load_state_dict(state)
        assert list(rank) == []
