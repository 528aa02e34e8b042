"""The loader says how long the loop waits for it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from support.clocks import Clock  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402
from torch_adapter.data import plain  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Slow(Dataset[Any]):
    """Rows of which each takes a second on a clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        self.clock.now += 1.0
        if index == 7:
            raise ValueError(index)
        return index


def test_the_loop_waits_where_it_calls_next() -> None:
    clock = Clock()
    loader: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(rs.range(12).map(Slow(clock).__getitem__).take(6))
    )
    assert loader.stats() == {"steps": 0, "items": 0, "inputs": {}, "skipped": {}}
    loader.measure(clock)
    for _ in range(2):
        for _ in loader:
            clock.now += 3.0
    stats = loader.stats()
    assert (stats["steps"], stats["items"]) == (12, 12)
    assert (stats["wait_seconds"], stats["loop_seconds"]) == (12.0, 36.0)
    assert stats["wait_share"] == 0.25


def test_a_batch_that_cannot_be_made_is_waited_for_too() -> None:
    clock = Clock()
    loader: ResumableDataLoader[Any] = ResumableDataLoader(Slow(clock), batch_size=2)
    loader.measure(clock)
    batches = iter(loader)
    received: list[Any] = []
    while True:
        try:
            received.append(next(batches).tolist())
        except ValueError:
            clock.now += 10.0
        except StopIteration:
            break
    assert received == [[0, 1], [2, 3], [4, 5], [8, 9], [10, 11]]
    stats = loader.stats()
    assert (stats["steps"], stats["wait_seconds"], stats["loop_seconds"]) == (5, 12.0, 10.0)


@pytest.mark.parametrize("workers", [0, 2])
def test_timing_changes_neither_batches_nor_states(workers: int) -> None:
    def run(loader: ResumableDataLoader[Any]) -> list[Any]:
        found = []
        for _ in range(2):
            for batch in loader:
                found.append((plain(batch), loader.state_dict()))
        return found

    def loader() -> ResumableDataLoader[Any]:
        numbers = rs.mix({"web": rs.range(9), "math": rs.range(9, 18)})
        return ResumableDataLoader(PipelineDataset(numbers), batch_size=2, num_workers=workers)

    measured = loader()
    measured.measure()
    assert run(measured) == run(loader())
    stats = measured.stats()
    assert stats["wait_seconds"] > 0
    half = loader()
    for _ in itertools.islice(half, 3):
        pass
    assert half.stats()["inputs"] == {"web": 3, "math": 3}


@pytest.mark.parametrize(
    "place",
    [
        *(
            "core.iterator.input_counts",
            "core.iterator.described",
            "core.stopwatch.Stopwatch.counters",
        ),
        "core.iterator.PipelineIterator.stats",
    ],
)
def test_no_fault_of_a_counter_comes_out_of_a_loader(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    numbers = rs.mix({"web": rs.range(9), "math": rs.range(9, 18)})
    loader: Any = ResumableDataLoader(PipelineDataset(numbers), batch_size=2)
    loader.measure()
    monkeypatch.setattr(f"resumable.{place}", fails)
    with pytest.warns(RuntimeWarning, match="stats are left out") as found:
        assert [loader.stats()["steps"] for _ in loader] == list(range(1, 10))
    assert len(found) == 1
