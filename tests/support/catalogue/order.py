"""The order of pipelines in the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

__all__ = ["ORDER", "ORDER_OF_FILES", "in_order"]

V = TypeVar("V")

# Tests that take some of the catalogue choose by the place in it. So these stay where they were when each kind of stage
# had one module; pipelines that are not named here come after them. Nobody adds to these lists.
ORDER: Final = (
    "map", "map skipping", "map stateful", "scan stateful", "random_map stateful", "map workers",
    "map workers skipping", "random_map", "random_map stream", "random_map of a rank", "random_map workers skipping",
    "enumerate", "enumerate stream", "scan", "scan finish", "filter stateful", "filter", "filter nothing left",
    "take", "take_while", "take_while to the end", "take_while stateful", "take by index", "sample",
    "sample of a rank", "skip", "skip stream", "skip everything", "exclude", "exclude in each epoch",
    "exclude of a stream", "exclude nothing", "shuffle", "shuffle large", "shuffle epochs", "shuffle twice",
    "shuffle batches", "shuffle in blocks", "shuffle in large blocks", "shuffle in one block", "window",
    "window of one", "window longer than stream", "window as long as stream", "window past snapshots",
    "window epochs", "window empty", "window over epochs", "window carried prefetched", "window carried",
    "window carried arrays", "window carried short", "collate stateful", "flat_map", "flat_map pipelines",
    "flat_map of a size", "flat_map of a size shuffled", "unbatch of a size", "unbatch of a size in order", "batch",
    "batch drop_last", "batch over epochs", "batch collate", "batch of batches", "batch of strings", "map_batches",
    "map_batches of columns", "map_batches columns", "map_batches workers skipping", "map_batches to nothing",
    "bucket", "bucket tokens", "bucket fields", "pack", "pack short rows", "pack fields", "pack any dtype",
    "pack concatenated any dtype", "pack concatenated", "pack concatenated short", "pack fields of their own lengths",
    "pack concatenated fields", "pack with options", "pack concatenated with options", "pack per document",
    "pack concatenated per document", "pack planned from lengths", "pack nothing", "rebatch", "rebatch of a stream",
    "rebatch of lists", "windows", "windows of columns shuffled", "windows of a stream", "windows drop_last",
    "windows with gaps", "windows longer than stream", "windows of nothing", "unbatch", "unbatch columns",
    "unbatch stream of dicts", "zip", "zip columns", "zip streams", "zip by index", "concatenate",
    "concatenate shuffled", "concatenate streams", "interleave", "interleave by index", "interleave of sequences",
    "interleave fn", "interleave fn pipelines", "interleave fn wide", "mix first", "mix all", "mix all seeded",
    "mix rare", "mix rare by index", "mix streams", "mix streams first", "mix shuffled", "mix cycle",
    "mix cycle streams", "mix cycle workers", "mix reshuffled", "mix reshuffled streams", "mix changing",
    "mix changing streams", "partition", "partition of a rank", "partition in workers", "partition of epochs",
    "partition evened out", "partition packed", "partition of several", "partition of several evened out",
    "partition drawn", "partition drawn by batches", "partition empty", "shard drop", "shard pad", "shard keep",
    "shard stream", "shard stream keep", "shard shuffled after", "repeat endless", "repeat nested", "repeat zero",
    "repeat empty endless", "repeat stream", "by epoch", "by epoch alone", "by epoch endless",
    "by epoch in partitions", "by epoch nested", "by epoch of two", "by epoch with an empty one", "cache",
    "cache of a shuffle", "cache of a stream", "cache of workers", "cache of columns", "cache stateful",
    "cache of nothing", "prefetch", "prefetch epochs", "prefetch inside",
)  # fmt: skip

ORDER_OF_FILES: Final = (
    "tfrecord", "tfrecord skipping", "tfrecord compressed", "lines", "lines glob shuffled",
    "lines not blank", "lines compressed", "lines compressed not blank", "lines compressed without some", "jsonl damaged skipping",
    "jsonl", "tar", "tar skipping", "jsonl skipping", "warc",
    "warc skipping", "warc compressed", "csv", "csv shuffled", "csv skipping",
    "files", "files read", "image folder", "image folder skipping", "megatron",
    "megatron sequences", "mds", "mds compressed", "mds without some", "litdata",
    "litdata tokens", "partition of files",
)  # fmt: skip


def in_order(found: dict[str, V], order: Iterable[str]) -> dict[str, V]:
    """The entries in this order, and then those that it does not name."""
    return {name: found[name] for name in order if name in found} | found
