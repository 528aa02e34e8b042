"""Read rows of Parquet files, by row group."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import final

from ..core.arguments import check_field, check_int
from .tables.file_access import TableFileAccess
from .tables.parquet_file import ParquetFile, Waiting
from .tables.source import TableFiles


@final
@dataclass(frozen=True, eq=False, repr=False)
class Parquet(TableFiles):
    """The rows of Parquet files, in the order of the files, as dicts.

    A row group is decoded as a whole, with only the requested columns, by the calling thread; put a
    `prefetch` after the batches to decode ahead. Decoded row groups are kept in memory, up to 1 GiB
    for all sources of a process; a larger row group is kept alone. Opening reads the footers. Files
    are open only during reads; with ``batch_rows``, up to 16 files of a process stay open between
    two parts of a row group, as long as their pipelines exist.

    A global `shuffle` decodes a row group for nearly every row, unless all row groups are kept. Use
    ``shuffle(seed, block=n)`` with the number of rows in a row group as n: the rows of 8 blocks are
    taken at a time, for which the 1 GiB must suffice, and each row group is decoded once. Where row
    groups are much larger, ``batch_rows`` bounds the memory of reading in order.

    The Python type of a value depends only on the type of the column:

    * bool, int64 and double are Python's, and other numbers NumPy scalars;
    * strings are ``str``, binary is ``bytes``, and decimals are ``decimal.Decimal``;
    * dates and timestamps are `numpy.datetime64` in their unit, timestamps with a time zone in UTC;
    * durations, and times since midnight, are `numpy.timedelta64`;
    * a list of numbers without nulls is an array of shape (values,), any other list a list;
    * a struct is a dict, a map a list of pairs, and any null is None;
    * dictionary-encoded values are the decoded values, and extension types the storage values.

    Blocks are columns if every column is text or has numbers without nulls, otherwise lists of
    dicts. Rows read in order are made up to 4,096 at once, from up to 2 MiB of files.

    Checksums of pages are verified if present.

    State: O(1), the position. Random access. A resume reads only the current row group.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), a URL of fsspec such as ``"s3://bucket/*.parquet"``, or
        several of them; matches of a pattern are sorted.
      columns: names of the columns to read, in the order of the keys of an item; all by default.
      batch_rows: decode row groups in parts of so many rows. pyarrow decodes a row group only from
        the start, so parts suit reading in order: a jump decodes the earlier parts again.
      storage_options: of the file system of a URL.

    Raises:
      MissingDependency: if pyarrow, or for a URL fsspec or its backend, is not installed.
      InvalidArgument: if no file matches, a file is not regular or lacks a column, or two columns
        have one name.
      InvalidType: if an argument has the wrong type.
      MalformedItem: if a file is not a Parquet file; while iterating, if a row group cannot be
        decoded, or a file has changed since the pipeline was built.
      OSError: if a file cannot be read.

    >>> import os, tempfile, pyarrow, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "text": ["a", "b"]}), path)
    ...     list(rs.parquet(path))
    [{'id': 1, 'text': 'a'}, {'id': 2, 'text': 'b'}]
    """

    _: KW_ONLY
    batch_rows: int | None = None
    _waiting: Waiting = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_field(self, "batch_rows", check_int, optional=True, minimum=1)
        object.__setattr__(self, "_waiting", Waiting())
        super().__post_init__()

    def _open(self, place: TableFileAccess) -> ParquetFile:
        return ParquetFile(place, self.batch_rows, self._waiting, self.columns)
