"""Read the records of ArrayRecord files by index."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.identity import ALWAYS, IdentityFields
from .array_record_file import ArrayRecordFile
from .contents import FILES
from .data_files import AnyFile, found_data_files
from .io.fetching import map_at_once
from .io.held_ranges import HeldRanges
from .io.open_files import DataFile
from .io.paths import Paths
from .io.remote import RemoteFile
from .packages import imported
from .parts import ItemsInParts


@final
@dataclass(frozen=True, eq=False, repr=False)
class ArrayRecord(ItemsInParts[bytes]):
    """The records of ArrayRecord files, as bytes, in the order of the files.

    The package ``array_record`` reads the records, as it does for Grain. Records are read many at a
    time: all records of a batch, and for single items up to 256 records, or 1 MiB of files, ahead.
    Files written with ``group_size:1`` suit a global `shuffle`; with larger groups, each record is
    read with its group.

    Opening reads the list of records of each file. A process has up to 64 files open at a time. The
    package's readers keep 8 bytes a group for each open file. A process that is forked, or
    unpickles the pipeline, opens the files again. The package starts threads, so start methods
    other than fork are safer.

    The package reads only local files. So a remote file is copied as a whole when the pipeline is
    built. With a cache, the copies lie in the cache, once for all processes, and count against the
    limit of the cache. Copies without room in the cache, reported by a `RuntimeWarning`, and all
    copies without a cache lie in the folder of temporary files. Every process that builds or
    unpickles the pipeline makes separate temporary copies, shared with its forks. The copies are
    removed when this process ends; a killed process leaves its copies.

    State: O(1), the position. Random access. A resume reads the list of records, and the first and
    last 4 KiB of each file (of at most 10,000).

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), a URL of fsspec such as
        ``"s3://bucket/*.array_record"``, or several; matches of a pattern are sorted.
      storage_options: of the file system of a URL.

    Raises:
      MissingDependency: if array_record, or for a URL fsspec or its backend, is not installed.
      InvalidArgument: if no file matches, or a match is not a regular file.
      InvalidType: if an argument has the wrong type.
      MalformedItem: if a file is not an ArrayRecord file; while iterating, if a record is damaged,
        with file and number of the record, or if a file has changed since the pipeline was built.
      OSError: if a file cannot be read.

    >>> import os, tempfile
    >>> from array_record.python.array_record_module import ArrayRecordWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.array_record")
    ...     writer = ArrayRecordWriter(path, "group_size:1")
    ...     for record in (b"one", b"two"):
    ...         writer.write(record)
    ...     writer.close()
    ...     list(rs.array_record(path))
    [b'one', b'two']
    """

    identity: ClassVar[IdentityFields] = {"files": FILES, "contents": ALWAYS}
    most_ahead = 256
    ahead_bytes = 1 << 20

    paths: Paths
    _: KW_ONLY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    _files: tuple[ArrayRecordFile, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        module = "array_record.python.array_record_module"
        imported(module, "ArrayRecord needs array_record", "array-record")
        found = found_data_files(self.paths, self.storage_options)
        remote = not all(isinstance(file, DataFile) for file in found)
        files = map_at_once(ArrayRecordFile, found) if remote else map(ArrayRecordFile, found)
        object.__setattr__(self, "_files", tuple(files))
        self._warn_of_copies()
        self._check_counts(f"{found[0].path}: it claims more than 2**62 items")

    def _warn_of_copies(self) -> None:
        """Warn if a cache has no room for copies of all files."""
        remote = [file for file in self._data_files if isinstance(file, RemoteFile)]
        beyond = sum(file.file.size for file in self._files if file.is_beyond_cache)
        if beyond and remote and (cache := remote[0].cache) is not None:
            needed = sum(file.size for file in remote)
            warnings.warn(
                f"ArrayRecord needs whole copies of its files, {needed:,} bytes, and the cache in {cache.path} "
                f"has room for {cache.max_bytes:,}: copies of {beyond:,} bytes are in {tempfile.gettempdir()}",
                RuntimeWarning,
                stacklevel=2,
            )

    @computed_once
    def _data_files(self) -> Sequence[AnyFile]:
        return [file.file for file in self._files]

    @property
    def _counts(self) -> Sequence[int]:
        return [file.records for file in self._files]

    @computed_once
    def _is_cached(self) -> bool:
        return False  # no parts: the package reads whole copies

    def _read(self, wanted: Sequence[tuple[int, Indices]], held: HeldRanges) -> list[Block]:
        return [self._files[place].read(numbers) for place, numbers in wanted]
