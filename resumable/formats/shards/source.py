"""The base of the sources of sharded datasets: the shards, their identity, and reads."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ...core.block import Block, Indices
from ...core.computed_once import computed_once
from ...core.evidence import Evidence
from ...core.identity import ALWAYS, IdentityField, IdentityFields
from ...core.indexed import Indexed
from ..contents import ENDS, evidence_of
from ..data_files import AnyFile
from ..io.held_ranges import HeldRanges, Ranges
from ..io.paths import file_name
from ..named_files import in_words
from ..parts import ItemsInParts
from .decoding import raise_where
from .index_json import dataset_folder, read_index
from .ranges import read_at_once
from .shard import DataShard

SHARDS: Final = IdentityField(
    ALWAYS,
    shown_as="shards of path",
    hint="were shards added, removed, changed or listed in another order?",
)

MOST_DECOMPRESSED: Final = 1 << 16
BYTES_DECOMPRESSED: Final = 1 << 26
"""Most items, and most bytes of items, made at once if shards must be decompressed as a whole."""


class FoundShards(NamedTuple):
    """The shards of a dataset, by the index.

    Attributes:
      shards: in order.
      decompressed: whether any shard is decompressed as a whole.
    """

    shards: Sequence[DataShard]
    decompressed: bool


@dataclass(frozen=True, eq=False, repr=False)
class ShardedFiles(ItemsInParts[Any]):
    """A dataset of shards, an item a record.

    A subclass finds the shards by the index, and makes items of records.
    """

    identity: ClassVar[IdentityFields] = {"files": SHARDS, "contents": ALWAYS}
    most_ahead = 512
    ahead_bytes = 1 << 16

    path: str | os.PathLike[str]
    _: KW_ONLY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    _index: AnyFile = field(init=False, repr=False)
    _found: FoundShards = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = dataset_folder(self.path)
        index, content = read_index(folder, self.storage_options)
        found = self._shards(folder, content)
        vars(self).update(path=folder, _index=index, _found=found)

    @abstractmethod
    def _shards(self, folder: str, index: Any) -> FoundShards:
        """The shards in ``folder`` listed by the ``index``, at least one."""

    @abstractmethod
    def _decoder_of(self, shard: int) -> Callable[[Any], Any]:
        """The function that makes an item of a record of the shard with number ``shard``."""

    @computed_once
    def _data_files(self) -> Sequence[AnyFile]:
        return [shard.file for shard in self._found.shards]

    @property
    def _counts(self) -> Sequence[int]:
        return [shard.items for shard in self._found.shards]

    @computed_once
    def files(self) -> str:
        """The shards in a few words: equal for equal names, sizes and numbers of records."""
        listed = [shard.listed for shard in self._found.shards]
        described = "\n".join(f"{each.name}:{each.size}:{each.items}" for each in listed)
        counted = f"{self.length} {self._kind}s"
        return in_words(file_name(listed[0].name), described, len(listed), counted)

    @computed_once
    def contents(self) -> Evidence:
        """Evidence of the contents of the index and of the shards."""
        found = evidence_of([self._index, *self._data_files])
        listed = [shard.listed for shard in self._found.shards]
        in_place = [each.file_name for each in listed if each.in_place]
        if found.kind != ENDS or not in_place:
            return found
        # The ends of compressed and of decompressed files differ for the same data, so evidence of
        # another kind is not compared.
        names = "\n".join(in_place).encode("utf-8", "surrogateescape")
        form = hashlib.blake2b(names, digest_size=3).hexdigest()
        return replace(found, kind=f"{ENDS} {form}")

    @property
    def _size(self) -> int:
        return sum(shard.listed.size for shard in self._found.shards)

    def _ranges_of(self, place: int, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        starts, stops = self._found.shards[place].likely_ranges(numbers)
        return np.arange(len(numbers)), starts, stops

    def indexed(self, epoch: int = 0) -> Indexed[Any]:
        if self._is_remote and not self._found.decompressed:
            return self._read_ahead()
        return super().indexed(epoch)

    @computed_once
    def _at_once(self) -> int:
        if self._found.decompressed:
            # A shard is decompressed only once for all of its records that are made at once.
            return self._fitting(MOST_DECOMPRESSED, BYTES_DECOMPRESSED)
        return self._fitting(self.most_ahead, self.ahead_bytes)

    def _byte_ranges(self, wanted: Sequence[tuple[int, Indices]]) -> Sequence[Ranges]:
        shards = self._found.shards
        return read_at_once(
            [(shards[place].content, shards[place].locating(numbers)) for place, numbers in wanted]
        )

    def _read(self, wanted: Sequence[tuple[int, Indices]], held: HeldRanges) -> list[Block]:
        shards = self._found.shards
        found = read_at_once(
            [(shards[place].content, shards[place].reading(numbers)) for place, numbers in wanted],
            held,
        )
        return [self._made(records, *part) for part, records in zip(wanted, found, strict=True)]

    def _made(self, records: list[Any], place: int, numbers: Indices) -> list[Any]:
        """The items of ``records`` with ``numbers``, shape (n,), of the shard at ``place``.

        Raises:
          MalformedItem: if a record cannot be decoded, with the shard and the number.
          MissingDependency: if a record needs a package that is not installed.
        """
        decode, items = self._decoder_of(place), list[Any]()
        try:
            for record in records:
                items.append(decode(record))
        except Exception as error:
            path = self._found.shards[place].path
            raise_where(error, f"{path}, {self._kind} {numbers[len(items)]}")
        return items
