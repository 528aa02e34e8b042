"""Read rows of Arrow files, by record batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from .tables.arrow_file import ArrowFile
from .tables.file_access import TableFileAccess
from .tables.source import TableFiles


@final
@dataclass(frozen=True, eq=False, repr=False)
class Arrow(TableFiles):
    """The rows of Arrow IPC files, in the order of the files, as dicts.

    Both the file format and the stream format are read, including the ``data-*.arrow`` files of
    ``save_to_disk`` of Hugging Face datasets, the files in the cache of datasets, and streams from
    before Arrow 0.15. Opening reads the headers of all messages and the footer, but no values.

    Local files are mapped. Uncompressed values are read from the map on demand, so any row is
    cheap, and a global ``shuffle(seed)`` is efficient. Compressed record batches are decoded as a
    whole, with only the requested columns. Decoded batches are kept in memory, up to 1 GiB for all
    sources of a process; a larger batch is kept alone. For compressed files, and for URLs, use
    ``shuffle(seed, block=n)`` with the number of rows in a record batch as n.

    Values and blocks are as in `parquet`. The offsets of a record batch are checked at the first
    use.

    State: O(1), the position. Random access. A resume reads only the current record batch.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), a URL of fsspec such as ``"s3://bucket/*.arrow"``, or
        several of them; matches of a pattern are sorted.
      columns: names of the columns to read, in the order of the keys of an item; all by default.
      storage_options: of the file system of a URL.

    Raises:
      MissingDependency: if pyarrow, or for a URL fsspec or its backend, is not installed.
      InvalidArgument: if no file matches, a file is not regular or lacks a column, or two columns
        have one name.
      InvalidType: if an argument has the wrong type.
      MalformedItem: if a file is not an Arrow file; while iterating, if a record batch cannot be
        decoded, or a file has changed since the pipeline was built.
      OSError: if a file cannot be read.

    >>> import os, tempfile, pyarrow
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.arrow")
    ...     table = pyarrow.table({"id": [1, 2], "text": ["a", "b"]})
    ...     with pyarrow.ipc.new_file(path, table.schema) as writer:
    ...         writer.write_table(table)
    ...     list(rs.arrow(path))
    [{'id': 1, 'text': 'a'}, {'id': 2, 'text': 'b'}]
    """

    def _open(self, place: TableFileAccess) -> ArrowFile:
        return ArrowFile(place, self.columns)
