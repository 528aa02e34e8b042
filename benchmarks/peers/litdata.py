"""LitData."""

# Recommended: optimised chunks and its StreamingDataLoader with two workers. Lean: the same
# without workers.

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.functions import lines_of
from benchmarks.work import SEED, Arrays, JsonLines, Prepare, Start, Unsupported, Work

NAME = "LitData"
DISTRIBUTION = "litdata"
NEEDS = ("litdata", "torch")
EXACT_WINDOW = "has no shuffle of a stream"


def configurations(work: Work) -> dict[str, Prepare]:
    """Chunks are written before the timing."""
    work.refuse_groups()
    if work.workers:
        raise Unsupported("its workers are those of torch's DataLoader")
    if not isinstance(work.source, (Arrays, JsonLines)):
        raise Unsupported("its items come from chunks of files")
    return {
        "recommended": lambda folder: _prepare(work, folder, workers=2),
        "lean": lambda folder: _prepare(work, folder, workers=0),
    }


def _prepare(work: Work, folder: Path, workers: int) -> Start:
    from litdata import StreamingDataLoader, StreamingDataset

    _write(work, folder)
    data = StreamingDataset(str(folder), shuffle=work.shuffle, seed=SEED, transform=work.map)
    return lambda: StreamingDataLoader(data, batch_size=work.batch, num_workers=workers)


def _write(work: Work, folder: Path) -> None:
    """The function that its `optimize` calls in other processes."""
    from litdata.streaming.writer import BinaryWriter

    source = work.source
    if isinstance(source, JsonLines):
        rows: Any = (line.decode() for line in lines_of(source))
    else:
        assert isinstance(source, Arrays)
        names = list(source.columns)
        columns = source.columns.values()
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    writer = BinaryWriter(str(folder), chunk_bytes="64MB")
    for index, row in enumerate(rows):
        writer.add_item(index, row)
    writer.done()
    writer.merge()
