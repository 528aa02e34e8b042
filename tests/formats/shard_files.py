"""Write datasets of shards in the documented layouts of MDS and LitData, without their packages."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

Files = dict[str, bytes]
"""Contents by name, the index among them."""

Pack = Callable[[bytes], bytes]


def mds_files(
    samples: Sequence[tuple[int, str]],
    per_shard: int = 4,
    compression: str = "",
    pack: Pack | None = None,
) -> Files:
    """An MDS dataset of the columns ``n``, an integer, and ``s``, text."""
    columns: dict[str, Any] = {
        "column_names": ["n", "s"], "column_encodings": ["int", "str"], "column_sizes": [8, None],
    }  # fmt: skip
    files: Files = {}
    shards = []
    for first in range(0, len(samples), per_shard):
        name = f"shard.{first // per_shard:05}.mds"
        part = samples[first : first + per_shard]
        encoded = [text.encode() for _, text in part]
        records = [
            struct.pack("<Iq", len(data), number) + data
            for (number, _), data in zip(part, encoded, strict=True)
        ]
        content = with_head(records, json.dumps(columns).encode())
        packed = None
        if pack is not None:
            packed = {
                "basename": f"{name}.{compression}",
                "bytes": len(pack(content)),
                "hashes": {},
            }
        files[name if packed is None else f"{name}.{compression}"] = (pack or bytes)(content)
        shards.append({
            **columns, "compression": compression or None, "format": "mds", "hashes": [],
            "raw_data": {"basename": name, "bytes": len(content), "hashes": {}}, "samples": len(part),
            "size_limit": 1 << 26, "version": 2, "zip_data": packed,
        })  # fmt: skip
    return files | {"index.json": json.dumps({"shards": shards, "version": 2}).encode()}


def litdata_files(
    items: Sequence[Sequence[bytes]],
    data_format: Sequence[str] = ("int", "str"),
    per_chunk: int = 4,
    config: Mapping[str, Any] | None = None,
    pack: Pack | None = None,
) -> Files:
    """A dataset of LitData; each item is a tuple of leaves, which are given as they are stored."""
    files: Files = {}
    chunks = []
    ending = ".zstd.bin" if pack else ".bin"
    for first in range(0, len(items), per_chunk):
        name = f"chunk-0-{first // per_chunk}{ending}"
        part = items[first : first + per_chunk]
        content = with_head(
            [struct.pack(f"<{len(item)}I", *map(len, item)) + b"".join(item) for item in part]
        )
        files[name] = (pack or bytes)(content)
        chunks.append(
            {"chunk_bytes": len(content), "chunk_size": len(part), "dim": None, "filename": name}
        )
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf] * len(data_format)}
    described = {
        "compression": "zstd" if pack else None, "compression_level": None, "data_format": list(data_format),
        "data_spec": json.dumps([1, tree]), "encryption": None, "item_loader": "PyTreeLoader", **(config or {}),
    }  # fmt: skip
    return files | {"index.json": json.dumps({"chunks": chunks, "config": described}).encode()}


def token_files(chunks: Sequence[Sequence[int]]) -> Files:
    """A dataset of LitData's TokensLoader: chunks of tokens of 16 bits."""
    files: Files = {}
    described = []
    for number, tokens in enumerate(chunks):
        name = f"chunk-0-{number}.bin"
        files[name] = with_head([struct.pack(f"<{len(tokens)}H", *tokens)])
        described.append(
            {"chunk_bytes": len(files[name]), "chunk_size": 1, "dim": len(tokens), "filename": name}
        )
    config = {
        "compression": None, "data_format": ["no_header_numpy:5"], "encryption": None, "item_loader": "TokensLoader",
    }  # fmt: skip
    return files | {"index.json": json.dumps({"chunks": described, "config": config}).encode()}


def numbered(count: int) -> list[tuple[bytes, bytes]]:
    """Items of an integer and a text, as LitData stores them."""
    return [(struct.pack("<q", number), b"t" * (number % 4)) for number in range(count)]


def with_head(records: Sequence[bytes], behind: bytes = b"") -> bytes:
    """``records`` behind their number and offsets, and behind some other bytes."""
    size = 4 + 4 * (len(records) + 1) + len(behind)
    offsets = accumulate(map(len, records), initial=size)
    head = struct.pack(f"<{len(records) + 2}I", len(records), *offsets)
    return head + behind + b"".join(records)


def write_files(folder: Path, files: Files) -> Path:
    """Write ``files`` into ``folder``; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def change_index(folder: Path, change: Callable[[Any], object]) -> None:
    """Let ``change`` change the index in ``folder``."""
    path = folder / "index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
