"""A version of a Lance dataset, opened separately in each reading process."""

# Rows are taken fragment by fragment. With deleted rows, `take` of a whole dataset goes over the
# deleted rows for each row, and takes hundreds of times as long.

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOENT
from typing import Any, Final, final

import numpy as np

from ...core.block import Block, Indices
from ...errors import InvalidArgument, MalformedItem, MissingFile, ReadError
from ..io.fork_gate import UnforkableCall
from ..io.paths import is_remote
from .rows import Rows
from .values import joined_chunks, stackable

FEW: Final = 64
"""Below so many neighbouring rows, a scan costs more to begin than it saves."""

REFUSED: Final = (OSError, ValueError, RuntimeError, KeyError, OverflowError, NotImplementedError)
"""Exact classes: a signal handler may raise a derived class."""


@final
class LanceVersion:
    """A version of a dataset, as found when the pipeline was built.

    Args:
      uri: of the dataset, or its absolute path.
      version: number of the version, or a tag; None for the latest.
      storage_options: of Lance's object store.

    Attributes:
      uri: as given.
      number: of the version.
      names: of the columns.
      stackable: the columns whose values can be stacked, for any rows in a batch.
      rows: number of rows of each fragment, without deleted rows.
      fragments: description of each fragment: names and sizes of files, and the file of deletions.
      size: bytes of the files of all fragments, as far as known.

    Raises:
      FileNotFoundError: if the dataset, the version or the tag does not exist.
      InvalidArgument: if Lance does not know the scheme of ``uri``.
      MalformedItem: if the dataset is damaged.
      ReadError: if a remote dataset cannot be read.
    """

    def __init__(
        self, uri: str, version: int | str | None, storage_options: Mapping[str, str] | None
    ) -> None:
        self.uri = uri
        self._options = dict(storage_options or {})
        # The number of the process and its open fragments. A child must not use the fragments of
        # the parent.
        self._opened: tuple[int, list[Any]] | None = None
        with self._translating_errors("its versions", opening=True), UnforkableCall():
            dataset = self._dataset(version)
            self.number = int(dataset.version)
            fragments = dataset.get_fragments()
            self._opened = (os.getpid(), fragments)
            schema = dataset.schema
            self.rows = [int(one.count_rows()) for one in fragments]
            found = [one.metadata.to_json() for one in fragments]
        self.names: Sequence[str] = schema.names
        self.stackable = stackable(schema)
        self._ids = [int(one["id"]) for one in found]
        self.fragments = [_in_words(one) for one in found]
        self.size = sum(file["file_size_bytes"] or 0 for one in found for file in one["files"])

    def take(self, place: int, numbers: Indices, columns: Sequence[str]) -> Block:
        """Rows of the fragment at ``place``, by ``numbers`` in the fragment, shape (n,), at least one.

        Raises:
          MalformedItem: if the rows cannot be decoded.
          FileNotFoundError: if a file of the fragment no longer exists.
          ReadError: if a remote file cannot be read.
          OSError: if a file cannot be read.
        """
        # Lance requires ascending numbers.
        wanted, places = np.unique(numbers, return_inverse=True)
        first, last = int(wanted[0]), int(wanted[-1])
        if len(wanted) >= FEW and last - first == len(wanted) - 1:
            rows = self._rows(place, columns, first, len(wanted))
        else:
            rows = self._rows(place, columns, wanted.tolist())
        if len(wanted) == len(numbers) and (np.diff(numbers) > 0).all():
            return rows.gather_range(0, len(numbers))
        return rows.gather(places)

    def _rows(self, place: int, columns: Sequence[str], *which: Any) -> Rows:
        """The rows ``which``: a list of numbers, or the first number and a count."""
        where = f"fragment {self._ids[place]}"
        with self._translating_errors(where):
            fragment = self._fragments()[place]
            with UnforkableCall():
                if len(which) == 1:
                    count = len(which[0])
                    table = fragment.take(which[0], columns=list(columns))
                else:
                    first, count = which
                    table = fragment.to_table(columns=list(columns), offset=first, limit=count)
            arrays = [joined_chunks(table.column(name)) for name in columns]
        if table.num_rows != count:
            raise MalformedItem(
                f"{self._described(where)}: {table.num_rows} rows instead of {count}"
            )
        return Rows(self._described(where), columns, arrays, 0)

    def _fragments(self) -> list[Any]:
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            with UnforkableCall():
                opened = (os.getpid(), self._dataset(self.number).get_fragments())
            self._opened = opened
        return opened[1]

    def _dataset(self, version: int | str | None) -> Any:
        import lance

        return lance.dataset(self.uri, version=version, storage_options=self._options or None)

    def _described(self, where: str) -> str:
        return f"{self.uri}, version {self.number}, {where}"

    @contextmanager
    def _translating_errors(self, where: str, opening: bool = False) -> Iterator[None]:
        """Turn errors of Lance, which has few error classes, into our errors."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, MalformedItem, ReadError):
            raise
        except BaseException as error:
            # A panic of Rust is no `Exception`.
            if not (type(error) in REFUSED or type(error).__module__ == "pyo3_runtime"):
                raise
            if isinstance(error, OSError) and error.errno:
                raise
            place = self.uri if opening else self._described(where)
            raise _explained(place, str(error), is_remote(self.uri)) from error


def _explained(place: str, text: str, remote: bool) -> Exception:
    """The error at ``place`` for a message ``text`` of Lance."""
    # The rest of the message names a line of Lance's source code.
    reason = text.partition(", /home/")[0]
    if "No object store provider found" in text:
        return InvalidArgument(f"uri must be one that Lance knows, got {place!r}: {reason}")
    if "Not found" in text or "not found: " in text or "Ref not found" in text:
        return MissingFile(
            ENOENT, f"{place}: {reason}; was the dataset removed, or an old version cleaned up?"
        )
    if remote and "Generic " in text:
        return ReadError(f"{place} could not be read: {reason}")
    return MalformedItem(f"{place}: {reason}")


def _in_words(fragment: Mapping[str, Any]) -> str:
    files = [f"{file['path']}:{file['file_size_bytes']}" for file in fragment["files"]]
    deleted = fragment["deletion_file"] or {}
    marks = [f"{key}={deleted[key]}" for key in sorted(deleted)] if deleted else []
    return " ".join([*files, *marks])
