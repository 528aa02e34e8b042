"""Rows of a Parquet file by a shuffle in blocks, in batches of 256, against pyarrow in order and other loaders."""

# A batch is a dict with an array for each column of numbers, and a list of strings for one of text. The loop by
# hand makes these of what pyarrow's `iter_batches` gives, in the order of the file, which is the least that any
# loader can do. The others shuffle as well as they can: Hugging Face datasets, mapped, by a global order of
# indices and in order; Grain and torch look rows up in the table that pyarrow has read as a whole. The file is in
# the page cache. What was decoded is forgotten between epochs.

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import resumable as rs
from benchmarks.by_hand.turns import INSTANT, take_turns
from benchmarks.discovery import is_here
from benchmarks.result import Claim, Options, Result, Table, at_least
from benchmarks.timings import spread
from benchmarks.work import SEED, Start

MINUTES: Final = 6

BATCH: Final = 256
LONGEST: Final = 2.0
"""Seconds after which an epoch is stopped."""
OURS: Final = "resumable, blocks"
BY_HAND: Final = "pyarrow by hand, in order"
HUGGING_FACE: Final = "datasets, shuffled"


def write_rows(path: Path, count: int, text: bool, group: int) -> None:
    """Four columns of numbers, or two and one of text, in row groups of ``group`` rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    columns: dict[str, Any] = {"id": np.arange(count), "label": rng.integers(0, 10, count)}
    if text:
        columns["text"] = [f"some words of row {number}, " * 5 for number in range(count)]
    else:
        columns |= {"x": rng.random(count), "y": rng.random(count).astype(np.float32)}
    pq.write_table(pa.table(columns), path, row_group_size=group)


def by_hand(path: Path) -> Iterator[dict[str, Any]]:
    """What pyarrow reads in order, as arrays and lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(BATCH):
        yield {
            name: column.to_pylist() if pa.types.is_string(column.type) else column.to_numpy()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }


def ours(path: Path, group: int) -> Iterator[dict[str, Any]]:
    """A shuffle in blocks of a row group."""
    from resumable.formats.tables.source import decoded

    decoded.clear()
    yield from rs.parquet(path).shuffle(SEED, block=group).batch(BATCH)


def ours_in_order(path: Path) -> Iterator[dict[str, Any]]:
    """The same in the order of the file."""
    from resumable.formats.tables.source import decoded

    decoded.clear()
    yield from rs.parquet(path).batch(BATCH)


def peers(path: Path, folder: Path) -> dict[str, Start]:
    """What other loaders do with the file, by label; those that are installed."""
    found: dict[str, Start] = {}
    if is_here("datasets"):
        from datasets import Dataset

        data: Any = Dataset.from_parquet(str(path), cache_dir=str(folder)).with_format("numpy")
        shuffled = data.shuffle(seed=SEED, keep_in_memory=True)
        found[HUGGING_FACE] = lambda: shuffled.iter(BATCH)
        found["datasets, in order"] = lambda: data.iter(BATCH)
    rows = Rows(path)
    if is_here("grain"):
        import grain.python as grain

        mapped = grain.MapDataset.range(len(rows)).shuffle(seed=SEED).map(rows.__getitem__)
        in_batches = mapped.batch(BATCH)
        found["grain, rows of a table"] = lambda: (
            in_batches[number] for number in range(len(in_batches))
        )
    if is_here("torch"):
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(rows, batch_size=BATCH, shuffle=True)
        found["torch, rows of a table"] = lambda: loader
    return found


class Rows:
    """The rows of a file, read as a whole, by index."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        self._columns = {
            name: column.to_pylist() if "string" in str(column.type) else column.to_numpy()
            for name, column in zip(table.column_names, table.columns, strict=True)
        }

    def __len__(self) -> int:
        return len(self._columns["id"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self._columns.items()}


def check_alike(epochs: dict[str, Start], count: int) -> None:
    """Check that each epoch delivers each row once.

    Raises:
      AssertionError: naming the epoch that does not.
    """
    for name, start in epochs.items():
        seen = np.concatenate([np.asarray(batch["id"]) for batch in start()])
        assert np.array_equal(np.sort(seen), np.arange(count)), name


def run(options: Options) -> Result:
    """Compare what they deliver, then time them."""
    count, group = (4_000, 500) if options.quick else (400_000, 10_000)
    longest = INSTANT if options.quick else LONGEST
    tables, claims, raw = [], list[Claim](), {}
    for text in (False, True):
        kind = "numbers and text" if text else "numbers"
        path = options.folder / f"{kind}.parquet"
        write_rows(path, count, text, group)
        epochs = epochs_over(path, group, options.folder)
        check_alike(epochs, count)
        seconds = take_turns(
            epochs, options.rounds, longest, options.journal, kind, until=1 if text else 0.5
        )
        tables.append(_table(kind, seconds))
        raw[kind] = seconds
        claims += [
            at_least(f"{kind}: {name}'s time ÷ resumable's", ratio(seconds, name), limit)
            for name, limit in ((BY_HAND, 0.7), (HUGGING_FACE, 1.5))
            if name in seconds
        ]
    return Result(
        "parquet",
        (__doc__ or "").strip(),
        tables,
        [] if options.quick else claims,
        raw={"seconds": raw},
    )


def epochs_over(path: Path, group: int, folder: Path) -> dict[str, Start]:
    """All contestants, by label."""
    fixed: dict[str, Callable[[], Any]] = {
        BY_HAND: lambda: by_hand(path),
        OURS: lambda: ours(path, group),
        "resumable, in order": lambda: ours_in_order(path),
    }
    return fixed | peers(path, folder)


def ratio(seconds: dict[str, list[float]], name: str) -> float:
    """The median of the time of ``name`` as a multiple of ours."""
    pairs = zip(seconds[name], seconds[OURS], strict=True)
    return float(np.median([theirs / mine for theirs, mine in pairs]))


def _table(kind: str, seconds: dict[str, list[float]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name, each in seconds.items():
        pairs = zip(each, seconds[BY_HAND], strict=True)
        shown = "{:.2f} ({:.2f} to {:.2f})".format(*spread([mine / base for mine, base in pairs]))
        rows.append((name, f"{1e6 * np.median(each):.1f}", shown))
    header = ("", "µs a batch", "as a multiple of the first (quartiles)")
    return Table(f"rows of {kind}", header, rows)
