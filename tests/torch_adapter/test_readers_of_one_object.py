"""Data sets and loaders of Hugging Face and torch that several iterators read, over several epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")
torchdata = pytest.importorskip("torchdata", reason="torchdata is not installed")

from datasets.distributed import split_dataset_by_node  # noqa: E402
from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from torch.utils.data import DistributedSampler  # noqa: E402
from torch_adapter.data import listed  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.set_vital. is deprecated"),
]

FILES, ROWS = 6, 5
LENGTH = FILES * ROWS


def rows_of(files: list[int]) -> Iterator[dict[str, int]]:
    for file in files:
        for number in range(ROWS):
            yield {"row": ROWS * file + number}


def stream() -> Any:
    return datasets.IterableDataset.from_generator(rows_of, gen_kwargs={"files": [*range(FILES)]})


def shuffled() -> Any:
    return stream().shuffle(seed=3, buffer_size=1)


def table() -> Any:
    return datasets.Dataset.from_dict({"row": [*range(LENGTH)]}).to_iterable_dataset(num_shards=3)


def rows(items: Any) -> list[int]:
    return [item["row"] for item in items]


OTHERS: dict[str, Callable[[rs.Pipeline[Any], Any], Any]] = {
    "a second loop": lambda pipeline, source: list(pipeline),
    "a look at a row": lambda pipeline, source: next(iter(pipeline)),
    "another pipeline": lambda pipeline, source: next(iter(rs.from_iterable(source))),
    "a data set made of it": lambda pipeline, source: list(rs.from_iterable(source.take(3))),
    "the data set itself": lambda pipeline, source: next(iter(source)),
    "an epoch for another loop": lambda pipeline, source: source.set_epoch(2),
}


@pytest.mark.parametrize("make", [stream, table])
@pytest.mark.parametrize("other", OTHERS)
def test_another_reader_of_a_hugging_face_stream_disturbs_nothing(
    other: str, make: Callable[[], Any]
) -> None:
    expected = rows(make())
    source = make()
    pipeline = rs.from_iterable(source)
    iterator = iter(pipeline)
    got = rows(next(iterator) for _ in range(7))
    OTHERS[other](pipeline, source)
    got += rows([next(iterator)])
    state = iterator.get_state()
    assert got + rows(iterator) == expected
    assert got + rows(rs.from_iterable(make()).resume(state)) == expected


def zipped() -> Any:
    source = stream()
    first, second = rs.from_iterable(source), rs.from_iterable(source)
    return rs.zip(first, second.map(lambda row: row))


def mixed() -> Any:
    source = stream()
    inputs = {"twice": rs.from_iterable(source), "once": rs.from_iterable(source)}
    return rs.mix(inputs, weights={"twice": 2, "once": 1}, stop="all")


@pytest.mark.parametrize("make", [zipped, mixed])
def test_a_hugging_face_stream_may_be_two_inputs(make: Callable[[], Any]) -> None:
    expected = list(make())
    for stop in range(0, len(expected), 5):
        iterator = iter(make())
        for _ in range(stop):
            next(iterator)
        assert list(make().resume(iterator.get_state())) == expected[stop:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_torchdata_is_read_in_one_place_or_refused(workers: int) -> None:
    def loader() -> Any:
        return StatefulDataLoader(stream(), 3, num_workers=workers, collate_fn=rows)

    source = loader()
    iterator = iter(rs.from_iterable(source))
    next(iterator)
    next(iter(rs.from_iterable(source)))
    for refused in (iterator.get_state, lambda: next(iterator)):
        with pytest.raises(rs.ExternalStateError, match=r"from_iterable\(lambda: make\(\)\)"):
            refused()
    expected = list(loader())
    for stop in (0, 3, len(expected)):
        iterator = iter(rs.from_iterable(loader()).repeat(2))
        for _ in range(stop):
            next(iterator)
        resumed = rs.from_iterable(loader()).repeat(2).resume(iterator.get_state())
        assert list(resumed) == (expected * 2)[stop:]


def sampled() -> Any:
    return DistributedSampler(range(LENGTH), num_replicas=2, rank=1, seed=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [shuffled, sampled])
def test_each_epoch_is_shuffled_otherwise_as_set_epoch_says(make: Callable[[], Any]) -> None:
    source, expected = make(), []
    for epoch in range(3):
        source.set_epoch(epoch)
        expected += list(source)
    length = len(expected) // 3
    assert expected[:length] != expected[length : 2 * length]
    assert list(rs.from_iterable(make()).repeat(3)) == expected
    for stop in range(0, len(expected), 4):
        iterator = iter(rs.from_iterable(make()).repeat(3))
        for _ in range(stop):
            next(iterator)
        assert (
            list(rs.from_iterable(make()).repeat(3).resume(iterator.get_state()))
            == (expected[stop:])
        )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [shuffled, sampled])
def test_a_loader_counts_the_epochs_of_the_stream(make: Callable[[], Any], workers: int) -> None:
    def loader() -> Any:
        dataset = PipelineDataset(rs.from_iterable(make()))
        return ResumableDataLoader(dataset, 4, num_workers=workers, collate_fn=listed)

    source, expected = make(), []
    for epoch in range(3):
        source.set_epoch(epoch)
        expected.append(list(source))
    running = loader()
    found = []
    for epoch in range(2):
        for batch in running:
            found += batch
            if epoch and len(found) > len(expected[0]) + 6:
                break
    assert found == [*expected[0], *expected[1]][: len(found)]
    again = loader()
    again.load_state_dict(running.state_dict())
    for _ in range(2):
        found += [item for batch in again for item in batch]
    assert found == [item for epoch in expected for item in epoch]


def test_a_loop_that_sets_the_epoch_of_a_hugging_face_stream_resumes_in_it() -> None:
    source, expected = shuffled(), []
    pipeline = rs.from_iterable(source)
    for epoch in range(3):
        source.set_epoch(epoch)
        expected.append(rows(pipeline))
    assert expected[0] != expected[2]
    iterator = iter(pipeline)
    got = rows(next(iterator) for _ in range(8))
    state = iterator.get_state()
    for epoch in (0, 1, 2):
        again = shuffled()
        again.set_epoch(epoch)
        assert got + rows(rs.from_iterable(again).resume(state)) == expected[2]


@pytest.mark.parametrize("make", [stream, table])
def test_the_part_of_another_node_is_refused(make: Callable[[], Any]) -> None:
    def pipeline(rank: int, nodes: int) -> rs.Pipeline[Any]:
        return rs.from_iterable(split_dataset_by_node(make(), rank, nodes))

    expected = rows(pipeline(0, 2))
    iterator = iter(pipeline(0, 2))
    for _ in range(5):
        next(iterator)
    state = iterator.get_state()
    assert rows(pipeline(0, 2).resume(state)) == expected[5:]
    for rank, nodes in ((1, 2), (0, 3)):
        with pytest.raises(
            rs.StateMismatch, match=rf"the part of rank={rank} of world_size={nodes}"
        ):
            pipeline(rank, nodes).resume(state)
    earlier = {**state, "fingerprint": iter(rs.from_iterable(make())).get_state()["fingerprint"]}
    assert rows(pipeline(0, 2).resume(earlier)) == expected[5:]
