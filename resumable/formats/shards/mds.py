"""Read the shards of MosaicML Streaming (MDS) by index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

from ...core.arguments import check_bool
from .index_json import IndexPart
from .mds_columns import Columns
from .mds_index import found_mds
from .source import FoundShards, ShardedFiles


@final
@dataclass(frozen=True, eq=False, repr=False)
class Mds(ShardedFiles):
    """The samples of an MDS dataset of MosaicML Streaming, as dicts: column -> value.

    A dataset is a folder written by ``MDSWriter``: an ``index.json``, and the listed shards. Values
    and their types are equal to the values of ``StreamingDataset``; arrays may be written to.
    Images are images of Pillow, decoded when the pixels are first used. Shards are not copied, also
    for URLs: from uncompressed shards only the ranges of samples are read. Compressed shards
    (``zstd``, ``gz``, ``bz2``) are decompressed as a whole; a process keeps 256 MiB of their
    contents.

    Opening reads the index, and checks the sizes of the shards against the index. The offsets of
    the samples of a shard (4 bytes a sample) are read when a sample of the shard is first asked
    for; a process keeps 64 MiB of offsets.

    State: O(1), the position. Random access, so a global ``shuffle(seed)`` is efficient; compressed
    shards are better shuffled by ``block``. A resume reads the index, and the first and last 4 KiB
    of at most 10,000 shards; it reads no shard if all shards are remote and have an ETag.

    Args:
      path: a folder, or its URL; of a dataset with splits, the folder of a split.
      allow_pickle: whether to read columns of the encoding ``pkl``. Unpickling runs any code that
        their writer put there.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if the folder is no MDS dataset, or a column has an unsupported encoding, or
        a shard an unsupported compression.
      MissingDependency: if a URL or a compression needs a package that is not installed; while
        iterating, if images do.
      OSError: if the index or a shard is missing, or cannot be read.
      MalformedItem: if the index is damaged, or a shard has another size; while iterating, if a shard
        is damaged, or has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> list(rs.mds("s3://bucket/dataset/train"))  # doctest: +SKIP
    [{'image': <PIL.JpegImagePlugin.JpegImageFile ...>, 'label': 3}, ...]
    """

    _kind = "sample"

    _: KW_ONLY
    allow_pickle: bool = False
    _columns: tuple[Columns, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_bool("allow_pickle", self.allow_pickle)
        super().__post_init__()

    def _shards(self, folder: str, index: IndexPart) -> FoundShards:
        found, columns = found_mds(folder, index, self.storage_options, self.allow_pickle)
        object.__setattr__(self, "_columns", columns)
        return found

    def _decoder_of(self, shard: int) -> Callable[[bytes], dict[str, Any]]:
        return self._columns[shard].sample
