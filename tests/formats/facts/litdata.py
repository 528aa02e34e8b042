"""What the tests of every format know of `litdata`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from campaigns.damaged_shards import (
    INDEX,
    LITDATA,
    TOKENS,
    ShardTarget,
    around,
    batches_reference,
    beside,
    chunks_of,
    indexes,
    litdata_around,
    litdata_chunks,
    litdata_reference,
    tokens_reference,
)
from formats.compressing import HAS_ZSTD
from formats.records_of_formats import COUNT
from formats.shard_files import litdata_files, numbered, token_files, write_files
from support.format_facts import FormatFacts, Mutation, OneSize, Pipelines, Target

import resumable as rs


def damaged() -> dict[str, Target]:
    targets: dict[str, Target] = {
        "litdata": ShardTarget(
            rs.litdata, litdata_chunks, litdata_around, "chunk-0-0.bin", litdata_reference
        ),
        "litdata index": ShardTarget(
            rs.litdata, indexes(LITDATA), beside(LITDATA), INDEX, litdata_reference, True
        ),
        "litdata tokens index": ShardTarget(
            lambda path: rs.litdata(path, block_size=4),
            indexes(TOKENS),
            beside(TOKENS),
            INDEX,
            tokens_reference,
            True,
        ),
    }
    if HAS_ZSTD:
        targets["litdata batches"] = written_by_litdata("batch", 12)
    if find_spec("pyarrow"):
        targets["litdata table"] = written_by_litdata("table", 0)
    return targets


def written_by_litdata(name: str, place: int) -> Target:
    """A dataset in `of_litdata.zip`, with the place of the number of items in a chunk."""
    return ShardTarget(
        rs.litdata, lambda: chunks_of(name), around(name, place), "chunk.bin", batches_reference
    )


def chunk(number: int) -> bytes:
    items = [(bytes([number] * 8), b"abc")] * 9
    return litdata_files(items, per_chunk=9)["chunk-0-0.bin"]


def with_index(paths: list[Path]) -> rs.Pipeline[Any]:
    """The items, with an index of the chunks beside them."""
    index = json.loads(litdata_files(numbered(9), per_chunk=9)["index.json"])
    (chunk,) = index["chunks"]
    index["chunks"] = [
        chunk | {"filename": path.name, "chunk_bytes": path.stat().st_size} for path in paths
    ]
    (paths[0].parent / "index.json").write_text(json.dumps(index))
    return rs.litdata(paths[0].parent)


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    samples = [(str(number).encode(), data) for number in range(4 * COUNT)]
    return rs.litdata(write_files(folder, litdata_files(samples, ("bytes", "bytes"))))


def pipelines(folder: Path) -> Pipelines:
    return {
        "litdata": lambda: rs.litdata(folder / "litdata").shuffle(2).repeat(2),
        "litdata tokens": lambda: rs.litdata(folder / "tokens", block_size=4).batch(2),
    }


def write(folder: Path) -> None:
    write_files(folder / "litdata", litdata_files(numbered(11)))
    write_files(folder / "tokens", token_files([list(range(14)), [7] * 9, [3]]))


FACTS = FormatFacts(
    damaged=damaged,
    one_size={"litdata": OneSize(chunk, with_index)},
    removed={"litdata": written},
    pipelines=pipelines,
    write=write,
    mutations=[
        Mutation(
            "formats/shards/litdata_leaves.py",
            "pickle.loads if allow_pickle else partial(_refuse_pickle, config.file)",
            "pickle.loads",
        ),
        Mutation(
            "formats/shards/litdata_chunks.py", "tokens // block_size", "-(-tokens // block_size)"
        ),
    ],
)
