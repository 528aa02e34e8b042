"""What loops do to a loader beside going through it."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import (  # noqa: E402
    PipelineDataset,
    ResumableBatchSampler,
    ResumableDataLoader,
    ResumableDistributedSampler,
    ResumableSampler,
)
from support.interrupting import some_interrupters  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torch_adapter.data import listed, loader_of, plain, rest_of  # noqa: E402

import resumable as rs  # noqa: E402


def loader(length: int, batch_size: int, **options: Any) -> Any:
    return ResumableDataLoader(range(length), batch_size, collate_fn=listed, **options)


def state_of(stateful: Any, *arguments: Any) -> tuple[int, int]:
    """Epoch and step of a state."""
    state = rs.loads(stateful.state_dict(*arguments)["resumable"])
    return state["epoch"], state["step"]


def test_a_last_round_of_ranks_is_no_last_batch() -> None:
    def make(**options: Any) -> Any:
        sampler = ResumableDistributedSampler(range(10), 1, 0, shuffle=False, **options)
        return loader(10, 4, sampler=sampler)

    for drop_last in (False, True):
        stopped = make(drop_last=drop_last)
        iterator = iter(stopped)
        next(iterator)
        next(iterator)
        again = make(drop_last=drop_last)
        again.load_state_dict(stopped.state_dict())
        assert list(again) == [[8, 9]]
        whole = loader(10, 4, drop_last=True)
        whole.load_state_dict(stopped.state_dict() | whole.state_dict())


class Flaky(Dataset[int]):
    """Fails on one row as long as a file is there."""

    def __init__(self, path: Path, bad: int) -> None:
        self.path, self.bad = path, bad

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        if index == self.bad and self.path.exists():
            raise ValueError(index)
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_may_go_on_after_a_bad_batch(workers: int, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    rows = Flaky(flag, 4)
    batches: Any = ResumableDataLoader(rows, 2, collate_fn=listed, num_workers=workers)
    iterator = iter(batches)
    assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="4"):
        next(iterator)
    assert state_of(batches) == (0, 4)  # the bad batch would be tried again
    assert next(iterator) == [6, 7]
    assert state_of(batches) == (0, 8)
    assert list(iterator) == [[8, 9]]


def noisy(path: Path, bad: int) -> Any:
    def number(item: int, rng: np.random.Generator) -> tuple[int, int]:
        return Flaky(path, bad)[item], int(rng.integers(1000))

    return number


@pytest.mark.parametrize("persistent", [False, True])
def test_a_pipeline_that_failed_can_go_on(persistent: bool, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    for bad in (0, 4):
        pipeline = rs.range(10).random_map(noisy(flag, bad), seed=1)
        expected = list(pipeline)
        flag.touch()
        options: dict[str, Any] = {"num_workers": 1, "persistent_workers": persistent}
        batches: Any = ResumableDataLoader(
            PipelineDataset(pipeline), 2, collate_fn=listed, **options
        )
        iterator = iter(batches)
        got = [row for _ in range(bad // 2) for row in next(iterator)]
        with pytest.raises(ValueError, match=str(bad)):
            next(iterator)
        with pytest.raises(rs.WorkerError, match="ended with the error before"):
            next(iterator)
        flag.unlink()
        if bad:
            batches.load_state_dict(batches.state_dict())
        assert batches.epoch == 0
        assert got + [row for batch in batches for row in batch] == expected


class Alarm(Exception):
    """What a signal handler of the loop raises."""


@pytest.fixture
def alarms() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, before)


def next_or_alarm(iterator: Iterator[list[int]]) -> list[int]:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        return next(iterator)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Once:
    """Does something at one index as long as a file is there; ``act`` may remove it."""

    def __init__(self, path: Path, act: Callable[[Path], None]) -> None:
        path.touch()
        self.path, self.act = path, act

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        if index == 4 and self.path.exists():
            self.act(self.path)
        return index


def wait(path: Path) -> None:
    while path.exists():
        time.sleep(0.01)


def interrupt(path: Path) -> None:
    path.unlink()
    raise KeyboardInterrupt


def die(path: Path) -> None:
    path.unlink()
    os.kill(os.getpid(), signal.SIGKILL)


def take_all(iterator: Iterator[list[int]], got: list[int]) -> None:
    for batch in iterator:
        got += batch


def over(rows: Once, kind: str, **options: Any) -> Any:
    """A loader over rows, or over a pipeline of them."""
    if kind == "map":
        return ResumableDataLoader(rows, 2, collate_fn=listed, **options)
    pipeline = rs.range(10).map(rows.__getitem__)
    if kind == "stream":
        pipeline = pipeline.filter(lambda item: True)
    return ResumableDataLoader(PipelineDataset(pipeline), 2, collate_fn=listed, **options)


@pytest.mark.usefixtures("alarms")
@pytest.mark.parametrize("options", [{}, {"prefetch_factor": 1, "persistent_workers": True}])
@pytest.mark.parametrize("kind", ["map", "pipeline", "stream"])
def test_an_alarm_while_the_loop_waits_for_a_worker_costs_no_batch(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    rows = Once(tmp_path / "flag", wait)
    batches = over(rows, kind, num_workers=1, **options)
    iterator = iter(batches)
    assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
    for _ in range(2):
        with pytest.raises(Alarm):
            next_or_alarm(iterator)
        assert (batches.received, state_of(batches)) == (2, (0, 4))
    rows.path.unlink()
    assert next(iterator) == [4, 5]
    assert (batches.received, state_of(batches)) == (3, (0, 6))
    again = over(rows, kind)
    again.load_state_dict(batches.state_dict())
    assert list(again) == list(iterator) == [[6, 7], [8, 9]]


@pytest.mark.parametrize("kind", ["map", "pipeline", "stream"])
def test_an_interrupt_within_a_batch_leaves_the_loop_before_it(kind: str, tmp_path: Path) -> None:
    batches = over(Once(tmp_path / "flag", interrupt), kind)
    iterator = iter(batches)
    assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    for _ in range(2):  # torch would go on behind the batch, or end
        with pytest.raises(rs.WorkerError, match="ended with the error before"):
            next(iterator)
    assert state_of(batches) == (0, 4)
    batches.load_state_dict(batches.state_dict())
    assert list(batches) == [[4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, Alarm])
def test_an_interrupt_within_the_sampler_does_not_end_the_pass(
    error: type[BaseException], workers: int
) -> None:
    due = [12]

    def drawn(index: int) -> int:
        if index in due:
            due.clear()
            raise error
        return index

    sampler = ResumableBatchSampler(rs.range(20).map(drawn), 2)
    batches: Any = ResumableDataLoader(
        range(20),
        batch_sampler=sampler,
        collate_fn=listed,
        num_workers=workers,
    )
    iterator, got = iter(batches), list[int]()
    with pytest.raises(error):
        take_all(iterator, got)
    with pytest.raises(rs.WorkerError, match="ended with the error before"):
        next(iterator)
    assert state_of(batches) == (0, len(got))
    batches.load_state_dict(batches.state_dict())
    assert got + [index for batch in batches for index in batch] == list(range(20))


@pytest.mark.parametrize("kind", ["map", "stream"])
def test_a_dead_worker_takes_no_batches_with_it(kind: str, tmp_path: Path) -> None:
    options = {"num_workers": 2, "persistent_workers": True}
    batches = over(Once(tmp_path / "flag", die), kind, **options)
    iterator, got = iter(batches), list[int]()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        take_all(iterator, got)
    with pytest.raises(rs.WorkerError, match="ended with the error before"):
        next(iterator)  # torch would pass over all that the worker should have made
    if got:
        batches.load_state_dict(batches.state_dict())
    assert got + [index for batch in batches for index in batch] == list(range(10))


def test_a_loader_goes_on_where_its_data_set_stands() -> None:
    pipeline = rs.range(10).shuffle(1)
    iterator = iter(pipeline)
    for _ in range(4):
        next(iterator)
    dataset = PipelineDataset(pipeline)
    dataset.load_state_dict({"resumable": rs.dumps(iterator.get_state())})
    batches: Any = ResumableDataLoader(dataset, 2, collate_fn=listed)
    assert [row for batch in batches for row in batch] == list(pipeline)[4:]


def test_loaders_of_one_data_set_do_not_move_each_other() -> None:
    dataset = PipelineDataset(rs.range(10).shuffle(1))
    first: Any = ResumableDataLoader(dataset, 2, collate_fn=listed)
    second: Any = ResumableDataLoader(dataset, 2, collate_fn=listed)
    one = list(first)
    iterator = iter(second)
    got = [next(iterator)]
    assert (state_of(first), state_of(second), state_of(dataset)) == ((1, 0), (0, 2), (0, 0))
    list(first)
    assert got + list(iterator) == one


def test_a_sampler_serves_one_loader_at_a_time() -> None:
    sampler = ResumableSampler(20, shuffle=True)
    first = loader(20, 2, sampler=sampler)
    with pytest.raises(rs.InvalidArgument, match="one loader at a time"):
        loader(20, 5, sampler=sampler)
    del first
    second = loader(20, 5, sampler=sampler)
    next(iter(second))
    assert state_of(second) == (0, 5)
    del second
    later: Any = DataLoader(range(20), 5, sampler=sampler, collate_fn=listed)  # type: ignore[arg-type]
    assert list(later) != list(later)  # epochs go on


def test_a_state_loaded_into_the_sampler_counts_at_once() -> None:
    sampler = ResumableSampler(20)
    batches = loader(20, 2, sampler=sampler)
    start = batches.state_dict()
    iterator = iter(batches)
    for _ in range(3):
        next(iterator)
    sampler.load_state_dict(start)
    assert batches.state_dict() == start
    with pytest.raises(rs.InvalidArgument, match="overtaken by load_state_dict"):
        next(iterator)
    assert batches.state_dict() == start
    assert len(list(batches)) == 10


def test_after_set_epoch_the_state_is_that_of_its_epoch() -> None:
    sampler = ResumableSampler(10, shuffle=True)
    list(sampler)
    sampler.set_epoch(1)
    assert state_of(sampler, 0) == (1, 0)
    for workers in ({}, {"num_workers": 2, "persistent_workers": True}):
        for kind in ("map", "pipeline"):
            whole = rest_of(loader_of(kind), 3)
            batches = loader_of(kind, **workers)
            for _ in zip(batches, range(2), strict=False):
                pass
            batches.set_epoch(1)
            assert (state_of(batches), batches.epoch) == ((1, 0), 1)
            assert [(1, plain(batch)) for batch in batches] == whole[5:10]


@pytest.mark.parametrize("uneven", ["drop", "pad", "keep"])
def test_positions_belong_to_samples_of_the_run(uneven: str) -> None:
    samples: dict[int, int] = {}
    for world in (1, 2, 3, 4):
        for rank in range(world):
            order = rs.range(10).shuffle(0).shard(rank, world, uneven=uneven)
            sampler = ResumableSampler(order, with_position=True)
            for _ in range(3):
                for index, position in sampler:
                    assert samples.setdefault(position, index) == index
    assert set(samples) == set(range(30))
    with pytest.raises(rs.InvalidArgument, match="needs shard as the last stage"):
        ResumableSampler(rs.range(10).shard(0, 2).shuffle(0), with_position=True)


def test_positions_count_on_over_epochs_of_different_lengths() -> None:
    samples: dict[int, int] = {}
    for world in (1, 2, 3):
        for rank in range(world):
            order = rs.by_epoch({0: rs.range(10), 2: rs.range(10, 17)}).shuffle(0)
            sampler = ResumableSampler(order.shard(rank, world, uneven="pad"), with_position=True)
            for epoch in range(4):
                sampler.set_epoch(epoch)
                found = list(sampler)
                assert len(found) == len(sampler) == -(-(10 if epoch < 2 else 7) // world)
                for index, position in found:
                    assert samples.setdefault(position, index) == index
    assert set(samples) == set(range(34))
    assert sorted(samples[position] for position in range(20, 27)) == [*range(10, 17)]


@pytest.mark.parametrize("dealt", [False, True])
def test_an_endless_order_has_positions_in_its_first_epoch(dealt: bool) -> None:
    order = rs.range(10).shuffle(0).repeat()
    sampler = ResumableSampler(order.shard(1, 2) if dealt else order, with_position=True)
    found = [position for _, (_, position) in zip(range(4), sampler, strict=False)]
    assert found == ([1, 3, 5, 7] if dealt else [0, 1, 2, 3])
    with pytest.raises(rs.InvalidArgument, match=r"with_position needs .* got epoch 1 of"):
        next(iter(sampler))


def test_every_rank_gives_the_same_bytes_in_a_short_last_round() -> None:
    states = set()
    for rank in range(3):
        sampler = ResumableSampler(rs.range(10).shard(rank, 3, uneven="keep"))
        iterator = iter(sampler)
        for _ in range(3):
            next(iterator)
        states.add(sampler.state_dict(3)["resumable"])
    assert len(states) == 1


def test_a_copy_goes_its_own_way() -> None:
    for kind in ("map", "pipeline"):
        batches = loader_of(kind)
        iterator = iter(batches)
        next(iterator)
        rest = None
        for copied in (copy.deepcopy(batches), pickle.loads(pickle.dumps(batches))):
            rest = [plain(batch) for batch in copied]
        assert rest == [plain(batch) for batch in iterator]


def test_more_that_is_refused() -> None:
    batches = loader_of("map")
    for data in ("abc", None, 3.5, 10**14, torch.zeros(3)):
        with pytest.raises(rs.StateMismatch, match="the state must be bytes"):
            batches.load_state_dict({"resumable": data})
    with pytest.raises(rs.InvalidType, match=r"PipelineDataset\(pipeline\)"):
        ResumableDataLoader(rs.range(3), 2)
    with pytest.raises(rs.InvalidArgument, match="with_position must be given to the sampler"):
        loader(3, 1, sampler=ResumableSampler(3), with_position=True)


def test_arguments_that_something_else_decides_are_refused() -> None:
    stream = PipelineDataset(rs.range(8))
    batch_sampler = ResumableBatchSampler(8, 4)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("must be given to the sampler", {"batch_sampler": batch_sampler, "with_position": True}),
        ("must be given to the sampler", {"batch_sampler": batch_sampler, "seed": 5}),
        ("must be given to the sampler", {"sampler": ResumableSampler(8), "seed": 5}),
        ("seed must not be given with a pipeline", {"sampler": rs.range(8), "seed": 0}),
        ("seed must not be given with a pipeline", {"dataset": stream, "seed": 0}),
        ("needs a map-style data set", {"dataset": stream, "with_position": True}),
    ]
    for refused, options in cases:
        with pytest.raises(rs.InvalidArgument, match=refused):
            ResumableDataLoader(**{"dataset": range(8), **options})
    for dataset in (range(8), stream):
        with pytest.raises(rs.InvalidType, match="with_position must be True or False, got 'no'"):
            ResumableDataLoader(dataset, with_position="no")  # type: ignore[arg-type]
    wrong: Any = "no"
    with pytest.raises(rs.InvalidType, match="shuffle must be True or False, got 'no'"):
        ResumableSampler(8, shuffle=wrong)
    with pytest.raises(rs.InvalidType, match="shuffle must be True or False, got 'no'"):
        loader(8, 2, shuffle=wrong)
    with pytest.raises(rs.InvalidType, match="shuffle must be True or False, got 'no'"):
        ResumableDistributedSampler(range(8), 1, 0, shuffle=wrong)
    order = rs.range(8).shuffle(3)
    for options in ({"seed": 0}, {"shuffle": True}):
        (name,) = options
        with pytest.raises(rs.InvalidArgument, match=f"{name} must not be given with a pipeline"):
            ResumableSampler(order, **options)
        with pytest.raises(rs.InvalidArgument, match=f"{name} must not be given with a sampler"):
            ResumableBatchSampler(ResumableSampler(order), 4, **options)
    shuffled = loader(8, 2, sampler=order, with_position=True).sampler
    assert list(shuffled.cursor.pipeline) == list(ResumableSampler(8, shuffle=True, seed=3))


def fails_at_five(item: Any) -> int:
    if item["x"] == 5:
        raise KeyError("a word that is not in the vocabulary")
    return int(item["x"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks show notes from 3.11 on")
@pytest.mark.parametrize("kind", ["by index", "stream", "partitions"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_worker_names_stage_and_item(kind: str, workers: int) -> None:
    """Torch makes another exception of it, whose text is the traceback with the notes."""
    rows = rs.from_sequence([{"__key__": f"row {number}", "x": number} for number in range(8)])
    pipeline = {
        "by index": rows.shuffle(0).map(fails_at_five),
        "stream": rows.filter(bool).map(fails_at_five),
        "partitions": rows.partition(2, lambda part: part.map(fails_at_five)),
    }[kind]
    batches: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(pipeline), None, num_workers=workers
    )
    with pytest.raises(KeyError) as raised:
        list(batches)
    note = str(raised.value)
    assert "Map(fn=fails_at_five), item 5 of FromSequence, __key__ 'row 5', counted from 0" in note


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "load_state_dict": lambda loader, state: loader.load_state_dict(state),
    "set_epoch": lambda loader, state: loader.set_epoch(2),
    "end_epoch": lambda loader, state: loader.end_epoch(),
    "another loop": lambda loader, state: next(iter(loader)),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["map", "stream"])
@pytest.mark.parametrize("name", MOVES)
def test_wherever_a_move_is_interrupted_the_loader_is_at_the_old_place_or_the_new_one(
    name: str, kind: str
) -> None:
    def moved(move: Callable[[Any], Any]) -> Any:
        """The place of a loader after two batches and ``move``."""
        loader = loader_of(kind)
        loop = iter(loader)
        next(loop), next(loop)
        move(loader)
        state = rs.loads(loader.state_dict()["resumable"])
        return state["epoch"], state["step"], loader.epoch

    other = loader_of(kind)
    other.set_epoch(1)
    next(iter(other))
    state = other.state_dict()
    allowed = {moved(lambda loader: None), moved(lambda loader: MOVES[name](loader, state))}
    if name == "another loop":  # it has begun, and received nothing yet
        allowed.add((1, 0, 1))
    for interrupter in some_interrupters((name, kind)):
        found = moved(lambda loader, call=interrupter: call(lambda: MOVES[name](loader, state)))  # type: ignore[misc]
        assert found in allowed
