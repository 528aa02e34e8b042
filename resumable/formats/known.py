"""The formats with records found by an index."""

# A format missing here can be read, but patterns take caches of the format for data, and `resumable
# index` does not know the format. This module imports nothing, since the command line reads it for
# its help.

from __future__ import annotations

from typing import Final, NamedTuple


class IndexedFormat(NamedTuple):
    """A format, with the names of its files and caches.

    Attributes:
      name: of the function of `resumable` for the format, and of the choice of `resumable index`.
      caches: start of the name of the `Format`; the names of caches end with the whole name.
      endings: of the names of data files, in lower case.
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
"""All formats; files with other endings are indexed as lines."""
