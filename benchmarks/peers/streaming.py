"""MosaicML Streaming."""

# Recommended: local shards and a DataLoader with two workers. Lean: the same without workers.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.functions import identity, stack
from benchmarks.mosaicml import streaming
from benchmarks.work import SEED, Arrays, JsonLines, Prepare, Start, Unsupported, Work

NAME = "MosaicML Streaming"
DISTRIBUTION = "mosaicml-streaming"
NEEDS = ("streaming", "torch")
EXACT_WINDOW = "has no shuffle of a stream"


def configurations(work: Work) -> dict[str, Prepare]:
    """Shards are written before the timing."""
    work.refuse_groups()
    if work.workers:
        raise Unsupported("its workers are those of torch's DataLoader")
    if not isinstance(work.source, (Arrays, JsonLines)):
        raise Unsupported("its items come from shards of files")
    return {
        "recommended": lambda folder: _prepare(work, folder, workers=2),
        "lean": lambda folder: _prepare(work, folder, workers=0),
    }


def _prepare(work: Work, folder: Path, workers: int) -> Start:
    from torch.utils.data import DataLoader

    _write(work, folder)
    data = streaming().StreamingDataset(
        local=str(folder), shuffle=work.shuffle, shuffle_seed=SEED, batch_size=work.batch
    )
    collate = None if work.map is None else _Parsed(work)
    return lambda: DataLoader(data, batch_size=work.batch, num_workers=workers, collate_fn=collate)


class _Parsed:
    """Makes a batch of rows, in the worker."""

    def __init__(self, work: Work) -> None:
        self._fn = work.map or identity

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        return stack([self._fn(row["line"]) for row in rows])


def _write(work: Work, folder: Path) -> None:
    writer = streaming().MDSWriter
    source = work.source
    if isinstance(source, JsonLines):
        with writer(out=str(folder), columns={"line": "str"}) as shards:
            for line in source.path.read_text().splitlines():
                shards.write({"line": line})
        return
    assert isinstance(source, Arrays)
    kinds = {name: _kind(column) for name, column in source.columns.items()}
    with writer(out=str(folder), columns=kinds) as shards:
        for row in zip(*source.columns.values(), strict=True):
            shards.write(dict(zip(source.columns, row, strict=True)))


def _kind(column: np.ndarray[Any, Any]) -> str:
    """How a shard stores the values of a column."""
    if column.ndim == 1:
        return str(column.dtype)
    return f"ndarray:{column.dtype}:{','.join(map(str, column.shape[1:]))}"
