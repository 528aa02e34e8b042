"""A row in the place of a record is a row of the item that the loop has."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.views.origin_rows import origin_rows


def twice(batch: Any) -> Any:
    return np.repeat(batch, 2)


def each(batch: Any) -> list[list[int]]:
    return [[int(one)] for one in batch]


def opened(batch: Any) -> rs.Pipeline[Any]:
    return rs.from_sequence(batch.tolist())


R = rs.range(40)
DOCUMENTS = R.map(lambda number: [number] * (number % 3 + 1))
PIPELINES: dict[str, rs.Pipeline[Any]] = {
    "batch": R.batch(3),
    "batch of batches": R.batch(2).batch(3),
    "batch of windows": R.window(3, shift=2).batch(2),
    "batch rebatched": R.batch(4).rebatch(3),
    "batch sharded": R.batch(3).shard(1, 2),
    "map_batches": R.map_batches(twice, 3),
    "batch of map_batches": R.map_batches(twice, 3).batch(2),
    "map and unbatch": R.batch(3).map(twice).unbatch(),
    "map and rebatch": R.batch(2).map(twice).rebatch(3),
    "packed rows": DOCUMENTS.pack(4, group=4).map(lambda row: row["tokens"]).batch(2),
    "packed batches": R.batch(3).pack(4, group=2).map(lambda row: row["tokens"]),
    "parts that are packed": (
        R.batch(3).flat_map(each).pack(3, group=4).map(lambda row: row["tokens"]).batch(2)
    ),
    "interleave": R.batch(3).interleave_map(list, 2).batch(3),
    "pipelines that are opened": R.batch(3).flat_map(opened).batch(2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_row_in_a_place_is_one_of_the_item_of_the_loop(name: str) -> None:
    pipeline = PIPELINES[name]
    for item, origin in zip(pipeline.take(7), rs.origins(pipeline).take(7), strict=True):
        for place, *_ in origin_rows(origin):
            rows = tuple(map(int, re.findall(r"\brow (\d+)", place)))
            np.asarray(item)[rows]  # an IndexError if there is no such row


def test_the_row_of_an_earlier_batch_is_called_otherwise() -> None:
    (first, *_) = rs.origins(R.map_batches(twice, 2).batch(3)).take(1)
    assert [one.place for one in origin_rows(first)][:3] == [
        "row 0, part 0, of item 0",
        "row 0, part 0, of item 1",
        "row 1, part 1, of item 0",
    ]
