"""Find the chunks of a LitData dataset by the index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ...errors import InvalidArgument
from ..io.paths import is_remote
from .decoding import pickle_refused
from .index_json import IndexPart, found_files_below, path_below
from .litdata_chunks import ItemChunk, TokenTable
from .litdata_items import ItemDecoder, TokenDecoder, TreeDecoder
from .litdata_leaves import leaves_of, number_dtype
from .ranges import read_at_once
from .shard import ListedShard, head_size
from .source import FoundShards
from .table_chunk import check_tables_are_read
from .treespec import tree_of
from .unpacking import check_installed

CHUNK, BATCH, SAMPLE = "chunk", "batch", "sample"
"""Units of compression: a whole file, some of the items, or each item."""

OF_TABLES: Final = {"str", "int", "float", "bool", "bytes", "json", "pickle"}
"""Serializers of leaves that LitData may write as a table."""

TREES: Final = "PyTreeLoader"
TOKENS: Final = "TokensLoader"


class LitDataOptions(NamedTuple):
    """How a dataset is read.

    Attributes:
      block_size: tokens of an item; None if items are no tokens.
      as_torch: whether tensors are delivered as tensors of torch.
      allow_pickle: whether pickled leaves are read.
    """

    block_size: int | None
    as_torch: bool
    allow_pickle: bool


def found_litdata(
    folder: str, index: IndexPart, options: Mapping[str, Any] | None, reading: LitDataOptions
) -> tuple[FoundShards, ItemDecoder]:
    """The chunks in ``folder`` listed by the ``index``, and the decoder of their records.

    Raises:
      MalformedItem: if the index is damaged, or a chunk has another size.
      InvalidArgument: if the index is not of LitData, or describes unsupported content.
      MissingDependency: if a package necessary for all items is not installed.
      OSError: if a chunk cannot be found.
    """
    if index.has("shards") and not index.has("chunks"):
        raise InvalidArgument(
            f"path must name a dataset of LitData, got one of MDS, {index.file}; use rs.mds"
        )
    config = index.part("config")
    _check_read(config)
    compression, level = _compression_of(config)
    is_tokens = _is_tokens(config, reading.block_size)
    parts = index.parts("chunks")
    if not parts:
        raise index.refused("chunks must list at least one chunk, got []")
    chunks = [_listed(folder, part, compression if level == CHUNK else "") for part in parts]
    decoder: ItemDecoder
    if is_tokens:
        assert reading.block_size is not None
        dtype = number_dtype(config)
        token_tables = [
            TokenTable.of(part, chunk, dtype, reading.block_size)
            for part, chunk in zip(parts, chunks, strict=True)
        ]
        decoder = TokenDecoder(dtype, config.texts("data_format")[0], reading.as_torch)
    else:
        leaves = leaves_of(config, reading.as_torch, reading.allow_pickle)
        decoder = TreeDecoder(leaves, tree_of(config, len(leaves)))
    files = found_files_below(folder, [chunk.file_name for chunk in chunks], options)
    found = []
    for number, (part, chunk, file) in enumerate(zip(parts, chunks, files, strict=True)):
        if chunk.file_size is not None:
            part.check_size(file, chunk.file_size)
        found.append(ItemChunk(file, chunk, level, token_tables[number] if is_tokens else None))
    is_packed = any(chunk.compression for chunk in chunks)
    if level in (BATCH, SAMPLE) or is_packed:
        check_installed("zstd")
    has_tables = _begins_with_table(config, found[0])
    if has_tables:
        check_tables_are_read()
    # Where rows are read from a table, pickled leaves are passed over.
    if "pickle" in config.texts("data_format") and not has_tables and not reading.allow_pickle:
        raise pickle_refused(f"{config.file}: items hold what was pickled")
    return FoundShards(found, is_packed or has_tables), decoder


def _check_read(config: IndexPart) -> None:
    """Refuse unsupported datasets.

    Raises:
      InvalidArgument: with the reason.
    """
    if config.has("encryption"):
        raise InvalidArgument(f"{config.file}: the chunks are encrypted, and such are not read")
    loader = config.value("item_loader") if config.has("item_loader") else TREES
    if loader == "ParquetLoader":
        raise InvalidArgument(
            f"{config.file}: the chunks are Parquet files; read them by rs.parquet"
        )
    if loader not in (TREES, TOKENS):
        raise InvalidArgument(
            f"{config.file}: item_loader must be {TREES!r} or {TOKENS!r} to be read, got {loader!r}"
        )


def _compression_of(config: IndexPart) -> tuple[str, str]:
    """The name and the unit of the compression, both empty without compression."""
    if not config.has("compression"):
        return "", ""
    compression = config.text("compression")
    if compression.partition(":")[0] != "zstd":
        raise InvalidArgument(
            f"{config.file}: the chunks are compressed by {compression!r}, which is not read; zstd is"
        )
    level = config.text("compression_level") if config.has("compression_level") else CHUNK
    if level not in (CHUNK, BATCH, SAMPLE):
        raise config.refused(f"compression_level must be chunk, batch or sample, got {level!r}")
    return compression, level


def _is_tokens(config: IndexPart, block_size: int | None) -> bool:
    """Whether items are blocks of tokens.

    Raises:
      InvalidArgument: if ``block_size`` is missing for tokens, or given for other items.
    """
    is_old = not config.has("item_loader")
    is_tokens = block_size is not None if is_old else config.value("item_loader") == TOKENS
    if is_tokens and block_size is None:
        raise InvalidArgument(
            f"block_size must say how many tokens an item has, since {config.file} describes tokens "
            "for TokensLoader, got None"
        )
    if not is_tokens and block_size is not None:
        raise InvalidArgument(
            f"block_size must be None, since {config.file} describes items, not tokens, got {block_size}"
        )
    return is_tokens


def _begins_with_table(config: IndexPart, chunk: ItemChunk) -> bool:
    """Whether the first ``chunk`` has a table; most likely then all chunks have."""
    if not config.has("types") or not set(config.texts("data_format")) <= OF_TABLES:
        return False
    return read_at_once([(chunk.content, chunk.has_table())])[0]


def _listed(folder: str, part: IndexPart, compression: str) -> ListedShard:
    """A chunk; a file name with the ``compression`` means a file compressed as a whole."""
    name, size = part.file_name("filename"), part.integer("chunk_bytes")
    items = part.integer("chunk_size")
    if size < head_size(items):
        raise part.refused(f"{part.place}.chunk_bytes is {size}, too few for {items} items")
    ending = f".{compression}.bin"
    if not compression or not name.endswith(ending):
        return ListedShard(name, size, items, name, size)
    # In its cache, LitData replaces compressed files by decompressed files.
    if not is_remote(folder) and not os.path.exists(path_below(folder, name)):
        plain = name.removesuffix(ending) + ".bin"
        return ListedShard(name, size, items, plain, size, in_place=True)
    return ListedShard(name, size, items, name, None, "zstd")
