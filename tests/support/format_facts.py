"""What the tests of every format know of each: a file of facts in `tests/formats/facts/` for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import resumable as rs

from .fact_files import FactFiles, Mutation

__all__ = [
    "FORMAT_FACTS",
    "BehindUrl",
    "FormatFacts",
    "InStreams",
    "Mutation",
    "OneSize",
    "Read",
    "Target",
    "named_packages",
]

Read: TypeAlias = Callable[..., rs.Pipeline[Any]]
Pipelines: TypeAlias = Mapping[str, Callable[[], rs.Pipeline[Any]]]


class Target(Protocol):
    """What damaged files are read as.

    Attributes:
      real: good files; small ones, so that damage strikes what matters.
      damaged: a file that follows from random choices and the good ones.
    """

    @property
    def real(self) -> list[bytes]: ...
    @property
    def damaged(self) -> Callable[[Random, list[bytes]], bytes]: ...

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """How many items ``data`` gave, and how many records were refused.

        Args:
          data: the bytes of a file.
          folder: for that file.

        Raises:
          Exception: any but `AssertionError` too, for what must not happen.
        """


class OneSize(NamedTuple):
    """Files of one size that differ in their content alone.

    Attributes:
      content: of the file with a number below 10.
      read: makes the pipeline of a list of paths; it may write an index beside the files.
      name: of the files, with a place for the number.
    """

    content: Callable[[int], bytes]
    read: Read
    name: str = "{}.txt"


class BehindUrl(NamedTuple):
    """A file behind a URL.

    Attributes:
      content: of the file.
      read: makes the pipeline of URLs and `storage_options`, and of `index_dir` if there is an index.
      has_index: whether it is read by an index; then it has at least 30 records of some kilobytes together.
    """

    content: Callable[[], bytes]
    read: Read
    has_index: bool = True


class InStreams(NamedTuple):
    """Files that may be compressed.

    Attributes:
      content: of the file with a number below 10: nine records, or eight.
      read: makes the pipeline of a list of paths.
    """

    content: Callable[[int], bytes]
    read: Read


@dataclass(frozen=True, kw_only=True)
class FormatFacts:
    """What the tests of every format need to know of one.

    A key of a mapping begins with the name of the format, and differs from those of all other formats.

    Attributes:
      damaged: good files, with what their damaged copies are read as, and how: items as another reader finds
        them, or `MalformedItem`, in bounded time and memory. Called for the campaign of damage alone.
      one_size: files to exchange for each other, which a resume must notice.
      removed: writes three files of four records with these bytes into a folder, and reads them; a file that
        is removed or replaced mid-run must be named.
      package: the module without which the format is not read.
      pipelines: for the catalogue, over the files in a folder: one named like the format; with `on_error`, also
        one named `NAME skipping`. `test_laws.py` stops and resumes them at every position, and each has a golden
        state.
      write: writes the files of ``pipelines`` into a folder.
      behind_urls: the same items with and without an index, in few requests, and no secret of a URL is shown.
      in_streams: for a format with compressed files: exclusions name the same records.
      mutations: faults that the tests of the format must notice.
    """

    damaged: Callable[[], Mapping[str, Target]]
    one_size: Mapping[str, OneSize]
    removed: Mapping[str, Callable[[Path, bytes], rs.Pipeline[Any]]]
    package: str | None = None
    pipelines: Callable[[Path], Pipelines] = lambda folder: {}
    write: Callable[[Path], None] = lambda folder: None
    behind_urls: Mapping[str, BehindUrl] = field(default_factory=dict)
    in_streams: Mapping[str, InStreams] = field(default_factory=dict)
    mutations: Sequence[Mutation] = ()

    @property
    def is_installed(self) -> bool:
        """Whether the package is there, or none is needed."""
        return self.package is None or find_spec(self.package) is not None


FORMAT_FACTS: Final = FactFiles(FormatFacts, "formats")


def named_packages() -> dict[str, str]:
    """The module that each format needs, by the name of the format."""
    found = {name: facts.package for name, facts in FORMAT_FACTS.all.items()}
    return {name: package for name, package in found.items() if package is not None}
