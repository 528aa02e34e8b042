"""Write the golden files: orders and states as this version publishes them.

Run by hand: ``PYTHONPATH=. python tests/golden/write.py "NAME" "NAME OF ANOTHER" ...`` writes the states of new
pipelines of the catalogue, into a file named after the first. Without names, files that are missing are written.
A state that was published is never rewritten, because checkpoints in the field depend on it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Container, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import numpy as np  # noqa: E402
from support.graphs import catalogue, write_data  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.checkpoint.envelope import encode  # noqa: E402
from resumable.order.block_permutation import block_permutation  # noqa: E402
from resumable.order.permutation import permutation  # noqa: E402

LENGTHS = (1, 2, 7, 100, 4096, 4097, 65537, 1048577, 2**31, 2**31 + 1, 10**12, 2**62)
STEPS = 5
ITEMS = 6
MANY_STEPS = 100
COUNTING_TRIED = ("jsonl skipping", "map skipping")
"""Pipelines whose state has the number of items tried, from version 2 of `Map` on."""
WITH_LATER_ORDERS = (
    "random_map of a rank",
    "random_map workers skipping",
    "mix rare",
    "mix rare by index",
)
"""Pipelines whose order earlier versions refused, rounded, or drew alike on every rank."""

OF_GROUPS = (
    "map_batches",
    "map_batches columns",
    "map_batches workers skipping",
    "map_batches to nothing",
    "bucket",
    "bucket tokens",
    "pack",
    "pack short rows",
    "pack fields",
    "pack concatenated",
    "pack concatenated short",
    "pack nothing",
    "iterable of epochs",
    "cache",
    "cache of a shuffle",
    "cache of a stream",
    "cache of workers",
    "cache of columns",
    "cache stateful",
    "cache of nothing",
    "take_while",
    "take_while to the end",
    "take_while stateful",
    "rebatch",
    "rebatch of a stream",
    "rebatch of lists",
    "windows",
    "windows of columns shuffled",
    "windows of a stream",
    "windows drop_last",
    "windows with gaps",
    "windows longer than stream",
    "windows of nothing",
)
"""Pipelines whose stages make something of groups of items, and others that came with them."""
BY_INDEX = (
    "zip by index",
    "take by index",
    "interleave by index",
    "interleave of sequences",
    "unbatch columns",
    "unbatch stream of dicts",
)
"""Pipelines whose blocks are made for many indices at once."""

OF_MIXES = (
    "mix cycle",
    "mix cycle streams",
    "mix cycle workers",
    "mix reshuffled",
    "mix reshuffled streams",
    "mix changing",
    "mix changing streams",
)
"""Mixes whose inputs begin again, or whose turns differ between epochs or in proportion."""

OF_FILES = (
    "csv",
    "csv shuffled",
    "csv skipping",
    "files",
    "files read",
    "image folder",
    "image folder skipping",
    "tar",
    "tar skipping",
)
"""Files of other formats than lines."""
IN_BLOCKS = ("shuffle in blocks", "shuffle in large blocks", "shuffle in one block")
"""Shuffles that move whole blocks."""

OF_STREAMS = ("lines compressed", "lines compressed not blank", "jsonl damaged skipping")
"""Files that are read in order."""

OF_TENSORFLOW = ("tfrecord", "tfrecord skipping", "tfrecord compressed")
"""Files of records in the format of TensorFlow."""


WITH_CONTENTS = ("csv", "files read", "image folder", "jsonl", "lines", "tar")
WITH_CONTENTS_OF_TABLES = ("arrow", "parquet")
"""Files of whose contents a state has digests, from 0.3 on."""

IN_PARTITIONS = (
    "partition",
    "partition of a rank",
    "partition in workers",
    "partition of files",
    "partition of epochs",
    "partition evened out",
    "partition packed",
    "partition empty",
)
"""Pipelines whose work is divided."""

OF_ANY_DTYPE = (
    "arrays of any dtype",
    "arrays of any dtype in windows",
    "arrays of any dtype rebatched",
    "arrays of any dtype in one",
    "arrays of any dtype kept",
    "arrays of foreign bytes",
    "arrays of texts in workers",
    "arrays of texts carried",
    "arrays of two kinds",
    "map_batches of columns",
)
"""Batches and groups of rows that say less than the dtypes of their columns."""
OF_SEVERAL = ("partition of several", "partition of several evened out")
"""Partitions that have a part of each of several sources."""

OF_ONE_SHAPE = (
    "bucket",
    "flat_map",
    "interleave fn",
    "interleave fn pipelines",
    "interleave fn wide",
    "map_batches",
    "pack",
    "pack concatenated",
    "unbatch",
    "window epochs",
    "windows",
)
"""States with the epoch that was reached, and places of `interleave` in one shape, from 0.3 on."""

BY_EPOCH = (
    "by epoch",
    "by epoch alone",
    "by epoch endless",
    "by epoch in partitions",
    "by epoch nested",
    "by epoch of two",
    "by epoch with an empty one",
)
"""Pipelines that are other ones from some epoch on."""

DRAWN = ("partition drawn", "partition drawn by batches")
"""Partitions whose items meet random numbers behind them."""

WITH_EXCLUSIONS = ("exclude", "exclude in each epoch", "exclude nothing")
"""Pipelines that leave records of the source out."""


def orders() -> list[dict[str, object]]:
    """A few entries of permutations of many lengths."""
    entries = []
    for length in LENGTHS:
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (2**64 - 1, 7)):
            indices = sorted({0, 1 % length, length // 3, length // 2, length - 1})
            order = permutation(length, seed, epoch)(np.array(indices, np.int64)).tolist()
            entries.append(
                {"length": length, "seed": seed, "epoch": epoch, "indices": indices, "order": order}
            )
    return entries


def block_orders() -> list[dict[str, object]]:
    """The same of permutations that move whole blocks."""
    entries = []
    for length in LENGTHS:
        for block in (1, 3, 1000, 4099, 2**40):
            indices = sorted({0, 1 % length, length // 3, length // 2, length - 1})
            for seed, epoch in ((0, 0), (2**64 - 1, 7)):
                order = block_permutation(length, block, seed, epoch)(np.array(indices, np.int64))
                entries.append(
                    {
                        "length": length,
                        "block": block,
                        "seed": seed,
                        "epoch": epoch,
                        "indices": indices,
                        "order": order.tolist(),
                    }
                )
    return entries


def published(names: Container[str]) -> dict[str, dict[str, object]]:
    """The states of pipelines of the catalogue."""
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        found = catalogue(Path(folder))
        return states({name: found[name] for name in found if name in names})


def states(
    pipelines: dict[str, Callable[[], rs.Pipeline[Any]]], steps: int = STEPS
) -> dict[str, dict[str, object]]:
    """For each pipeline, a state after some steps and what comes after it."""
    entries: dict[str, dict[str, object]] = {}
    for name, make in pipelines.items():
        with iter(make()) as iterator:
            list(islice(iterator, steps))
            data = rs.dumps(iterator.get_state())
            items = [repr_of(item) for item in islice(iterator, ITEMS)]
        entries[name] = {"state": data.hex(), "items": items}
    return entries


def of_many_kinds() -> rs.Pipeline[object]:
    """A stream of items of every kind that the digest of items knows, and of some it does not."""
    row = np.arange(30, dtype=np.float32).reshape(2, 15)
    items = [
        0,
        {"id": 2**70, "name": "\u00fcber" * 40, "seen": {1, 2}},
        (row / 7, row.astype("M8[s]"), np.int16(-3), None),
        [b"\xff" * 300, -1.5, True, float("nan"), 10**-300],
        "of a long line " * 9,
        "last",
    ]
    return rs.from_iterable(lambda: iter(items))


def of_many_items() -> rs.Pipeline[int]:
    """A stream long enough that the digest is not of its very last items."""
    return rs.from_iterable(lambda: iter(range(1000)))


STREAMS: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "iterable of many kinds": of_many_kinds,
    "iterable of many items": of_many_items,
}


def rows() -> Any:
    """The table of the published files."""
    import pyarrow as pa

    numbers = range(20)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "text": [None if number % 7 == 3 else f"\u00fc{number}" for number in numbers],
            "tokens": [list(range(number % 4)) for number in numbers],
        }
    )


def write_tables(folder: Path) -> None:
    """Files of rows, which other versions of pyarrow might write with other sizes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(rows(), folder / "rows.parquet", row_group_size=6)
    with pa.ipc.new_file(folder / "rows.arrow", rows().schema) as file:
        file.write_table(rows(), max_chunksize=6)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(folder / "stream.arrow", rows().schema, options=options) as file:
        file.write_table(rows(), max_chunksize=6)


def write_records(folder: Path) -> None:
    """The files that only the packages of others read."""
    import lance
    from formats.array_records import records
    from formats.array_records import write as write_array_records

    write_array_records(folder / "a.array_record", records(0, 20))
    dataset: Any = lance.write_dataset(rows(), folder / "rows.lance", max_rows_per_file=7)
    dataset.delete("id = 5")


parquet, arrow = FOLDER / "rows.parquet", [FOLDER / "rows.arrow", FOLDER / "stream.arrow"]

TABLES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "parquet": lambda: rs.parquet(parquet),
    "parquet in blocks": lambda: rs.parquet(parquet, ["text", "id"]).shuffle(2, block=6).repeat(2),
    "parquet in parts": lambda: rs.parquet([parquet] * 2, ["id"], batch_rows=4).shuffle(1).batch(3),
    "arrow": lambda: rs.arrow(arrow).skip(17),
    "arrow shuffled": lambda: rs.arrow(arrow, ["id", "tokens"]).shuffle(2).repeat(2),
    "array_record": lambda: rs.array_record(FOLDER / "a.array_record").shuffle(2).repeat(2),
    "lance": lambda: rs.lance(FOLDER / "rows.lance").shuffle(2).repeat(2),
    "lance columns": lambda: rs.lance(FOLDER / "rows.lance", ["text", "id"], version=1).batch(3),
}


def sampled() -> dict[str, dict[str, object]]:
    """States of streams that are iterated anew, which hold a digest of some of the last items."""
    many_kinds, many_items = STREAMS
    short = {
        "iterable function": catalogue(Path())["iterable function"],
        many_kinds: STREAMS[many_kinds],
    }
    return states(short) | states({many_items: STREAMS[many_items]}, MANY_STEPS)


def checkpointed() -> rs.Pipeline[object]:
    """The pipeline whose checkpoint is published."""
    return rs.range(100).shuffle(0).batch(3).repeat(2)


def checkpoint() -> bytes:
    """The whole file of a checkpoint."""
    with iter(checkpointed()) as iterator:
        list(islice(iterator, STEPS))
        return encode(rs.Checkpoint(STEPS, 1_800_000_000.0, iterator.get_state()))


def repr_of(item: object) -> str:
    """``item`` as text that no version of NumPy writes differently."""
    if isinstance(item, dict):
        return "{" + ", ".join(f"{key!r}: {repr_of(value)}" for key, value in item.items()) + "}"
    if isinstance(item, tuple):
        return "(" + ", ".join(map(repr_of, item)) + ")"
    if isinstance(item, list):
        return "[" + ", ".join(map(repr_of, item)) + "]"
    if isinstance(item, (np.ndarray, np.generic)):
        if item.dtype.kind in "OV":  # in memory there are addresses, and gaps
            return f"{item.dtype.str}{list(item.shape)}:{item.tolist()!r}"
        return f"{item.dtype.str}{list(item.shape)}:{item.tobytes().hex()}"
    return repr(item)


def write(name: str, content: object) -> None:
    """Write ``content`` unless the file exists."""
    path = FOLDER / name
    if path.exists():
        print(f"{path} exists and is kept")
        return
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{path} written")


def add(names: Sequence[str]) -> None:
    """Write the states of new pipelines, with those that the file named after the first one has.

    Raises:
      SystemExit: for a name that is no pipeline's, or has been published there.
    """
    path = FOLDER / f"states-{names[0].replace(' ', '-')}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if again := sorted(kept.keys() & set(names)):
        sys.exit(f"{path} has {again}, and what is published is never changed")
    made = published(names) | states({name: TABLES[name] for name in names if name in TABLES})
    if unknown := sorted(set(names) - made.keys()):
        sys.exit(f"no pipeline of the catalogue has the name {unknown}")
    path.write_text(json.dumps(kept | made, indent=1) + "\n")
    print(f"{path} written")


def write_missing() -> None:
    """Write the files that are not there."""
    write("orders.json", orders())
    write("states-1.json", published(catalogue(Path())))
    write("states-2.json", published(COUNTING_TRIED))
    write("states-3.json", sampled())
    write("states-4.json", published(WITH_LATER_ORDERS))
    write("states-5.json", published(OF_GROUPS + BY_INDEX + OF_MIXES))
    write("states-6.json", published(OF_FILES + OF_STREAMS + IN_BLOCKS))
    if not parquet.exists():
        write_tables(FOLDER)
    write("states-7.json", published(OF_TENSORFLOW) | states(TABLES))
    write("states-8.json", published(IN_PARTITIONS))
    write("states-sources.json", published(OF_SEVERAL))
    write("states-dtypes.json", published(OF_ANY_DTYPE))
    write("states-drawn.json", published(DRAWN))
    write("states-exclusions.json", published(WITH_EXCLUSIONS))
    write("states-shapes.json", published(OF_ONE_SHAPE))
    write("states-by-epoch.json", published(BY_EPOCH))
    tables = {name: TABLES[name] for name in WITH_CONTENTS_OF_TABLES}
    write("states-contents.json", published(WITH_CONTENTS) | states(tables))
    write("block_orders.json", block_orders())
    write("checkpoint-1.ckpt", checkpoint())


if __name__ == "__main__":
    if sys.argv[1:]:
        add(sys.argv[1:])
    else:
        write_missing()
