"""Read the index of a dataset of shards: a JSON object with members checked at each access."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from typing import Any, Final, final

from ...errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .. import decoders
from ..data_files import AnyFile, found_data_files
from ..io.open_files import DataFile
from ..io.paths import is_remote
from ..io.remote_content import Span, read_spans

INDEX: Final = "index.json"
LARGEST: Final = (1 << 32) - 1
"""The largest number in the headers of shards, and so of bytes and items of a shard."""

NO_FILE_NAME: Final = "*?[]{}#%\\\0"
"""Characters with a meaning in URLs or patterns; no loader writes them into the name of a shard."""


@final
class IndexPart:
    """An object in an index.

    Args:
      file: path or URL of the index.
      value: the object.
      place: of the object in the index, such as ``shards[3]``; empty for the whole index.

    Raises:
      MalformedItem: from each method, if a member is missing or has the wrong type.
    """

    def __init__(self, file: str, value: Any, place: str = "") -> None:
        self.file = file
        self.place = place
        if not isinstance(value, dict):
            raise self.refused(f"{place or 'it'} must be an object, got {shorten(value)}")
        self._members = value

    def refused(self, reason: str) -> MalformedItem:
        """The error for a damaged index."""
        return MalformedItem(f"{self.file}: a damaged index, or of another kind: {reason}")

    def check_size(self, file: AnyFile, size: int) -> None:
        """Check that ``file``, described by this part, has ``size`` bytes.

        Raises:
          MalformedItem: with both sizes.
        """
        if file.size != size:
            raise MalformedItem(
                f"{file.path}: it has {file.size} bytes, and {size} by {self.place} of {self.file}; was it "
                "cut short, or written again?"
            )

    def has(self, name: str) -> bool:
        """Whether a member with this name exists and is not null."""
        return self._members.get(name) is not None

    def value(self, name: str) -> Any:
        """The member, of any kind."""
        if name not in self._members:
            raise self.refused(
                f"{self.place or 'it'} must have {name!r}, got {shorten(list(self._members))}"
            )
        return self._members[name]

    def integer(self, name: str) -> int:
        """The member, an integer from 0 to `LARGEST`."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise self._wrong(name, f"an integer from 0 to {LARGEST}")
        return value

    def text(self, name: str) -> str:
        """The member, a string."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def file_name(self, name: str) -> str:
        """The member, a path below the folder of the index."""
        value = self.text(name)
        inside = posixpath.normpath(value) == value and not value.startswith(("/", "../"))
        if not inside or value in (".", "..") or any(each in value for each in NO_FILE_NAME):
            raise self._wrong(name, "a path below the folder")
        return value

    def part(self, name: str) -> IndexPart:
        """The member, an object."""
        return IndexPart(self.file, self.value(name), self._full_name(name))

    def items(self, name: str) -> list[Any]:
        """The member, a list."""
        value = self.value(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value

    def parts(self, name: str) -> list[IndexPart]:
        """The member, a list of objects."""
        return [
            IndexPart(self.file, value, f"{self._full_name(name)}[{number}]")
            for number, value in enumerate(self.items(name))
        ]

    def texts(self, name: str) -> list[str]:
        """The member, a list of strings."""
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of strings")
        return values

    def _wrong(self, name: str, kind: str) -> MalformedItem:
        return self.refused(
            f"{self._full_name(name)} must be {kind}, got {shorten(self.value(name))}"
        )

    def _full_name(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def dataset_folder(path: Any) -> str:
    """The folder of the dataset at ``path``, the path of the folder or of the index.

    Raises:
      InvalidType: if ``path`` is no path.
      InvalidArgument: if ``path`` is empty.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise InvalidType(f"path must be the path of a folder, or a URL, got {shorten(path)}")
    given = os.fspath(path)
    if not given:
        raise InvalidArgument("path must be the path of a folder, or a URL, got ''")
    if is_remote(given):
        address, query = _split_query(given)
        return _with_query(address.removesuffix(INDEX).rstrip("/"), query)
    folder = os.path.abspath(os.path.expanduser(given))
    return os.path.dirname(folder) if os.path.basename(folder) == INDEX else folder


def path_below(folder: str, name: str) -> str:
    """The path of the file ``name`` below ``folder``, or its URL."""
    if not is_remote(folder):
        return os.path.join(folder, *name.split("/"))
    address, query = _split_query(folder)
    return _with_query(f"{address}/{name}", query)


def _split_query(url: str) -> tuple[str, str]:
    """``url`` and its query; only in HTTP a question mark begins a query."""
    if url.startswith(("http://", "https://")):
        address, _, query = url.partition("?")
        return address, query
    return url, ""


def _with_query(address: str, query: str) -> str:
    return f"{address}?{query}" if query else address


def read_index(folder: str, options: Mapping[str, Any] | None) -> tuple[AnyFile, IndexPart]:
    """The file of the index in ``folder``, and its content.

    Raises:
      MalformedItem: if the index is no JSON object, or changes meanwhile.
      InvalidArgument, InvalidType: if ``options`` do not fit.
      MissingDependency: if a URL needs a package that is not installed.
      OSError: if the index cannot be read.
    """
    (file,) = found_files_below(folder, [INDEX], options)
    if isinstance(file, DataFile):
        data = file.content()
    else:
        (data,) = read_spans([Span(file, 0, file.size)])
    try:
        value = decoders.json(data)
    except MalformedItem as error:
        raise MalformedItem(f"{file.path}: a damaged index: {error}") from None
    return file, IndexPart(file.path, value)


def found_files_below(
    folder: str, names: list[str], options: Mapping[str, Any] | None
) -> list[AnyFile]:
    """The current files with these ``names`` below ``folder``, at least one.

    Raises:
      InvalidArgument, InvalidType: if ``options`` do not fit.
      MissingDependency: if a URL needs a package that is not installed.
      OSError: if a file cannot be found.
    """
    return found_data_files([path_below(folder, name) for name in names], options)
