"""Read the optimised datasets of LitData by index."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Final, final

from ...core.arguments import check_bool, check_choice, check_int
from ...core.identity import IdentityFields
from ...core.reliance import ALWAYS
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

    A dataset is a folder that ``litdata.optimize`` has written: an ``index.json``, and the chunks that
    it lists. Items are those of ``StreamingDataset(folder, shuffle=False)``: the same structures of the
    same values, but that tensors are NumPy arrays unless ``tensors="torch"``. So batches are stacked,
    and nothing needs torch; the PyTorch adapter makes tensors of arrays in the end. Arrays may be
    written to. JPEGs and other images are RGB arrays of shape (3, height, width), decoded by Pillow.

    Chunks stay where they are: of uncompressed ones the ranges of items are read, behind URLs too. Of
    chunks that are compressed in batches or by item only these are. Those that are compressed as a
    whole, and those that LitData writes as Arrow tables, are read as a whole; a process keeps 256 MiB
    of their contents. Encrypted chunks, Parquet files, and video, audio, meshes, PDFs and graphs are
    not read.

    Opening reads the index, and checks the sizes of uncompressed chunks against it. The offsets of the
    items of a chunk (4 bytes an item) are read when one of them is first asked for; a process keeps 64
    MiB of them.

    State: O(1), the position. Random access, so a global ``shuffle(seed)`` suits it; chunks that are
    read as a whole are better shuffled by ``block``. A resume reads the index, and the first and last 4
    KiB of the chunks, of at most 10,000, and of the chunks nothing if all are remote and have an ETag.

    Args:
      path: a folder, or its URL.
      block_size: tokens of an item, for a dataset that was written for ``TokensLoader`` and only for that;
        tokens that are left at the end of a chunk are in no item.
      tensors: what tensors are delivered as, ``"numpy"`` or ``"torch"``.
      allow_pickle: whether leaves that were pickled are read. That runs whatever code their writer put
        there.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if the folder is no dataset of LitData, ``block_size`` is missing or does not
        belong, or items have something that is not read, which the message names.
      MissingDependency: if a URL, a compression, Arrow tables or ``tensors="torch"`` need a package
        that is not installed; while iterating, if images do.
      OSError: if the index or a chunk is not there, or cannot be read.
      MalformedItem: if the index is damaged, or a chunk has another size; while iterating, if a chunk
        is damaged, or has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> list(rs.litdata("s3://bucket/optimised", block_size=2049))  # doctest: +SKIP
    [array([ 464, 2068, 7586, ...]), ...]
    """

    identity: ClassVar[IdentityFields] = {**ShardedFiles.identity, "block_size": ALWAYS}

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

    @property
    def _kind(self) -> str:
        return "item"

    def _shards(self, folder: str, index: IndexPart) -> FoundShards:
        options = LitDataOptions(self.block_size, self.tensors == TORCH, self.allow_pickle)
        found, decoder = found_litdata(folder, index, self.storage_options, options)
        object.__setattr__(self, "_decoder", decoder)
        return found

    def _decoder_of(self, shard: int) -> ItemDecoder:
        return self._decoder
