"""Data sets that share their items out among torch's workers: everything comes once, or is refused."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from resumable_torch.hidden_worker import hidden_worker  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402
from torch_adapter.data import listed  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # WebDataset leaves the file open that it was reading when it is dropped.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FILES, ROWS = 5, 4
LENGTH = FILES * ROWS


class Recipe(IterableDataset[int]):
    """As the documentation of torch's `IterableDataset` shows it: each worker reads its part."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        if worker is None:
            return iter(range(LENGTH))
        part = math.ceil(LENGTH / worker.num_workers)
        start = worker.id * part
        return iter(range(start, min(start + part, LENGTH)))


class Late(IterableDataset[int]):
    """Asks at each item which worker it is in."""

    def __iter__(self) -> Iterator[int]:
        for number in range(LENGTH):
            worker = get_worker_info()
            if worker is None or number % worker.num_workers == worker.id:
                yield number


def recipe(folder: Path) -> Any:
    return rs.from_iterable(Recipe())


def late(folder: Path) -> Any:
    return rs.from_iterable(Late())


def rows_of(files: list[int]) -> Iterator[dict[str, str]]:
    for file in files:
        for number in range(ROWS):
            yield {"row": f"{file}:{number}"}


def hugging_face(folder: Path) -> Any:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    files = list(range(FILES))
    return rs.from_iterable(
        datasets.IterableDataset.from_generator(rows_of, gen_kwargs={"files": files})
    )


def hugging_face_mixed(folder: Path) -> Any:
    """Of which any worker, also the only one, would draw at random with a seed of its own."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    parts = [
        datasets.IterableDataset.from_generator(rows_of, gen_kwargs={"files": files})
        for files in ([0, 1], [2, 3])
    ]
    return rs.from_iterable(
        datasets.interleave_datasets(
            parts, probabilities=[0.4, 0.6], seed=3, stopping_strategy="all_exhausted"
        )
    )


def tar_files(folder: Path) -> str:
    for file in range(FILES):
        with tarfile.open(folder / f"{file}.tar", "w") as tar:
            for number in range(ROWS):
                data = f"{file}:{number}".encode()
                member = tarfile.TarInfo(f"{file}-{number}.txt")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return f"{folder}/{{0..{FILES - 1}}}.tar"


def web_dataset(folder: Path, **options: Any) -> Any:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    files = webdataset.WebDataset(tar_files(folder), shardshuffle=False, **options)
    return rs.from_iterable(files.decode().to_tuple("txt"))


SOURCES = [recipe, late, hugging_face, hugging_face_mixed, web_dataset]


def loader(pipeline: Any, workers: int, **options: Any) -> Any:
    dataset = PipelineDataset(pipeline)
    return ResumableDataLoader(dataset, 3, num_workers=workers, collate_fn=listed, **options)


@pytest.mark.parametrize("source", SOURCES)
def test_a_data_set_that_shards_itself_is_read_whole_by_any_number_of_workers(
    source: Callable[[Path], Any], tmp_path: Path
) -> None:
    pipeline = source(tmp_path)
    expected = list(pipeline)
    assert len(expected) >= LENGTH
    for workers in range(4):
        assert [row for batch in loader(pipeline, workers) for row in batch] == expected, workers


@pytest.mark.parametrize("source", SOURCES)
def test_it_resumes_in_mid_epoch_with_another_number_of_workers(
    source: Callable[[Path], Any], tmp_path: Path
) -> None:
    pipeline = source(tmp_path)
    expected = [row for batch in loader(pipeline, 0) for row in batch]
    for workers in range(4):
        stopped = loader(pipeline, workers)
        iterator = iter(stopped)
        stop = 1 + workers
        for _ in range(stop):
            next(iterator)
        state = stopped.state_dict()
        del iterator
        for other in {0, (workers + 1) % 4}:
            again = loader(pipeline, other)
            again.load_state_dict(state)
            rest = [row for batch in again for row in batch]
            assert rest == expected[3 * stop :], (workers, other)


def places() -> Iterator[str]:
    for _ in range(LENGTH):
        yield str(get_worker_info())


@pytest.mark.parametrize("workers", [1, 2])
def test_the_threads_of_a_pipeline_are_in_no_worker_either(workers: int) -> None:
    pipeline = rs.from_iterable(places).prefetch(2)
    assert [row for batch in loader(pipeline, workers) for row in batch] == ["None"] * LENGTH


def note_worker(rows: list[Any]) -> tuple[list[Any], int]:
    worker = get_worker_info()
    return rows, -1 if worker is None else worker.id


def test_what_makes_the_batch_knows_its_worker_as_ever() -> None:
    dataset = PipelineDataset(rs.from_iterable(Recipe()))
    plain: Any = DataLoader(dataset, 4, num_workers=2, collate_fn=note_worker)
    assert {worker for _, worker in plain} == {0, 1}


def test_a_torch_that_knows_its_worker_from_elsewhere_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resumable_torch.hidden_worker.get_worker_info", lambda: "another")
    with pytest.raises(rs.WorkerError, match="use num_workers=0"), hidden_worker():
        raise AssertionError


def test_the_state_of_another_node_of_web_dataset_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    pipeline = web_dataset(tmp_path, nodesplitter=webdataset.split_by_node)
    monkeypatch.setenv("WORLD_SIZE", "2")
    states, rests = [], []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        one = loader(pipeline, 2)
        iterator = iter(one)
        next(iterator)
        states.append(one.state_dict())
        rests.append(list(iterator))
    for number in (0, 1):
        monkeypatch.setenv("RANK", str(number))
        again = loader(pipeline, 0)
        again.load_state_dict(states[number])
        assert list(again) == rests[number]
        again.load_state_dict(states[1 - number])
        with pytest.raises(rs.StateMismatch, match="differ from those of the save"):
            list(again)


def test_web_dataset_shuffled_without_a_seed_is_refused(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    url = tar_files(tmp_path)

    def shuffled(**options: Any) -> Any:
        files = webdataset.WebDataset(url, shardshuffle=False).shuffle(50, **options)
        return rs.from_iterable(files.decode().to_tuple("txt"))

    with pytest.raises(rs.ExternalStateError, match="another order in each worker"):
        list(loader(shuffled(), 2))
    stopped = loader(shuffled(), 0)
    next(iter(stopped))
    again = loader(shuffled(), 0)
    again.load_state_dict(stopped.state_dict())
    with pytest.raises(rs.StateMismatch, match="differ from those of the save"):
        list(again)
    seeded = shuffled(seed=3)
    assert list(loader(seeded, 3)) == list(loader(seeded, 0))


def hugging_face_of(files: list[int]) -> Any:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    return datasets.IterableDataset.from_generator(rows_of, gen_kwargs={"files": files})


def concatenated(parts: list[Any]) -> Any:
    import datasets

    return datasets.concatenate_datasets(parts)


def interleaved(parts: list[Any]) -> Any:
    import datasets

    return datasets.interleave_datasets(parts, probabilities=[0.4, 0.6], seed=1)


def of_node(dataset: Any) -> Any:
    from datasets.distributed import split_dataset_by_node

    return split_dataset_by_node(dataset, 0, 2)


def same(row: dict[str, str]) -> dict[str, str]:
    return row


def in_table(files: list[int]) -> Any:
    import datasets

    rows = [row["row"] for row in rows_of(files)]
    return datasets.Dataset.from_dict({"row": rows}).to_iterable_dataset(num_shards=len(files))


# What is done to a data set and keeps its state exact, as long as no buffer is in it.
KEEPING: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda dataset: dataset,
    "map": lambda dataset: dataset.map(same),
    "batched map": lambda dataset: dataset.map(same, batched=True, batch_size=3),
    "filter": lambda dataset: dataset.filter(lambda row: row["row"][-1] != "1"),
    "take": lambda dataset: dataset.take(15),
    "skip": lambda dataset: dataset.skip(3),
    "repeat": lambda dataset: dataset.repeat(2),
    "batch": lambda dataset: dataset.batch(3),
    "format": lambda dataset: dataset.with_format("numpy"),
    "columns": lambda dataset: dataset.rename_column("row", "line"),
    "node": of_node,
    "concatenate": lambda dataset: concatenated([hugging_face_of([7]), dataset]),
    "interleave": lambda dataset: interleaved([hugging_face_of([7, 8]), dataset]),
}


def shown(items: Any) -> list[str]:
    return [str(item) for item in items]


@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize("made", [hugging_face_of, "a table"], ids=["generator", "table"])
def test_a_shuffle_buffer_of_hugging_face_is_refused_and_all_else_exact(
    kind: str, made: Any
) -> None:
    pytest.importorskip("datasets", reason="datasets is not installed")
    make = in_table if made == "a table" else made
    build = KEEPING[kind]

    def pipeline() -> Any:
        return rs.from_iterable(build(make([0, 1, 2, 3])))

    expected = shown(pipeline())
    for stop in range(len(expected)):
        iterator = iter(pipeline())
        got = shown(next(iterator) for _ in range(stop))
        state = rs.loads(rs.dumps(iterator.get_state()))
        assert got + shown(pipeline().resume(state)) == expected, stop

    buffered = build(make([0, 1, 2, 3]).shuffle(seed=3, buffer_size=6))
    iterator = iter(rs.from_iterable(buffered))
    next(iterator)
    with pytest.raises(rs.ExternalStateError, match=r"Hugging Face .* window=n"):
        iterator.get_state()
    with pytest.raises(rs.ExternalStateError, match=r"Hugging Face .* window=n"):
        PipelineDataset(rs.from_iterable(buffered))


def test_what_the_error_about_a_shuffle_buffer_proposes_is_exact() -> None:
    pipeline = rs.from_iterable(hugging_face_of([0, 1, 2, 3])).shuffle(3, window=6)
    expected = list(loader(pipeline, 0))
    assert sorted(row["row"] for batch in expected for row in batch) == [
        row["row"] for row in rows_of([0, 1, 2, 3])
    ]
    stopped = loader(pipeline, 2)
    running = iter(stopped)
    got = [next(running) for _ in range(3)]
    state = stopped.state_dict()
    del running
    again = loader(pipeline, 1)
    again.load_state_dict(state)
    assert got + list(again) == expected


@pytest.mark.filterwarnings("ignore:.set_vital. is deprecated")
def test_a_shuffle_buffer_in_a_loader_of_torchdata_is_refused() -> None:
    torchdata = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )
    buffered = hugging_face_of([0, 1]).shuffle(seed=3, buffer_size=6)
    iterator = iter(rs.from_iterable(torchdata.StatefulDataLoader(buffered, 2)))
    with pytest.raises(rs.ExternalStateError, match=r"Hugging Face .* window=n"):
        iterator.get_state()


def test_a_shuffle_buffer_may_be_lost_where_the_policy_says_so() -> None:
    buffered = hugging_face_of([0, 1, 2, 3]).shuffle(seed=3, buffer_size=6)
    pipeline = rs.from_iterable(buffered, external_state_policy="ignore")
    stopped = loader(pipeline, 2)
    running = iter(stopped)
    next(running)
    state = stopped.state_dict()
    del running
    again = loader(pipeline, 0)
    again.load_state_dict(state)
    assert len([row for batch in again for row in batch]) < 4 * ROWS - 3


class Sized(Recipe):
    """A stream that knows its length."""

    def __len__(self) -> int:
        return LENGTH


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "make",
    [Sized, lambda: torch.utils.data.ChainDataset([Sized(), Sized()]), lambda: Sized() + Sized()],
    ids=["sized", "chain", "sum"],
)
def test_an_iterable_data_set_with_a_length_is_a_stream(
    make: Callable[[], Any], workers: int
) -> None:
    expected = list(make())
    stopped = loader(rs.from_iterable(make()), workers)
    running = iter(stopped)
    got = [row for _ in range(3) for row in next(running)]
    again = loader(rs.from_iterable(make()), 2 - workers)
    again.load_state_dict(stopped.state_dict())
    assert got + [row for batch in again for row in batch] == expected
    with pytest.raises(rs.InvalidType, match="use from_iterable"):
        rs.from_sequence(make())
