"""Find the shards of an MDS dataset by the index, and the samples in the shards."""

# A shard has the number of samples, the start of each sample and the end of the last sample (all
# little-endian, uint32), then the configuration of the writer as JSON, and the samples.

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, final

from ...errors import InvalidArgument
from ..io.held_ranges import Ranges
from ..io.paths import is_remote
from .index_json import IndexPart, found_files_below, path_below
from .mds_columns import Columns
from .ranges import Reading
from .shard import (
    DataShard,
    ListedShard,
    OffsetTable,
    RecordsInFile,
    RecordsInMemory,
    ShardDirectory,
    head_size,
    offset_table,
)
from .source import FoundShards
from .unpacking import DECODERS, check_installed

VERSION: Final = 2


@final
class MdsShard(DataShard):
    """A file of samples, compressed as a whole or not."""

    def _opening(self) -> Reading[ShardDirectory]:
        if self.listed.compression:
            content = yield from self._decompressed()
            return RecordsInMemory(content, self._table(content[: head_size(self.items)]))
        (head,) = yield Ranges.of((0, head_size(self.items)))
        return RecordsInFile(self._table(head))

    def _table(self, head: bytes) -> OffsetTable:
        return offset_table(head, self.items, "sample", self.listed.size)


def found_mds(
    folder: str, index: IndexPart, options: Mapping[str, Any] | None, allow_pickle: bool
) -> tuple[FoundShards, tuple[Columns, ...]]:
    """The shards in ``folder`` listed by the ``index``, and the columns of each shard.

    Raises:
      MalformedItem: if the index is damaged, or a shard has another size.
      InvalidArgument: if the index is not of MDS, or describes unsupported content.
      OSError: if a shard cannot be found.
    """
    if index.has("chunks"):
        raise InvalidArgument(
            f"path must name an MDS dataset, got one of LitData, {index.file}; use rs.litdata"
        )
    version = index.integer("version")
    if version != VERSION:
        raise InvalidArgument(f"{index.file}: version must be {VERSION}, got {version}")
    parts = index.parts("shards")
    if not parts:
        raise index.refused("shards must list at least one shard, got []")
    known: dict[str, Columns] = {}
    columns = tuple(_columns(part, known, allow_pickle) for part in parts)
    listed = [_listed(folder, part) for part in parts]
    files = found_files_below(folder, [shard.file_name for shard in listed], options)
    found = []
    for part, shard, file in zip(parts, listed, files, strict=True):
        assert shard.file_size is not None
        part.check_size(file, shard.file_size)
        compression = shard.compression
        if compression and compression not in DECODERS:
            raise InvalidArgument(
                f"{file.path} is compressed by {compression!r}, which is not read; of the compressions of "
                f"MDS these are: {', '.join(sorted(DECODERS))}"
            )
        if compression:
            check_installed(compression)
        found.append(MdsShard(file, shard))
    return FoundShards(found, any(shard.compression for shard in listed)), columns


def _columns(part: IndexPart, known: dict[str, Columns], allow_pickle: bool) -> Columns:
    """The columns of a shard; shards with equal columns share one object."""
    described = [part.items(f"column_{name}") for name in ("names", "encodings", "sizes")]
    key = repr(described)
    if key not in known:
        known[key] = Columns.of(part, allow_pickle)
    return known[key]


def _listed(folder: str, part: IndexPart) -> ListedShard:
    kind = part.text("format")
    if kind != "mds":
        raise InvalidArgument(f"{part.file}: {part.place}.format must be 'mds', got {kind!r}")
    raw, samples = part.part("raw_data"), part.integer("samples")
    size = raw.integer("bytes")
    if size < head_size(samples):
        raise raw.refused(f"{raw.place}.bytes is {size}, too few for {samples} samples")
    zipped, compression = None, ""
    if part.has("zip_data"):
        zipped = part.part("zip_data")
        file_name, file_size = zipped.file_name("basename"), zipped.integer("bytes")
        compression = part.text("compression").partition(":")[0]
    name = raw.file_name("basename")
    # Streaming leaves decompressed files in its cache, next to the compressed files or instead.
    has_raw = not is_remote(folder) and os.path.exists(path_below(folder, name))
    if zipped is None or has_raw:
        return ListedShard(name, size, samples, name, size, in_place=zipped is not None)
    return ListedShard(name, size, samples, file_name, file_size, compression)
