"""Shards of other loaders, which hold an integer and a text for each item."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import resumable as rs
from benchmarks.by_hand.operator import Operator, cut

__all__ = ["shard_operators"]

TEXT: Final = "x" * 90
LEAF: Final[dict[str, Any]] = {"type": None, "context": None, "children_spec": []}


def shard_operators(folder: Path, count: int) -> Iterator[Operator]:
    """Datasets of ``count`` items in one shard; by hand, slices of what was read of the file."""
    numbers, text = range(count), TEXT.encode()
    mds = _written(
        folder / f"mds-{count}",
        [struct.pack("<Iq", len(text), number) + text for number in numbers],
        _index_of_mds,
    )
    litdata = _written(
        folder / f"litdata-{count}",
        [struct.pack("<IIq", 8, len(text), number) + text for number in numbers],
        _index_of_litdata,
    )

    def samples() -> Iterator[Any]:
        for record in _records(mds / "shard"):
            yield {"n": int.from_bytes(record[4:12], "little"), "s": record[12:].decode()}

    def items() -> Iterator[Any]:
        for record in _records(litdata / "shard"):
            yield int.from_bytes(record[8:16], "little"), record[16:].decode()

    def dicts(batch: list[Any]) -> Any:
        return {"n": np.array([each["n"] for each in batch]), "s": [each["s"] for each in batch]}

    def tuples(batch: list[Any]) -> Any:
        return np.array([each[0] for each in batch]), [each[1] for each in batch]

    yield Operator("mds", rs.mds(mds), samples, lambda: cut(samples, dicts))
    yield Operator("litdata", rs.litdata(litdata), items, lambda: cut(items, tuples))


def _records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    count = int.from_bytes(data[:4], "little")
    offsets = np.frombuffer(data, "<u4", count + 1, 4).tolist()
    for number in range(count):
        yield data[offsets[number] : offsets[number + 1]]


def _written(
    folder: Path, records: list[bytes], index_of: Callable[[int, int], dict[str, Any]]
) -> Path:
    """The folder of a dataset of ``records``."""
    head = 4 + 4 * (len(records) + 1)
    ends = np.cumsum([head, *map(len, records)]).astype("<u4")
    data = struct.pack("<I", len(records)) + ends.tobytes() + b"".join(records)
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / "shard").write_bytes(data)
        (folder / "index.json").write_text(json.dumps(index_of(len(records), len(data))))
    return folder


def _index_of_mds(count: int, size: int) -> dict[str, Any]:
    shard = {
        "column_encodings": ["int", "str"], "column_names": ["n", "s"], "column_sizes": [8, None],
        "compression": None, "format": "mds", "raw_data": {"basename": "shard", "bytes": size}, "samples": count,
        "zip_data": None,
    }  # fmt: skip
    return {"shards": [shard], "version": 2}


def _index_of_litdata(count: int, size: int) -> dict[str, Any]:
    tree = {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF, LEAF]}
    return {
        "chunks": [{"chunk_bytes": size, "chunk_size": count, "dim": None, "filename": "shard"}],
        "config": {"data_format": ["int", "str"], "data_spec": json.dumps([1, tree])},
    }
