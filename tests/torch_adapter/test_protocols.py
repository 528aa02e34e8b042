"""The state travels with torch.save, torchdata and Accelerate as they are."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
torchdata = pytest.importorskip(
    "torchdata.stateful_dataloader", reason="torchdata is not installed"
)
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

from resumable_torch import (  # noqa: E402
    PipelineDataset,
    ResumableBatchSampler,
    ResumableSampler,
    device_prefetch,
)
from support.tiers import thinned  # noqa: E402
from torch.distributed.checkpoint.stateful import Stateful  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torch_adapter.data import LENGTH, Rows, loader_of, plain, row  # noqa: E402

import resumable as rs  # noqa: E402

# torchdata calls a deprecated function of torch.
pytestmark = pytest.mark.filterwarnings("ignore:.set_vital. is deprecated")

EPOCHS = 3


def test_what_can_be_saved_follows_the_protocol_of_torch() -> None:
    dataset = PipelineDataset(rs.range(3))
    for stateful in (loader_of("map"), ResumableSampler(3), ResumableBatchSampler(3, 2), dataset):
        assert isinstance(stateful, Stateful)
        assert list(stateful.state_dict()) == ["resumable"]


def test_the_state_goes_through_torch_save_with_weights_only(tmp_path: Path) -> None:
    loader = loader_of("map")
    iterator = iter(loader)
    next(iterator)
    torch.save({"model": torch.zeros(3), "input": loader.state_dict()}, tmp_path / "all.pt")
    rest = [plain(batch) for batch in iterator]
    again = loader_of("map", num_workers=2)
    again.load_state_dict(torch.load(tmp_path / "all.pt", weights_only=True)["input"])
    assert [plain(batch) for batch in again] == rest


@pytest.mark.filterwarnings("ignore:this run had come to its end")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["map", "pipeline"])
@pytest.mark.parametrize("ahead", [False, True])
def test_the_checkpointer_saves_and_resumes_a_loader(
    ahead: bool, kind: str, workers: int, tmp_path: Path
) -> None:
    def pipeline() -> rs.Pipeline[Any]:
        loader = loader_of(kind, num_workers=workers)
        batches: Any = device_prefetch(loader, "cpu", 3) if ahead else loader
        return rs.from_iterable(batches).repeat(EPOCHS)

    expected = [plain(batch) for batch in pipeline()]
    assert len(expected) == 5 * EPOCHS
    stops = range(1, 5 * EPOCHS + 1)
    # Without workers a stop costs next to nothing. With them the ends of the epochs are kept.
    some = {*thinned(stops, 5, kind), *stops[4::5]} if workers else stops
    for stop in sorted(some):
        with rs.Checkpointer(tmp_path / str(stop), rs.EverySteps(100)) as checkpointer:
            got = [plain(b) for b in itertools.islice(checkpointer.resume(pipeline()), stop)]
        with rs.Checkpointer(tmp_path / str(stop), rs.EverySteps(100)) as checkpointer:
            got += [plain(batch) for batch in checkpointer.resume(pipeline())]
        assert got == expected, stop


def test_a_plain_loader_is_told_what_was_consumed() -> None:
    order = rs.range(LENGTH).shuffle(1)
    for workers in (0, 2):
        for consumed in range(5):
            sampler = ResumableSampler(LENGTH, shuffle=True, seed=1)
            iterator = iter(DataLoader(Rows(), 3, sampler=sampler, num_workers=workers))
            for _ in range(consumed):
                next(iterator)
            again = ResumableSampler(order)
            again.load_state_dict(sampler.state_dict(consumed=3 * consumed))
            assert list(again) == (list(order)[3 * consumed :] if consumed < 5 else [])
            assert list(again) == list(order.start(1))

            batches = ResumableBatchSampler(LENGTH, 3, shuffle=True, seed=1)
            iterator = iter(DataLoader(Rows(), batch_sampler=batches, num_workers=workers))
            for _ in range(consumed):
                next(iterator)
            again.load_state_dict(batches.state_dict(consumed=consumed))
            assert list(again) == list(order)[3 * consumed :]


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_plain_loader_over_a_pipeline_delivers_the_global_order(workers: int) -> None:
    pipeline = rs.range(LENGTH).shuffle(1).map(row).batch(3)
    expected = [[plain(batch) for batch in pipeline.start(epoch)] for epoch in range(EPOCHS)]
    for stop in range(6):
        dataset = PipelineDataset(pipeline)
        for epoch in range(EPOCHS):
            dataset.set_epoch(epoch)
            loader = DataLoader(dataset, batch_size=None, num_workers=workers)
            if epoch == 1 and stop < 6:
                got = [plain(batch) for batch in itertools.islice(loader, stop)]
                state = dataset.state_dict(consumed=stop)
                again = PipelineDataset(pipeline)
                again.load_state_dict(state)
                again.set_epoch(epoch)
                rest = DataLoader(again, batch_size=None, num_workers=3 - workers)
                got += [plain(batch) for batch in rest]
            else:
                got = [plain(batch) for batch in loader]
            assert got == expected[epoch]


# Workers of torchdata's are made anew for each pass and know nothing of the one before.
EPOCHS_IN_ONE = rs.range(LENGTH).shuffle(0).map(row).batch(3).repeat(2)

STATEFUL: dict[str, Callable[[], dict[str, Any]]] = {
    "sampler": lambda: {"dataset": Rows(), "sampler": ResumableSampler(LENGTH, shuffle=True)},
    "batch sampler": lambda: {
        "dataset": Rows(),
        "batch_sampler": ResumableBatchSampler(LENGTH, 3, shuffle=True),
    },
    "dataset": lambda: {"dataset": PipelineDataset(EPOCHS_IN_ONE)},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", STATEFUL)
def test_inside_the_stateful_loader_of_torchdata(kind: str, workers: int) -> None:
    def loader() -> Any:
        options: dict[str, Any] = STATEFUL[kind]()
        if kind != "batch sampler":
            options["batch_size"] = 3 if kind == "sampler" else None
        return torchdata.StatefulDataLoader(num_workers=workers, **options)

    passes = 1 if kind == "dataset" else 2
    reference = loader()
    expected = [plain(batch) for _ in range(passes) for batch in reference]
    assert len(expected) == 10
    assert expected[:5] != expected[5:]
    for stop in range(1, 10):
        stopped = loader()
        got = []
        for batch in itertools.chain(*[stopped] * passes):
            got.append(plain(batch))
            if len(got) == stop:
                break
        state = pickle.loads(pickle.dumps(stopped.state_dict()))
        again = loader()
        again.load_state_dict(state)
        while len(got) < 10:
            got += [plain(batch) for batch in again]
        assert got == expected, stop


def test_registered_with_accelerate(tmp_path: Path) -> None:
    def start() -> tuple[Any, Any]:
        accelerator = accelerate.Accelerator(cpu=True)
        loader = loader_of("map", num_workers=2)
        accelerator.register_for_checkpointing(loader)
        return accelerator, loader

    accelerator, loader = start()
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    accelerator.save_state(str(tmp_path))
    rest = [plain(batch) for batch in iterator]
    accelerator, again = start()
    accelerator.load_state(str(tmp_path))
    assert [plain(batch) for batch in again] == rest
