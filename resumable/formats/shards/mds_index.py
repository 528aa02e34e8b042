"""Find the shards of an MDS dataset by the index, and the samples in the shards."""

# A shard has the number of samples, the start of each sample and the end of the last sample (all
# little-endian, uint32), then the configuration of the writer as JSON, and the samples.

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

from ...errors import InvalidArgument
from ..data_files import AnyFile
from ..io.held_ranges import Ranges
from ..io.paths import is_remote
from .index_json import IndexPart, found_files_below, path_below
from .mds_columns import Columns
from .ranges import Reading
from .shard import (
    DataShard,
    OffsetTable,
    RecordsInFile,
    RecordsInMemory,
    ShardDirectory,
    checked_offsets,
)
from .source import FoundShards
from .unpacking import DECODERS, check_installed, unpacked

VERSION: Final = 2


class Description(NamedTuple):
    """The description of a shard in the index.

    Attributes:
      name: of the uncompressed file.
      size: bytes of the uncompressed file.
      samples: number of samples.
      zipped: the name and the size of the compressed file, if any.
      compression: name of the compression, without a level.
    """

    name: str
    size: int
    samples: int
    zipped: tuple[str, int] | None
    compression: str


@final
class MdsShard(DataShard):
    """A file of samples, compressed as a whole or not."""

    def __init__(self, file: AnyFile, shard: Description, compression: str) -> None:
        super().__init__(file, shard.samples)
        self._size = shard.size
        self._compression = compression

    def _opening(self) -> Reading[ShardDirectory]:
        head_size = _head_size(self.items)
        if not self._compression:
            (head,) = yield Ranges.of((0, head_size))
            return RecordsInFile(self._table(head))
        (packed,) = yield Ranges.of((0, self.file.size))
        content = unpacked(packed, self._compression, self._size)
        if len(content) != self._size:
            raise ValueError(f"its content has {len(content)} bytes in place of {self._size}")
        return RecordsInMemory(content, self._table(content[:head_size]))

    def _table(self, head: bytes) -> OffsetTable:
        samples = int.from_bytes(head[:4], "little")
        if samples != self.items:
            raise ValueError(f"it has {samples} samples, and {self.items} by the index")
        return OffsetTable(checked_offsets(head, 4, samples, len(head), self._size))


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
    shards = [_description(part) for part in parts]
    chosen = [_chosen(folder, shard) for shard in shards]
    files = found_files_below(folder, [name for name, _, _ in chosen], options)
    found = []
    for part, shard, file, (_, size, compression) in zip(parts, shards, files, chosen, strict=True):
        part.check_size(file, size)
        if compression and compression not in DECODERS:
            raise InvalidArgument(
                f"{file.path} is compressed by {compression!r}, which is not read; of the compressions of "
                f"MDS these are: {', '.join(sorted(DECODERS))}"
            )
        if compression:
            check_installed(compression)
        found.append(MdsShard(file, shard, compression))
    described = [f"{shard.name}:{shard.size}:{shard.samples}" for shard in shards]
    decompressed = any(compression for _, _, compression in chosen)
    sizes = [shard.size for shard in shards]
    in_place = [
        shard.name
        for shard, (_, _, compression) in zip(shards, chosen, strict=True)
        if shard.zipped is not None and not compression
    ]
    return FoundShards(shards[0].name, found, described, sizes, decompressed, in_place), columns


def _columns(part: IndexPart, known: dict[str, Columns], allow_pickle: bool) -> Columns:
    """The columns of a shard; shards with equal columns share one object."""
    described = [part.items(f"column_{name}") for name in ("names", "encodings", "sizes")]
    key = repr(described)
    if key not in known:
        known[key] = Columns.of(part, allow_pickle)
    return known[key]


def _description(part: IndexPart) -> Description:
    kind = part.text("format")
    if kind != "mds":
        raise InvalidArgument(f"{part.file}: {part.place}.format must be 'mds', got {kind!r}")
    raw, samples = part.part("raw_data"), part.integer("samples")
    size = raw.integer("bytes")
    if size < _head_size(samples):
        raise raw.refused(f"{raw.place}.bytes is {size}, too few for {samples} samples")
    zipped, compression = None, ""
    if part.has("zip_data"):
        packed = part.part("zip_data")
        zipped = packed.file_name("basename"), packed.integer("bytes")
        compression = part.text("compression").partition(":")[0]
    return Description(raw.file_name("basename"), size, samples, zipped, compression)


def _chosen(folder: str, shard: Description) -> tuple[str, int, str]:
    """The name, the size and the compression of the file to read.

    Streaming leaves decompressed files in its cache, next to the compressed files or instead.
    """
    raw = shard.name, shard.size, ""
    if shard.zipped is None:
        return raw
    if not is_remote(folder) and os.path.exists(path_below(folder, shard.name)):
        return raw
    return *shard.zipped, shard.compression


def _head_size(samples: int) -> int:
    return 4 + 4 * (samples + 1)
