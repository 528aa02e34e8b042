"""Read whole files, one an item."""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core.arguments import check_bool
from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.foreseen import PartUses
from ..core.identity import ALWAYS, IdentityFields
from ..core.indexed import Indexed
from ..core.origin import Origin
from ..errors import InvalidArgument
from .contents import FILES
from .data_files import AnyFile, found_data_files, location
from .io.cached_parts import part_uses
from .io.held_ranges import NOTHING_HELD, HeldRanges, Ranges
from .io.open_files import DataFile, unreadable
from .io.paths import Paths, file_name, without_query
from .io.remote import RemoteFile
from .named_files import in_words
from .parts import FoundInFiles

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class WholeFiles(FoundInFiles[T]):
    """The base of sources of whole files: the list of files, and its identity."""

    identity: ClassVar[IdentityFields] = {"files": FILES, "contents": ALWAYS}

    _files: tuple[AnyFile, ...] = field(init=False, repr=False)

    @abstractmethod
    def _items(self, indices: list[int], held: HeldRanges) -> list[T]:
        """The items of the files with these numbers, from ``held`` ranges as far as possible."""

    @property
    def _data_files(self) -> Sequence[AnyFile]:
        return self._files

    @property
    def _counts(self) -> Sequence[int]:
        return [1] * len(self._files)

    @computed_once
    def files(self) -> str:
        """The files in a few words: equal for the same names below a folder and the same sizes."""
        names = [without_query(path) for path in self._paths]
        folders = os.path.commonprefix(names)  # noqa: RUF071  # files may be on several drives
        return described(self._files, os.path.dirname(folders))

    def _origins(self, numbers: Indices) -> list[Origin]:
        name = type(self).__name__
        return [Origin(name, 0, self._files[number].path, 0) for number in numbers.tolist()]

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        return Indexed(
            self._gather, lambda index: self._items([index], NOTHING_HELD)[0], every_epoch=True
        )

    def _ranges_of(self, place: int, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        starts = np.zeros_like(numbers)
        return np.arange(len(numbers)), starts, starts + self._files[place].size

    def _needs(self, held: HeldRanges, indices: Indices, at: Indices) -> Iterator[PartUses]:
        lacking = ~held.holds_items(indices)
        indices, at = indices[lacking], at[lacking]
        # A folder may have millions of files, so only the needed files are looked at.
        numbers, file_of = np.unique(indices, return_inverse=True)
        found = [self._files[number] for number in numbers.tolist()]
        files = [file for file in found if file.cache]
        if files:
            cached = np.array([file.cache is not None for file in found])
            place_of, remote = np.cumsum(cached) - 1, cached[file_of]
            file_of = place_of[file_of[remote]]
            ends = np.array([file.size for file in files], np.int64)[file_of]
            yield part_uses(files, file_of, np.zeros_like(ends), ends, at[remote])

    def _gather(self, indices: Indices, held: HeldRanges = NOTHING_HELD) -> Block:
        return self._items(indices.tolist(), held)

    def _read(self, indices: list[int], held: HeldRanges) -> list[bytes]:
        """The bytes of the files with these numbers; remote files not ``held`` are read together.

        Raises:
          MalformedItem: if a file has changed since the pipeline was built.
          OSError: if a file cannot be read.
        """
        files = [self._files[index] for index in indices]
        remote = {file.path: file for file in files if isinstance(file, RemoteFile)}
        found = held.read([(file, Ranges.of((0, file.size))) for file in remote.values()])
        fetched = {path: content for path, (content,) in zip(remote, found, strict=True)}
        return [
            fetched[file.path] if isinstance(file, RemoteFile) else file.content() for file in files
        ]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Files(WholeFiles[Any]):
    """Whole files, one an item: its path, or its bytes.

    State: O(1), the position. Random access; a resume reads the first and last 4 KiB of at most
    10,000 files, and nothing if all files are remote and have an ETag. A file is open only during a
    read. Up to 64 remote files, of 64 MiB together, are read ahead at once, and 256 MiB are held.

    The names of the files below their common folder, the sizes, and the contents read at a resume
    must be the same at save and resume; the folder may differ.

    Args:
      paths: a path, a URL of `fsspec`, a pattern, or several of them; matches of a pattern are
        sorted.
      read: deliver the bytes of each file instead of its absolute path or URL.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if no file matches, or a match is not a regular file.
      MissingDependency: if a URL needs a package that is not installed.
      OSError: if a file cannot be found or read.
      MalformedItem: while reading, if a file has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.txt", "a.txt"):
    ...         with open(os.path.join(folder, name), "w") as file:
    ...             print("I am", name, end="", file=file)
    ...     list(rs.files(os.path.join(folder, "*.txt"), read=True))
    [b'I am a.txt', b'I am b.txt']
    """

    identity: ClassVar[IdentityFields] = {**WholeFiles.identity, "read": ALWAYS}

    paths: Paths
    _: KW_ONLY
    read: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_bool("read", self.read)
        found = found_data_files(self.paths, self.storage_options, look=partial(located, "paths"))
        object.__setattr__(self, "_files", tuple(found))

    def indexed(self, epoch: int = 0) -> Indexed[Any]:
        return self._read_ahead() if self.read and self._is_remote else super().indexed(epoch)

    def _items(self, indices: list[int], held: HeldRanges) -> list[Any]:
        if self.read:
            return self._read(indices, held)
        return [location(self._files[index]) for index in indices]


def located(argument: str, path: str) -> DataFile:
    """The file at ``path``, without opening it; errors name ``argument``.

    Raises:
      InvalidArgument: if ``path`` is not a regular file.
      ReadError: if the file does not exist.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgument(f"{argument} must name regular files, got {path!r}")
    return DataFile.found(path, status)


def described(files: Sequence[AnyFile], folder: str) -> str:
    """``files`` in a few words: equal for the same names below ``folder`` and the same sizes."""
    names = (
        without_query(file.path)[len(folder) :].lstrip(os.sep).replace(os.sep, "/")
        for file in files
    )
    described = (f"{name}:{file.size}\n" for name, file in zip(names, files, strict=True))
    return in_words(file_name(files[0].path), "".join(described), len(files))
