"""Read rows of a version of a Lance dataset, by index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.evidence import Evidence
from ..core.identity import ALWAYS, IdentityField, IdentityFields
from ..core.layout import LISTS, STACKED, Layout
from ..errors import InvalidArgument, InvalidType, shorten
from .data_files import AnyFile
from .io.held_ranges import HeldRanges
from .io.paths import is_remote
from .packages import imported
from .parts import ItemsInParts
from .tables.columns import NAMES, check_names, checked_columns
from .tables.lance_version import LanceVersion


@final
@dataclass(frozen=True, eq=False, repr=False)
class Lance(ItemsInParts[dict[str, Any]]):
    """The rows of a Lance dataset, as dicts, in the order of a scan.

    The package ``pylance`` reads the rows, by many row numbers at once, and only the chosen
    columns. A global `shuffle` is efficient. Values and blocks are as in `parquet`. Deleted rows
    are no items.

    A pipeline reads one version of the dataset: ``dataset_version``, or by default the latest
    version when the pipeline was built. Later appends, deletions and changes make new versions, and
    are not seen. The number of the version is part of the identity: a resume on another version is
    refused. To resume, build the pipeline with the saved ``dataset_version``. Lance keeps a version
    until a cleanup; a tagged version stays for ever.

    Lance has its own threads, and warns when a process that has imported it forks. A child opens
    the dataset again, and a fork waits until no thread of the process is reading; start processes
    by ``spawn`` or ``forkserver`` where you can. Pickled, a pipeline is its URI, version and
    options.

    Lance keeps no checksums of values. So a damaged dataset may give wrong values without an error,
    and absurd numbers in the files can end the process, since Lance aborts when memory is lacking.
    Files that are cut short are refused.

    State: O(1), the position. Random access. A resume reads the manifest of the version.

    Args:
      uri: the folder of the dataset, or its URI for Lance, such as ``"s3://bucket/train.lance"``.
      columns: names of the columns to read, in the order of the keys of an item; all by default.
      dataset_version: number of the version, or a tag; the latest by default.
      storage_options: strings for Lance's own object store, which is not fsspec: for S3 they are
        called ``"endpoint"``, ``"region"``, ``"access_key_id"``, ``"secret_access_key"``,
        ``"allow_http"`` and so on.

    Raises:
      MissingDependency: if pylance is not installed.
      InvalidArgument: if the dataset lacks a column, two columns have one name, or Lance does not
        know the scheme of ``uri``.
      InvalidType: if an argument has the wrong type.
      FileNotFoundError: if the dataset or the version does not exist; while iterating, if a file of
        the dataset no longer exists.
      MalformedItem: if the dataset is damaged, as far as Lance notices.
      ReadError: if a remote dataset cannot be read.
      OSError: if a file cannot be read.

    >>> import os, tempfile, lance, pyarrow
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.lance")
    ...     _ = lance.write_dataset(pyarrow.table({"id": [1, 2], "text": ["a", "b"]}), path)
    ...     list(rs.lance(path))
    [{'id': 1, 'text': 'a'}, {'id': 2, 'text': 'b'}]
    """

    identity: ClassVar[IdentityFields] = {
        "dataset": IdentityField(
            ALWAYS,
            hint="was the dataset written to since the save? Build the pipeline with the saved version=",
        ),
        "contents": ALWAYS,
        "names": NAMES,
    }
    most_ahead = 4096
    ahead_bytes = 1 << 21

    uri: str | os.PathLike[str]
    columns: Sequence[str] | None = None
    _: KW_ONLY
    dataset_version: int | str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)
    _found: LanceVersion = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = checked_columns(self.columns)
        uri = _checked_uri(self.uri)
        version = _checked_version(self.dataset_version)
        _check_options(self.storage_options)
        imported("lance", "Lance needs pylance", "lance")
        found = LanceVersion(uri, version, self.storage_options)
        names = found.names if chosen is None else chosen
        check_names(uri, found.names, names)
        # Another process finds the same version by its number.
        vars(self).update(
            uri=uri,
            columns=chosen,
            names=tuple(names),
            dataset_version=found.number,
            _found=found,
        )
        self._check_counts(f"{uri}: it claims more than 2**62 items")

    @property
    def _data_files(self) -> Sequence[AnyFile]:
        return ()  # Lance finds and reads them

    @computed_once
    def _paths(self) -> list[str]:
        return [self._found.uri]

    @property
    def _counts(self) -> Sequence[int]:
        return [sum(self._found.rows)]

    @computed_once
    def _part_ends(self) -> Indices:
        return np.cumsum(self._found.rows, dtype=np.int64)

    @property
    def dataset(self) -> str:
        """The dataset in a few words: equal for the same name, version and number of rows."""
        name = self._found.uri.rstrip("/").rpartition("/")[2]
        return f"{shorten(name, 40)}, version {self._found.number}, {self.length} rows"

    @computed_once
    def contents(self) -> Evidence:
        """Evidence by the fragments: the names of their files, which Lance chooses at random."""
        described = self._found.fragments
        digests = [hashlib.blake2b(one.encode(), digest_size=16).digest() for one in described]
        return Evidence("fragments", digests, described) if digests else Evidence()

    @computed_once
    def block_layout(self) -> Layout:
        return STACKED if frozenset(self.names) <= self._found.stackable else LISTS

    @property
    def _size(self) -> int:
        return self._found.size

    def _read(self, wanted: Sequence[tuple[int, Indices]], held: HeldRanges) -> list[Block]:
        return [self._found.take(*part, self.names) for part in wanted]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset})"


def _checked_uri(uri: Any) -> str:
    if not isinstance(uri, (str, os.PathLike)) or not isinstance(os.fspath(uri), str):
        raise InvalidType(f"uri must be a path or a URI, got {shorten(uri)}")
    text = os.fspath(uri)
    if not text:
        raise InvalidArgument(f"uri must name a dataset, got {text!r}")
    return text if is_remote(text) else os.path.abspath(os.path.expanduser(text))


def _checked_version(version: Any) -> int | str | None:
    if version is None or isinstance(version, str):
        return version
    if not isinstance(version, (int, np.integer)) or isinstance(version, bool):
        raise InvalidType(f"version must be a number or a tag, got {shorten(version)}")
    if not 1 <= version < 1 << 63:
        raise InvalidArgument(
            f"version must be at least 1, and below 2**63, got {shorten(version)}"
        )
    return int(version)


def _check_options(options: Any) -> None:
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise InvalidType(f"storage_options must be a dict, got {shorten(options)}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidType(
                f"storage_options must have strings for Lance's object store, got {shorten(key)}: "
                f"{shorten(value)}"
            )
