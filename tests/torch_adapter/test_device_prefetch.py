"""Batches that lie ahead on a device: the loop gets them as from the loader, and saves what it was given."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, islice
from typing import Any

import pytest
from support.interrupting import some_interrupters

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resumable_torch import (  # noqa: E402
    JoinedState,
    PartitionedState,
    PipelineDataset,
    ResumableDataLoader,
    device_prefetch,
)
from resumable_torch.device_prefetch import CudaCopier  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load  # noqa: E402
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torch_adapter.data import LENGTH, Rows, listed, loader_of, plain, rest_of  # noqa: E402

import resumable as rs  # noqa: E402

KINDS = ("map", "augmented", "pipeline", "stream")
BATCHES = 5
"""In an epoch of each kind."""


def parts(number: int) -> rs.Pipeline[Any]:
    """A rank's share of partitions that filter and batch."""
    numbers = rs.range(40).shuffle(seed=0)
    made = numbers.partition(
        4, lambda part: part.filter(lambda n: n % 5 > 0).map(Rows().__getitem__)
    )
    return made.shard(number, 2)


def loader_over_parts(**options: Any) -> ResumableDataLoader[Any]:
    return ResumableDataLoader(PipelineDataset(parts(0)), batch_size=None, **options)


def state(stateful: Any) -> Any:
    return rs.loads(stateful.state_dict()["resumable"])


@pytest.mark.parametrize("kind", KINDS)
@given(size=st.integers(1, 7), cut=st.integers(0, 2 * BATCHES), then=st.integers(1, 7))
def test_at_every_batch_the_state_is_that_of_the_loader_without_prefetch(
    kind: str, size: int, cut: int, then: int
) -> None:
    bare, ahead = loader_of(kind), device_prefetch(loader_of(kind), "cpu", size)
    expected = [*rest_of(loader_of(kind), 3)]
    seen: list[Any] = []

    def go_on(loader: Any) -> Iterator[None]:
        while True:
            for batch in loader:
                seen.append((loader.epoch, plain(batch)))
                yield

    for _ in islice(zip(go_on(bare), go_on(ahead), strict=False), cut):
        assert seen[-1] == seen[-2]
        assert state(ahead) == state(bare)
        assert (ahead.epoch, len(ahead.state_dict())) == (bare.epoch, 1)
    assert seen[::2] == expected[:cut]
    for again in (loader_of(kind), device_prefetch(loader_of(kind), "cpu", then)):
        again.load_state_dict(ahead.state_dict())
        assert rest_of(again, 3) == expected[cut:]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("persistent", [False, True])
def test_with_workers_the_loop_is_the_same_and_resumes_anywhere(
    kind: str, persistent: bool
) -> None:
    options: dict[str, Any] = {"num_workers": 2, "persistent_workers": persistent}
    expected = rest_of(loader_of(kind), 2)
    ahead = device_prefetch(loader_of(kind, **options), "cpu", 3)
    for cut, batch in enumerate(ahead, start=1):
        assert plain(batch) == expected[cut - 1][1]
        again = loader_of(kind)
        again.load_state_dict(ahead.state_dict())
        assert rest_of(again, 2) == expected[cut:]
    assert rest_of(ahead, 2) == expected[cut:]  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_partitions_are_saved_as_they_were_handed_out(workers: int) -> None:
    expected = [plain(row) for row in parts(0)]
    ahead = device_prefetch(loader_over_parts(num_workers=workers), "cpu", 4)
    for cut, row in enumerate(ahead, start=1):
        assert plain(row) == expected[cut - 1]
        for stateful in (ahead, PartitionedState(ahead), JoinedState(ahead)):
            again = loader_over_parts()
            PartitionedState(again).load_state_dict(stateful.state_dict())
            assert [plain(row) for row in again] == expected[cut:]
    assert cut == len(expected)
    with parts(0).resume(rs.loads(ahead.state_dict()["resumable"])) as nothing:
        assert list(nothing) == []


def test_a_break_ends_the_epoch_and_no_batch_begins_none() -> None:
    bare, ahead = loader_of("map"), device_prefetch(loader_of("map"), "cpu", 4)
    for loader in (bare, ahead):
        iter(loader)
        assert loader.epoch == 0
        assert len([*islice(loader, 2)]) == 2
        assert loader.epoch == 0
        next(iter(loader))
        assert loader.epoch == 1
    assert state(ahead) == state(bare)
    bare.end_epoch()
    ahead.end_epoch()
    assert rest_of(ahead, 3) == rest_of(bare, 3)  # type: ignore[arg-type]
    assert next(iter(ahead)).device == torch.device("cpu")


class Summed:
    """A function with a state of its own, which may be large."""

    def __init__(self, ballast: int) -> None:
        self.total, self.ballast = 0, b"." * ballast

    def __call__(self, number: int) -> int:
        self.total += number
        return self.total

    def get_state(self) -> Any:
        return {"total": self.total, "ballast": self.ballast}

    def set_state(self, state: Any) -> None:
        self.total, self.ballast = state["total"], state["ballast"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize("ballast", [0, 1 << 14])
def test_a_state_leaves_alone_a_function_with_a_state_of_its_own(
    workers: int, size: int, ballast: int
) -> None:
    def summed() -> rs.Pipeline[int]:
        return rs.range(20).map(Summed(ballast))

    expected = [*accumulate(range(20))]
    data = PipelineDataset(summed())
    loader = ResumableDataLoader[int](data, None, num_workers=workers)
    ahead = device_prefetch(loader, "cpu", size)
    for cut, total in enumerate(ahead, start=1):
        assert total == expected[cut - 1]
        with summed().resume(state(ahead)) as resumed:
            assert list(resumed) == expected[cut:]
    assert cut == 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_is_only_prepared_leaves_what_lies_ahead_in_the_one_before(kind: str) -> None:
    expected = rest_of(loader_of(kind), 1)
    bare, ahead = loader_of(kind), device_prefetch(loader_of(kind), "cpu", 3)
    loops = iter(bare), iter(ahead)
    for number in (1, 2):
        assert plain(next(loops[0])) == plain(next(loops[1]))
        waiting = [iter(ahead), iter(ahead)]
        assert state(ahead) == state(bare)
        again = loader_of(kind)
        again.load_state_dict(ahead.state_dict())
        assert rest_of(again, 1) == expected[number:]
    for loop in waiting:
        bare.end_epoch()
        ahead.end_epoch()
        assert plain(next(iter(bare))) == plain(next(loop))
        assert (ahead.epoch, state(ahead)) == (bare.epoch, state(bare))
    del loops, loop, waiting  # what lies ahead is not forgotten with its loop
    assert state(ahead) == state(bare)


def test_the_loop_ends_again_and_again_and_one_epoch_with_it() -> None:
    ahead = device_prefetch(loader_of("map"), "cpu", 3)
    loop = iter(ahead)
    assert len(list(loop)) == len(ahead) == BATCHES
    assert list(loop) == list(loop) == []
    assert ahead.epoch == 1


class Failing(Dataset[Any]):
    """Rows, of which one fails as often as it is asked to."""

    def __init__(self, row: int, times: int = 1) -> None:
        self.row, self.left = row, times

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        if index == self.row and self.left:
            self.left -= 1
            raise OSError("the row cannot be read")
        return index


def failing(row: int = 5) -> ResumableDataLoader[Any]:
    return ResumableDataLoader(Failing(row), 2, collate_fn=listed)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_an_error_comes_once_and_after_the_batches_before_it(size: int) -> None:
    bare, ahead = failing(), device_prefetch(failing(), "cpu", size)
    loops = iter(bare), iter(ahead)
    for _ in range(2):
        assert next(loops[0]) == next(loops[1])
        assert state(ahead) == state(bare)
    for loop in loops:
        with pytest.raises(OSError, match="cannot be read"):
            next(loop)
    assert state(ahead) == state(bare)
    assert list(loops[0]) == list(loops[1]) == [[6, 7], [8, 9], [10, 11], [12]]
    assert state(ahead) == state(bare)


def take(loop: Iterator[Any], seen: list[Any]) -> None:
    """Add the batches of ``loop`` to ``seen``."""
    for batch in loop:
        seen.append(plain(batch))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["map", "stream"])
def test_wherever_it_is_interrupted_nothing_is_lost_or_repeated(kind: str) -> None:
    expected = [batch for _, batch in rest_of(loader_of(kind), 1)]
    for interrupter in some_interrupters(kind):
        ahead = device_prefetch(loader_of(kind), "cpu", 2)
        loop = iter(ahead)
        seen: list[Any] = []
        interrupter(partial(take, loop, seen))
        again = loader_of(kind)
        again.load_state_dict(ahead.state_dict())
        before = len(seen)
        handed_out = [batch for _, batch in rest_of(again, 1)]
        # The interrupt may have come after a batch was handed out and before it was noted.
        noted = expected[:before] + expected[before + 1 :]
        assert seen + handed_out in (expected, noted)
        wanted = expected if seen + handed_out == expected else noted
        try:
            take(loop, seen)
        except rs.WorkerError:
            continue
        assert seen == wanted


def test_it_goes_where_the_loader_is_sent_in_the_middle_of_a_loop() -> None:
    expected = rest_of(loader_of("map"), 3)
    ahead = device_prefetch(loader_of("map"), "cpu", 3)
    states = [ahead.state_dict() for _ in islice(ahead, 4)]
    ahead.load_state_dict(states[1])
    assert ahead.state_dict() == states[1]
    assert rest_of(ahead, 3) == expected[2:]  # type: ignore[arg-type]
    next(iter(ahead.loader))  # another loop, of which nothing lies ahead
    bare = loader_of("map")
    bare.load_state_dict(ahead.state_dict())
    assert rest_of(bare, 4) == rest_of(loader_of("map"), 4)[-BATCHES + 1 :]
    ahead.end_epoch()
    ahead.set_epoch(1)
    assert rest_of(ahead, 2) == expected[BATCHES : 2 * BATCHES]  # type: ignore[arg-type]


Pair = namedtuple("Pair", "inputs names")


class Movable:
    """What has a method of its own to be moved."""

    def to(self, device: Any, **options: Any) -> str:
        return f"on {device}"


def test_trees_of_tensors_are_moved_and_other_objects_stay() -> None:
    def collate(rows: list[Any]) -> Any:
        inputs = torch.tensor(rows)
        return {"pair": Pair(inputs, ["a", "b"]), "more": (inputs, [Movable(), 3, None])}

    loader: Any = ResumableDataLoader(range(4), 4, collate_fn=collate)
    (batch,) = device_prefetch(loader, "meta")
    assert isinstance(batch["pair"], Pair)
    assert batch["pair"].names == ["a", "b"]
    assert {batch["pair"].inputs.device.type, batch["more"][0].device.type} == {"meta"}
    assert batch["more"][1] == ["on meta", 3, None]


def test_a_distributed_checkpoint_takes_it(tmp_path: Any) -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        ahead = device_prefetch(loader_of("map"), "cpu", 3)
        next(iter(ahead))
        dcp_save({"input": ahead}, checkpoint_id=tmp_path)
        again = device_prefetch(loader_of("map"), "cpu")
        dcp_load({"input": again}, checkpoint_id=tmp_path)
    finally:
        dist.destroy_process_group()
    assert rest_of(again, 2) == rest_of(loader_of("map"), 2)[1:]  # type: ignore[arg-type]


def test_what_it_cannot_prefetch_is_refused() -> None:
    others: list[Any] = [DataLoader(Rows()), iter(rs.range(3)), PipelineDataset(rs.range(3)), [1]]
    for other in others:
        with pytest.raises(rs.InvalidType, match="loader must be a ResumableDataLoader, got"):
            device_prefetch(other, "cpu")
    for size in (0, 1 << 17):
        with pytest.raises(rs.InvalidArgument, match="size must be"):
            device_prefetch(loader_of("map"), "cpu", size)
    with pytest.raises(RuntimeError, match="device"):
        device_prefetch(loader_of("map"), "nonsense")


class Streams:
    """In the place of CUDA's streams: names, of which one is the current one; "loop" is that of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current = "loop"
        self.notes = list[str]()
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "copies")
        monkeypatch.setattr(torch.cuda, "Event", lambda: self)
        monkeypatch.setattr(torch.cuda, "stream", self.within)

    @contextmanager
    def within(self, stream: str) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def record(self, stream: str) -> None:
        self.notes.append(f"event in {stream}")

    def note(self, what: str) -> None:
        self.notes.append(f"{what} in {self.current}")


def test_only_tensors_are_copied_in_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch)

    class Noted(torch.Tensor):  # type: ignore[misc, name-defined]
        def is_pinned(self, *args: Any) -> bool:
            return True

        def to(self, device: Any, **options: Any) -> Any:
            streams.note("tensor")
            return self

    class Encoding:
        def to(self, device: Any, **options: Any) -> Any:
            streams.note("encoding")
            return self

    batch = {"first": Encoding(), "inputs": torch.zeros(2).as_subclass(Noted), "names": "ab"}
    copied = CudaCopier(torch.device("meta")).copied(7, batch)
    assert streams.notes == ["tensor in copies", "event in copies", "encoding in loop"]
    assert (copied.number, copied.batch) == (7, batch)
    assert copied.copied is not None
