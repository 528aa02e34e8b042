"""Read the optimised datasets of LitData by index."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Final, final

from ...core.arguments import check_bool, check_choice, check_int
from ...core.identity import ALWAYS, IdentityFields
from .index_json import IndexPart
from .litdata_index import LitDataOptions, found_litdata
from .litdata_items import ItemDecoder
from .source import FoundShards, ShardedFiles

NUMPY: Final = "numpy"
TORCH: Final = "torch"


@final
@dataclass(frozen=True, eq=False, repr=False)
class LitData(ShardedFiles):
    """The items of a dataset that LitData has optimised.

    A dataset is a folder written by ``litdata.optimize``: an ``index.json``, and the listed chunks.
    Items are equal to the items of ``StreamingDataset(folder, shuffle=False)``: the same structures
    of the same values, except that tensors are NumPy arrays unless ``tensors="torch"``. So batches
    are stacked, and torch is not needed; the PyTorch adapter makes tensors of arrays in the end.
    Arrays may be written to. JPEGs and other images are RGB arrays of shape (3, height, width),
    decoded by Pillow.

    Chunks are not copied, also for URLs: from uncompressed chunks only the ranges of items are
    read, and from chunks compressed in batches or by item only the compressed batches or items.
    Chunks compressed as a whole, and Arrow tables, are read as a whole; a process keeps 256 MiB of
    their contents. Encrypted chunks, Parquet files, and video, audio, meshes, PDFs and graphs are
    not read.

    Opening reads the index, and checks the sizes of uncompressed chunks against the index. The
    offsets of the items of a chunk (4 bytes an item) are read when an item of the chunk is first
    asked for; a process keeps 64 MiB of offsets.

    State: O(1), the position. Random access, so a global ``shuffle(seed)`` is efficient; chunks
    that are read as a whole are better shuffled by ``block``. A resume reads the index, and the
    first and last 4 KiB of at most 10,000 chunks; it reads no chunk if all chunks are remote and
    have an ETag.

    Args:
      path: a folder, or its URL.
      block_size: tokens of an item, only for a dataset that was written for ``TokensLoader``;
        left-over tokens at the end of a chunk are in no item.
      tensors: the type of delivered tensors, ``"numpy"`` or ``"torch"``.
      allow_pickle: whether to read pickled leaves. Unpickling runs any code that their writer put
        there.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if the folder is no dataset of LitData, ``block_size`` is missing or does not
        belong, or items have unsupported content, named in the message.
      MissingDependency: if a URL, a compression, Arrow tables or ``tensors="torch"`` need a package
        that is not installed; while iterating, if images do.
      OSError: if the index or a chunk is missing, or cannot be read.
      MalformedItem: if the index is damaged, or a chunk has another size; while iterating, if a
        chunk is damaged, or has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> list(rs.litdata("s3://bucket/optimised", block_size=2049))  # doctest: +SKIP
    [array([ 464, 2068, 7586, ...]), ...]
    """

    identity: ClassVar[IdentityFields] = {**ShardedFiles.identity, "block_size": ALWAYS}
    _kind = "item"

    _: KW_ONLY
    block_size: int | None = None
    tensors: str = NUMPY
    allow_pickle: bool = False
    _decoder: ItemDecoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.block_size is not None:
            check_int("block_size", self.block_size, minimum=1)
        check_choice("tensors", self.tensors, (NUMPY, TORCH))
        check_bool("allow_pickle", self.allow_pickle)
        super().__post_init__()

    def _shards(self, folder: str, index: IndexPart) -> FoundShards:
        options = LitDataOptions(self.block_size, self.tensors == TORCH, self.allow_pickle)
        found, decoder = found_litdata(folder, index, self.storage_options, options)
        object.__setattr__(self, "_decoder", decoder)
        return found

    def _decoder_of(self, shard: int) -> ItemDecoder:
        return self._decoder
