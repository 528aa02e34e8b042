"""Pipelines that make one item of several, or several of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import resumable as rs
from resumable.testing.samples import columns, stream, without_last

from .samples import (
    SummedBatches,
    document,
    double,
    exotic_fields,
    fails_on_thirds,
    inputs_and_targets,
    length_of_document,
    named_columns,
    three_of,
    twice,
    two_fields,
)

__all__ = ["GROUPING"]

GROUPING: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "collate stateful": lambda: rs.range(20).batch(3, collate=SummedBatches()).repeat(2),
    "flat_map": lambda: rs.range(8).flat_map(range),
    "flat_map pipelines": lambda: rs.range(7).flat_map(
        lambda n: rs.range(n).shuffle(n).filter(lambda i: i != 1)
    ),
    "flat_map of a size": lambda: rs.range(8).shuffle(2).flat_map(three_of, size=3).repeat(2),
    "flat_map of a size shuffled": lambda: rs.range(8).flat_map(three_of, size=3).shuffle(1),
    "unbatch of a size": lambda: (
        rs.from_arrays(columns()).batch(4, drop_last=True).unbatch(size=4).shuffle(3).batch(3)
    ),
    "unbatch of a size in order": lambda: stream(20).batch(4).unbatch(size=4).repeat(2),
    "batch": lambda: rs.range(23).batch(5),
    "batch drop_last": lambda: stream(23).batch(5, drop_last=True).repeat(2),
    "batch over epochs": lambda: rs.range(7).shuffle(0).repeat(5).batch(4),
    "batch collate": lambda: rs.range(23).batch(5, collate=sum),
    "batch of batches": lambda: rs.range(24).batch(3).batch(2),
    "batch of strings": lambda: rs.from_sequence(["a", None, "b"]).batch(2),
    "map_batches": lambda: rs.range(23).shuffle(1).map_batches(without_last, 4).repeat(2),
    "map_batches of columns": lambda: rs.interleave(
        rs.range(17).batch(3).unbatch(), rs.range(40, 60)
    ).map_batches(double, 4),
    "map_batches columns": lambda: rs.from_arrays(columns()).map_batches(twice, 4).batch(3),
    "map_batches workers skipping": lambda: stream(23).map_batches(
        lambda batch: [fails_on_thirds(batch[0]), *batch], 4, workers=2, on_error="skip"
    ),
    "map_batches to nothing": lambda: stream(23).map_batches(lambda batch: [], 4).repeat(2),
    "bucket": lambda: rs.range(40).map(document).bucket(len, batch_size=3, window=9).repeat(2),
    "bucket tokens": lambda: (
        stream(40)
        .map(two_fields)
        .bucket(
            lambda item: len(item["y"]),
            max_tokens=24,
            window=11,
            seed=5,
            boundaries=[3, 6],
            multiple_of=4,
            collate=rs.padded({"x": -1}, multiple_of=4, side="left", mask="mask"),
            drop_last=True,
        )
        .repeat(2)
    ),
    "bucket fields": lambda: (
        stream(40)
        .map(inputs_and_targets)
        .bucket(["inputs", "targets"], max_tokens={"inputs": 30, "targets": 44}, window=11)
        .repeat(2)
    ),
    "pack": lambda: rs.range(40).map(document).pack(16, window=9).repeat(2),
    "pack short rows": lambda: stream(40).map(document).pack(5, window=4, tail="short"),
    "pack fields": lambda: (
        stream(20).map(two_fields).pack(16, pad={"x": -1, "y": 7}, window=7).batch(2)
    ),
    "pack any dtype": lambda: (
        stream(20)
        .map(exotic_fields)
        .pack(16, pad={"mask": True, "weights": -0.5, "vectors": 0}, window=7)
    ),
    "pack concatenated any dtype": lambda: (
        stream(20).map(exotic_fields).pack(7, how="concatenate", window=3).repeat(2)
    ),
    "pack concatenated": lambda: (
        rs.range(40).map(document).pack(16, how="concatenate", window=9).repeat(2)
    ),
    "pack concatenated short": lambda: (
        stream(40).map(document).pack(5, how="concatenate", window=4, tail="short").repeat(2)
    ),
    "pack fields of their own lengths": lambda: (
        stream(30).map(inputs_and_targets).pack({"inputs": 16, "targets": 9}, window=7).batch(2)
    ),
    "pack concatenated fields": lambda: (
        rs.range(30)
        .map(inputs_and_targets)
        .pack({"inputs": 11, "targets": 9}, how="concatenate", window=4, tail="short")
        .repeat(2)
    ),
    "pack with options": lambda: (
        stream(40)
        .map(document)
        .pack(16, align=4, bos=-1, eos=-2, max_documents=3, shuffle_rows=5, window=9)
        .repeat(2)
    ),
    "pack concatenated with options": lambda: (
        rs.range(30)
        .map(inputs_and_targets)
        .pack(
            {"inputs": 12, "targets": 10},
            how="concatenate",
            align={"inputs": 4},
            bos={"inputs": -1},
            eos=-2,
            max_documents=3,
            window=4,
        )
        .repeat(2)
    ),
    "pack per document": lambda: (
        stream(30)
        .map(inputs_and_targets)
        .pack({"inputs": 16, "targets": 9}, per_document=["id"], parts=True, window=7)
        .repeat(2)
    ),
    "pack concatenated per document": lambda: (
        rs.range(30)
        .map(inputs_and_targets)
        .pack(
            7,
            how="concatenate",
            key="inputs",
            pad={"inputs": 0, "targets": None},
            per_document=["id", "targets"],
            max_documents=4,
            parts=True,
            window=4,
        )
        .repeat(2)
    ),
    "pack planned from lengths": lambda: (
        rs.range(40)
        .shuffle(3)
        .map(document)
        .pack(16, lengths=rs.range(40).shuffle(3).map(length_of_document), window=9)
        .repeat(2)
    ),
    "pack nothing": lambda: stream(3).map(lambda item: []).pack(5).repeat(2),
    "rebatch": lambda: rs.from_arrays(columns()).batch(4).rebatch(3).repeat(2),
    "rebatch of a stream": lambda: stream(17).batch(6).rebatch(4, drop_last=True).repeat(2),
    "rebatch of lists": lambda: rs.from_sequence(["ab", "", "cde", "f"] * 4).map(list).rebatch(5),
    "windows": lambda: rs.range(23).shuffle(1).window(5, shift=2).repeat(2),
    "windows of columns shuffled": lambda: (
        rs.from_arrays(columns()).window(4, shift=3, drop_last=True).shuffle(1).batch(2)
    ),
    "windows of a stream": lambda: stream(23).window(4, shift=3).repeat(2),
    "windows drop_last": lambda: stream(23).window(6, shift=2, drop_last=True).repeat(2),
    "windows with gaps": lambda: stream(23).window(2, shift=5).repeat(2),
    "windows longer than stream": lambda: stream(3).window(9),
    "windows of nothing": lambda: stream(0).window(3, shift=1).repeat(2),
    "unbatch": lambda: rs.from_arrays(columns()).batch(4).unbatch(),
    "unbatch columns": lambda: rs.from_sequence(
        [
            *np.arange(24).reshape(4, 6),
            np.arange(0),
            np.arange(3.0),
            np.arange(5, dtype=np.uint8),
            [1, 2],
            np.array(["a", "bcd"]),
            *np.arange(24).reshape(2, 3, 4),
        ]
    ).unbatch(),
    "unbatch stream of dicts": lambda: stream(23).batch(5).map(named_columns).unbatch().repeat(2),
}
