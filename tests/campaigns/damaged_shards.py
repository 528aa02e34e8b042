"""Damaged datasets of MDS and LitData: an index, or a shard that the index fits."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from campaigns.damaged_records import damaged_anywhere
from formats.shard_files import Files, litdata_files, mds_files, numbered, token_files, write_files
from formats.zipped import unzip

import resumable as rs
from resumable.testing.comparing import same

__all__ = [
    "INDEX",
    "LITDATA",
    "MDS",
    "TOKENS",
    "ShardTarget",
    "around",
    "batches_reference",
    "beside",
    "chunks_of",
    "indexes",
    "litdata_around",
    "litdata_chunks",
    "litdata_reference",
    "mds_around",
    "mds_reference",
    "mds_shards",
    "tokens_reference",
]

INDEX: Final = "index.json"
Open = Callable[[Path], rs.Pipeline[Any]]
Reference = Callable[[Path], list[Any]]
"""The items by another, simpler way; a value that it does not decode is `...`."""


class ShardTarget:
    """A file of a dataset, the others of which are sound.

    Args:
      open: makes the pipeline.
      real: good files.
      others: the files around one of them, once it is damaged.
      name: of the file that is damaged.
      reference: what the items must be.
      small_changes: whether damage is a byte or a number, since most other damage ends in the parser of JSON.
    """

    def __init__(
        self,
        open: Open,
        real: Callable[[], Sequence[bytes]],
        others: Callable[[bytes], Files],
        name: str,
        reference: Reference,
        small_changes: bool = False,
    ) -> None:
        self._open, self._real, self._others = open, real, others
        self._name, self._reference, self._small = name, reference, small_changes

    @cached_property
    def real(self) -> list[bytes]:
        return list(self._real())

    def damaged(self, random: Random, real: list[bytes]) -> bytes:
        """A file that follows from random choices and the good ones."""
        if self._small and random.random() < 0.9:
            return changed_values(random, random.choice(real))
        return damaged_anywhere(random, real)

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` in its dataset: how many items it gave, and how many were refused.

        Raises:
          AssertionError: if the items are not those of the reference.
        """
        # The same folder each time, since to remove one takes longer than all else.
        place = write_files(folder / "data", self._others(data) | {self._name: data})
        try:
            pipeline = self._open(place)
        except (rs.MalformedItem, rs.InvalidArgument, FileNotFoundError) as error:
            check_named(error, str(place))
            return 0, 1
        found, refused = list[Any](), 0
        for number in range(len(pipeline)):
            try:
                found.append(pipeline[number])
            except rs.MalformedItem as error:
                check_named(error, str(place))
                found.append(...)
                refused += 1
        if refused < len(found):
            check_same(found, self._reference(place))
        return len(found) - refused, min(refused, 1)


def check_named(error: Exception, folder: str) -> None:
    """Check that ``error`` names the ``folder``, as the path of a file in it does.

    Raises:
      AssertionError: if it does not.
    """
    assert folder in str(error), f"no file is named: {error}"


def check_same(found: list[Any], expected: list[Any]) -> None:
    """Check that items are those ``expected``, but for what is `...` on either side.

    Raises:
      AssertionError: if they are not.
    """
    assert len(found) == len(expected), f"{len(found)} items in place of {len(expected)}"
    for item, other in zip(found, expected, strict=True):
        if item is ... or other is ...:
            continue
        if isinstance(item, dict) and isinstance(other, dict):
            assert [*item] == [*other], f"the columns {[*item]} in place of {[*other]}"
            item, other = [*item.values()], [*other.values()]
        if not isinstance(other, (list, tuple)):
            assert same(item, other), f"{item!r} in place of {other!r}"
            continue
        pairs = zip(item, other, strict=True)
        assert all(two is ... or same(one, two) for one, two in pairs), f"{item!r}, {other!r}"


VALUES: Final = [
    None, True, -1, 0, 1, 2, 7, 8, 2**31, 2**32, 2**63, 10**30, 0.5, "", "x", "mds", "zstd", "../x", "/etc/passwd",
    "str", "int", "bytes", "ndarray:int8:4,2", "ndarray:int32:0", "pkl", "json", "pil", "tensor", "numpy",
    "no_header_numpy:3", "no_header_numpy:99", "[1, null]", [], [1], [""], {}, {"type": None},
]  # fmt: skip


def changed_values(random: Random, data: bytes) -> bytes:
    """JSON with one or two of its values replaced, left out, or put elsewhere."""
    value = json.loads(data)
    for _ in range(random.choice((1, 1, 2))):
        place: Any = value
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = random.choice(list(keys))
            deeper = place[key]
            if not isinstance(deeper, (dict, list)) or not deeper or random.random() < 0.2:
                break
            place = deeper
        choice = random.random()
        if choice < 0.1:
            del place[key]
        elif choice < 0.2 and isinstance(place, list):
            random.shuffle(place)
        elif choice < 0.4 and isinstance(deeper, int) and not isinstance(deeper, bool):
            place[key] = deeper + random.choice((-1, 1, 4, 1 << 16))
        else:
            place[key] = deepcopy(random.choice(VALUES))  # which may be changed next
        if not value:
            break
    return json.dumps(value).encode()


def slices(data: bytes, count: int) -> list[bytes | None]:
    """The records that a head of offsets tells; None for each if their number is not ``count``."""
    if int.from_bytes(data[:4], "little") != count:
        return [None] * count
    offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
    return [data[start:stop] for start, stop in pairwise(offsets)]


def parts_of(record: bytes | None, sizes: Sequence[int | None]) -> list[bytes]:
    """The values of a record, whose sizes stand first where they are None."""
    if record is None:
        raise ValueError("it is not known")
    varying = iter(struct.unpack_from(f"<{list(sizes).count(None)}I", record))
    place = 4 * list(sizes).count(None)
    found = []
    for size in sizes:
        end = place + (next(varying) if size is None else size)
        found.append(record[place:end])
        place = end
    return found


KNOWN: Final[dict[str, Callable[[bytes], Any]]] = {
    "int": lambda data: struct.unpack("<q", data)[0],
    "str": bytes.decode,
    "bytes": bytes,
}


def value_of(kind: str, data: bytes) -> Any:
    """The value of a column or a leaf, if it is a simple one."""
    return KNOWN[kind](data) if kind in KNOWN else ...


def mds_reference(folder: Path) -> list[Any]:
    """The samples of a dataset without compression."""
    found: list[Any] = []
    for shard in json.loads((folder / INDEX).read_bytes())["shards"]:
        names, kinds = shard["column_names"], shard["column_encodings"]
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        for record in slices(data, shard["samples"]):
            try:
                parts = parts_of(record, [size or None for size in shard["column_sizes"]])
                values = [value_of(*pair) for pair in zip(kinds, parts, strict=True)]
            except (struct.error, ValueError):
                found.append(...)
                continue
            found.append(dict(zip(names, values, strict=True)))
    return found


def litdata_reference(folder: Path) -> list[Any]:
    """The leaves of a dataset of tuples, without compression."""
    index = json.loads((folder / INDEX).read_bytes())
    kinds = index["config"]["data_format"]
    flat = json.loads(index["config"]["data_spec"])[1]["type"] == "builtins.tuple"
    found: list[Any] = []
    for chunk in index["chunks"]:
        data = (folder / chunk["filename"]).read_bytes()
        for record in slices(data, chunk["chunk_size"]):
            try:
                parts = parts_of(record, [None] * len(kinds))
                values = [value_of(*pair) for pair in zip(kinds, parts, strict=True)]
            except (struct.error, ValueError):
                found.append(...)
                continue
            found.append(tuple(values) if flat else ...)
    return found


def batches_reference(folder: Path) -> list[Any]:
    """What cannot be compared, as many as the index tells."""
    index = json.loads((folder / INDEX).read_bytes())
    return [...] * sum(chunk["chunk_size"] for chunk in index["chunks"])


def tokens_reference(folder: Path) -> list[Any]:
    """Blocks of four tokens."""
    import numpy as np

    index = json.loads((folder / INDEX).read_bytes())
    found: list[Any] = []
    for chunk in index["chunks"]:
        data = (folder / chunk["filename"]).read_bytes()[8 + 4 * chunk["chunk_size"] :]
        kind = index["config"]["data_format"][0]
        for start in range(0, chunk["dim"] // 4 * 8, 8):
            plain = kind == "no_header_numpy:5"
            found.append(np.frombuffer(data[start : start + 8], "u2").copy() if plain else ...)
    return found


SAMPLES: Final = [(number * 7, "s" * (number % 5)) for number in range(7)]


def mds_shards() -> list[bytes]:
    """Shards of other samples, of one size limit."""
    several = [SAMPLES, SAMPLES[::-1], [(number, "ü") for number in range(3)]]
    return [mds_files(samples, 9)["shard.00000.mds"] for samples in several]


def mds_around(data: bytes) -> Files:
    """The index of a dataset of one shard."""
    index = json.loads(mds_files(SAMPLES, 9)[INDEX])
    shard = index["shards"][0]
    shard["raw_data"]["bytes"] = len(data)
    shard["samples"] = count_in(data, 7)
    return {INDEX: json.dumps(index).encode()}


def count_in(data: bytes, otherwise: int) -> int:
    """The number of records that a head tells, if there is room for them."""
    count = int.from_bytes(data[:4], "little")
    return count if 8 + 4 * count <= len(data) else otherwise


LEAVES: Final = ("int", "str", "json", "numpy", "tensor", "bool", "float", "no_header_numpy:3")


def leaves(number: int) -> list[bytes]:
    """An item with a leaf of each of `LEAVES`."""
    nested = b"\5" + struct.pack("<II", 2, 1) + b"a" + b"\1" + struct.pack("<II", 1, 2) + b"xy"
    nested += struct.pack("<I", 1) + b"b" + b"\6" + struct.pack("<III", 1, 1, 1) + b"k\x12"
    nested += struct.pack("<q", number)
    return [
        *numbered(9)[number],
        nested if number % 2 else b'[1, {"a": null}]',
        struct.pack("<IIII", 3, 2, 2, 1) + bytes(16),
        struct.pack(">III", 12, 1, 3) + bytes(3),
        bytes([number % 2]),
        struct.pack("<d", number / 3),
        bytes(8 * (number % 3)),
    ]


def litdata_chunks() -> list[bytes]:
    """Chunks of other numbers of items."""
    items = [leaves(number) for number in range(7)]
    return [
        litdata_files(some, LEAVES, 9)["chunk-0-0.bin"] for some in (items, items[:2], items[::-1])
    ]


def litdata_around(data: bytes) -> Files:
    """The index of a dataset of one chunk."""
    index = json.loads(litdata_files([leaves(0)], LEAVES)[INDEX])
    index["chunks"][0] |= {"chunk_bytes": len(data), "chunk_size": count_in(data, 7)}
    return {INDEX: json.dumps(index).encode()}


@cache
def of_litdata(dataset_name: str) -> Files:
    """A dataset that LitData has written."""
    with TemporaryDirectory() as folder:
        place = unzip("of_litdata.zip", Path(folder)) / dataset_name
        return {path.name: path.read_bytes() for path in place.iterdir()}


def chunks_of(dataset_name: str) -> list[bytes]:
    """The chunks of a dataset that LitData has written."""
    return [data for name, data in sorted(of_litdata(dataset_name).items()) if name != INDEX]


def around(dataset_name: str, place: int) -> Callable[[bytes], Files]:
    """What makes the index of a dataset of one chunk, whose number of items stands at ``place``."""

    def files(data: bytes) -> Files:
        index = json.loads(of_litdata(dataset_name)[INDEX])
        count = int.from_bytes(data[place : place + 4], "little")
        del index["chunks"][1:]
        index["chunks"][0] |= {
            "chunk_bytes": len(data),
            "chunk_size": count if 8 + 4 * count <= len(data) else 4,
            "filename": "chunk.bin",
        }
        return {INDEX: json.dumps(index).encode()}

    return files


def indexes(files: Files) -> Callable[[], list[bytes]]:
    return lambda: [files[INDEX]]


def beside(files: Files) -> Callable[[bytes], Files]:
    return lambda data: files


MDS: Final = mds_files(SAMPLES, 3)
LITDATA: Final = litdata_files(numbered(7), per_chunk=3)
TOKENS: Final = token_files([range(9), range(5)])
