"""Hugging Face datasets."""

# Recommended: `shuffle`, a format or a transform of rows, and `iter(batch_size)`. Lean: the table
# has indices only, of which the transform makes a batch. It has no packing: a map of groups packs the
# documents of each as the loop by hand does, while the epoch runs, or before it, into a file.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.by_hand.packing import packed
from benchmarks.functions import Each, identity, lines_of
from benchmarks.work import SEED, Arrays, JsonLines, Pack, Prepare, Start, Stream, Unsupported, Work

NAME = "datasets"
DISTRIBUTION = "datasets"
NEEDS = ("datasets",)
EXACT_WINDOW = "no: the buffer is filled anew, so its items are lost"


def configurations(work: Work) -> dict[str, Prepare]:
    """A map-style data set where all items are shuffled, else an iterable one."""
    if work.workers:
        raise Unsupported("maps ahead of the epoch, or in torch's DataLoader")
    if isinstance(work.source, Stream):
        return {"": lambda folder: _stream(work)}
    if work.groups is not None:
        return _of_groups(work)
    if work.batch is None:
        return {
            "recommended": lambda folder: _single(work),
            "lean": lambda folder: _single_in_batches(work),
        }
    return {
        "recommended": lambda folder: _recommended(work, folder),
        "lean": lambda folder: _lean(work),
    }


def _recommended(work: Work, folder: Path) -> Start:
    data = _table(work, folder)
    if isinstance(work.source, Arrays):
        return _batches(data.with_format("numpy"), work)
    each, (column,) = Each(work), data.column_names
    return _batches(data.with_transform(lambda rows: _named(each(rows[column]))), work)


def _table(work: Work, folder: Path) -> Any:
    from datasets import Array3D, Dataset, Features, Value

    source = work.source
    if isinstance(source, JsonLines):
        return Dataset.from_text(str(source.path), cache_dir=str(folder))
    if not isinstance(source, Arrays):
        return Dataset.from_dict({"item": np.arange(len(source))})
    features = {
        name: Array3D(column.shape[1:], str(column.dtype))
        if column.ndim == 4
        else Value(str(column.dtype))
        for name, column in source.columns.items()
    }
    return Dataset.from_dict(source.columns, Features(features))


def _named(values: Any) -> dict[str, Any]:
    """A batch is a dict of columns."""
    columns = values if isinstance(values, tuple) else (values,)
    return {str(number): column for number, column in enumerate(columns)}


def _batches(data: Any, work: Work) -> Start:
    def start() -> Any:
        order = data.shuffle(seed=SEED, keep_in_memory=True) if work.shuffle else data
        return order.iter(work.batch)

    return start


def _lean(work: Work) -> Start:
    from datasets import Dataset

    data = Dataset.from_dict({"index": np.arange(len(work.source))})
    source = work.source
    if isinstance(source, Arrays):
        columns = tuple(source.columns.values())
        return _batches(
            data.with_transform(
                lambda rows: _named(tuple(column.take(rows["index"], 0) for column in columns))
            ),
            work,
        )
    each = Each(work)
    lines: Any = lines_of(source) if isinstance(source, JsonLines) else None
    return _batches(
        data.with_transform(
            lambda rows: _named(
                each([lines[index] for index in rows["index"]] if lines else rows["index"])
            )
        ),
        work,
    )


def _iterable(work: Work) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"item": np.arange(len(work.source))}).to_iterable_dataset()


def _single(work: Work) -> Start:
    data, fn, keep = _iterable(work), work.map or identity, work.keep
    data = data.map(lambda row: {"item": fn(row["item"])})
    if keep is not None:
        data = data.filter(lambda row: keep(row["item"]))
    return lambda: data


def _single_in_batches(work: Work) -> Start:
    data, fn, keep = _iterable(work), work.map or identity, work.keep
    data = data.map(lambda rows: {"item": [fn(item) for item in rows["item"]]}, batched=True)
    if keep is not None:
        data = data.filter(lambda rows: [bool(keep(item)) for item in rows["item"]], batched=True)
    return lambda: data


def _stream(work: Work) -> Start:
    from datasets import IterableDataset

    assert isinstance(work.source, Stream)
    make = work.source.make

    def rows() -> Any:
        return ({"item": item} for item in make())

    data = IterableDataset.from_generator(rows)
    if work.window is not None:
        data = data.shuffle(SEED, buffer_size=work.window)
    return lambda: data.iter(work.batch)


def _of_groups(work: Work) -> dict[str, Prepare]:
    if not isinstance(work.groups, Pack):
        raise Unsupported("has no bucketing")
    if not work.groups.whole:
        raise Unsupported("has nothing that keeps documents from one group for the next")
    return {
        "packing written by hand": lambda folder: _packed(work, folder, in_file=False),
        "packing written by hand, into a file": lambda folder: _packed(work, folder, in_file=True),
    }


def _packed(work: Work, folder: Path, in_file: bool) -> Start:
    pack, fn = work.groups, work.map or identity
    assert isinstance(pack, Pack)
    data = _table(work, folder)

    def rows_of(group: dict[str, list[str]]) -> dict[str, Any]:
        return packed([fn(line) for line in group["text"]], pack.length)

    grouped: dict[str, Any] = {
        "function": rows_of,
        "batched": True,
        "batch_size": pack.window,
        "remove_columns": ["text"],
    }

    def start() -> Any:
        documents = data.shuffle(seed=SEED, keep_in_memory=True) if work.shuffle else data
        if in_file:
            rows = documents.map(**grouped, load_from_cache_file=False)
        else:
            rows = documents.to_iterable_dataset().map(**grouped)
        return rows.with_format("numpy").iter(work.batch)

    return start
