"""The formats whose records are found by an index."""

# A format that is missing here can be read, but patterns take its caches for data, and `resumable index` does
# not know it.

from __future__ import annotations

from typing import Final, NamedTuple


class IndexedFormat(NamedTuple):
    """A format, as far as its files and caches are known by their names.

    Attributes:
      name: of the function of `resumable` that reads it, and of the choice of `resumable index`.
      caches: how the name of its `Format` begins, and with it what the names of its caches end with.
      endings: of the names of its files, in lower case.
    """

    name: str
    caches: str
    endings: tuple[str, ...]


FORMATS: Final = (
    IndexedFormat("lines", "lines", ()),
    IndexedFormat("jsonl", "lines", (".jsonl", ".ndjson")),
    IndexedFormat("csv", "csv", (".csv",)),
    IndexedFormat("tar", "tar", (".tar",)),
    IndexedFormat("tfrecord", "tfrecord", (".tfrecord", ".tfrecords")),
    IndexedFormat("warc", "warc", (".warc",)),
)
"""All of them; files with other endings are indexed as lines."""
