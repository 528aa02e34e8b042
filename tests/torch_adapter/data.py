"""Data sets, loaders and what comes out of them."""

from __future__ import annotations

from typing import Any

import torch
from resumable_torch import PipelineDataset, ResumableDataLoader, rng_for
from torch.utils.data import Dataset

import resumable as rs

LENGTH = 13


class Rows(Dataset[Any]):
    """Rows of three numbers."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, index * index, -index])


class Augmented(Rows):
    """Rows with noise that belongs to the sample's position in the run."""

    def __getitem__(self, pair: Any) -> Any:
        index, position = pair
        noise = rng_for(position, seed=5).normal(size=2)
        return torch.tensor([index, position]), torch.from_numpy(noise)


def row(index: int) -> torch.Tensor:
    return Rows()[index]


def loader_of(kind: str, **options: Any) -> ResumableDataLoader[Any]:
    """A loader of each kind, all over the same order but that of the stream."""
    options = {"batch_size": 3, **options}
    if options.get("num_workers", 0) == 0:
        options.pop("prefetch_factor", None)
        options.pop("persistent_workers", None)
    if kind == "map":
        return ResumableDataLoader(Rows(), shuffle=True, seed=1, **options)
    if kind == "augmented":
        return ResumableDataLoader(Augmented(), shuffle=True, seed=1, with_position=True, **options)
    if kind == "pipeline":
        pipeline = rs.range(LENGTH).shuffle(1).map(row)
        return ResumableDataLoader(PipelineDataset(pipeline), **options)
    assert kind == "stream"
    stream = rs.from_iterable(numbers).shuffle(2, window=4).filter(bool).map(row).prefetch(2)
    return ResumableDataLoader(PipelineDataset(stream), **options)


def listed(rows: list[Any]) -> list[Any]:
    return rows


def numbers() -> Any:
    return iter(range(LENGTH))


def plain(batch: Any) -> Any:
    """A batch as lists, bit for bit."""
    if isinstance(batch, (list, tuple)):
        return [plain(part) for part in batch]
    return str(batch.dtype), batch.shape, batch.tolist()


def rest_of(loader: ResumableDataLoader[Any], epochs: int) -> list[Any]:
    """All batches from where ``loader`` stands to the end of the last epoch, with their epochs."""
    return [(loader.epoch, plain(batch)) for _ in range(loader.epoch, epochs) for batch in loader]
