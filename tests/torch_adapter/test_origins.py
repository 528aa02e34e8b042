"""The number of a batch is the step at which its origins are found."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.checkpoint.tracing import traced_step  # noqa: E402


def pipeline(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return (
        rs.range(60).shuffle(seed=0).filter(lambda number: number % 7).shard(rank, ranks).batch(3)
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_loader_are_traced_by_their_number(workers: int) -> None:
    loader: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(pipeline(1, 2)), None, num_workers=workers
    )
    for step, batch in zip(count(1), loader):  # the loader ends
        (found,) = traced_step(rs.Memory(), lambda _: pipeline(0, 2).stage, step, 1)
        assert [one.record for one in found.origin.records()] == batch.tolist()


def test_rows_of_batches_that_the_loader_collates_are_items_of_the_pipeline() -> None:
    numbers = rs.range(30).shuffle(seed=0)
    loader: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(numbers), batch_size=4, num_workers=0
    )
    origins = rs.origins(numbers.batch(4))
    for step, batch in zip(count(), loader):  # the loader ends
        assert [row.record for row in origins[step].records()] == batch.tolist()
