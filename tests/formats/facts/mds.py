"""What the tests of every format know of `mds`."""

from __future__ import annotations

import bz2
import json
from functools import partial
from pathlib import Path
from typing import Any

from campaigns.damaged_shards import (
    INDEX,
    MDS,
    ShardTarget,
    beside,
    indexes,
    mds_around,
    mds_reference,
    mds_shards,
)
from formats.records_of_formats import COUNT
from formats.shard_files import mds_files, write_files
from support.format_facts import FormatFacts, Mutation, OneSize, Pipelines

import resumable as rs


def shard(number: int) -> bytes:
    samples = [(number, "abc")] * 9
    return mds_files(samples, 9)["shard.00000.mds"]


def with_index(paths: list[Path]) -> rs.Pipeline[Any]:
    """The samples, with an index of the shards beside them."""
    index = json.loads(mds_files([(0, "")] * 9, 9)["index.json"])
    (shard,) = index["shards"]
    named = [{"basename": path.name, "bytes": path.stat().st_size, "hashes": {}} for path in paths]
    index["shards"] = [shard | {"raw_data": each} for each in named]
    (paths[0].parent / "index.json").write_text(json.dumps(index))
    return rs.mds(paths[0].parent)


def written(folder: Path, data: bytes, compression: tuple[Any, ...] = ()) -> rs.Pipeline[Any]:
    samples = [(number, data.decode()) for number in range(4 * COUNT)]
    return rs.mds(write_files(folder, mds_files(samples, 4, *compression)))


def pipelines(folder: Path) -> Pipelines:
    return {
        "mds": lambda: rs.mds(folder / "mds").shuffle(2).repeat(2),
        "mds compressed": lambda: rs.mds(folder / "mds compressed").batch(3),
        "mds without some": lambda: rs.mds(folder / "mds").exclude(
            {0: {"shard.00001.mds": [0, 3]}, 1: {"shard.00002.mds": [1]}}
        ),
    }


def write(folder: Path) -> None:
    samples = [(number, "s" * (number % 3)) for number in range(11)]
    write_files(folder / "mds", mds_files(samples))
    write_files(folder / "mds compressed", mds_files(samples, 5, "bz2", bz2.compress))


FACTS = FormatFacts(
    damaged=lambda: {
        "mds": ShardTarget(rs.mds, mds_shards, mds_around, "shard.00000.mds", mds_reference),
        "mds index": ShardTarget(rs.mds, indexes(MDS), beside(MDS), INDEX, mds_reference, True),
    },
    one_size={"mds": OneSize(shard, with_index)},
    removed={
        "mds": written,
        "mds compressed": partial(written, compression=("bz2", bz2.compress)),
    },
    pipelines=pipelines,
    write=write,
    mutations=[
        Mutation("formats/shards/mds_columns.py", "if place != len(record):", "if False:"),
        Mutation(
            "formats/shards/mds_columns.py", "encoding.is_pickle and not allow_pickle", "False"
        ),
    ],
)
