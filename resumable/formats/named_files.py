"""Records that are named by their file and their number in the file."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..core.records import Records
from ..errors import InvalidArgument, shorten
from ..errors.public_urls import public_name
from .data_files import AnyFile
from .io.paths import file_name


def files_in_words(files: Sequence[AnyFile], *counted: str) -> str:
    """``files``, at least one, and ``counted`` in words: equal for the same names and sizes."""
    described = [f"{file_name(file.path)}:{file.size}" for file in files]
    return in_words(file_name(files[0].path), "\n".join(described), len(files), *counted)


def in_words(first: str, described: str, files: int, *counted: str) -> str:
    """``files`` files in a few words: the name of the ``first``, and a digest of ``described``."""
    digest = hashlib.blake2b(described.encode("utf-8", "surrogateescape"), digest_size=6)
    more = f" and {files - 1} more" if files > 1 else ""
    return ", ".join([f"{shorten(first, 24)}{more}", *counted, digest.hexdigest()])


def numbers_in_files(
    records: Records,
    length: int,
    paths: Sequence[str],
    items_of: Callable[[int, Records], Indices],
) -> Indices:
    """The numbers of the items made of ``records``: numbers among all items, or dicts by file.

    Args:
      records: a file is named by its path, or by an end of the path, such as the file name; a whole
        path counts first.
      length: number of items.
      paths: of the files, or URLs.
      items_of: returns the items of records of a file, by their numbers in the file; shape (n,).

    Raises:
      InvalidArgument: if a name matches no file or several.
    """
    if not records.named:
        return records.below(length)
    found = [items_of(number, part) for number, part in records_of_files(records, paths)]
    return np.concatenate([*found, NO_INDICES])


def records_of_files(records: Records, paths: Sequence[str]) -> Iterator[tuple[int, Records]]:
    """The number of each file named in ``records``, and the records of this file.

    Raises:
      InvalidArgument: like `numbers_in_files`.
    """
    # There may be many files and many names.
    by_last_part, found = defaultdict[str, list[int]](list), dict[int, Records]()
    for number, path in enumerate(paths):
        by_last_part[_last_part(path)].append(number)
    for name, part in records.named.items():
        ends = dict.fromkeys((_last_part(name), _last_part(public_name(name))))
        same_end = [number for end in ends for number in by_last_part.get(end, ())]
        # A whole path may be the end of another path, as /data/a.txt is of /backup/data/a.txt.
        whole = (name, public_name(name))
        named = [number for number in same_end if paths[number] in whole]
        named = named or [number for number in same_end if is_named(paths[number], name)]
        if not named and records.may_lack:
            continue
        if len(named) != 1:
            are = f"{len(named)} files are" if named else "no file is"
            among = _distinct_ends([paths[number] for number in named]) if named else list(paths)
            raise InvalidArgument(
                f"records must name a file by its path, or by an ending that matches exactly one file, but {are} called "
                f"{public_name(name)!r} among {shorten(among)}"
            )
        before = found.get(named[0], Records.NONE)  # by another name of the file
        numbers = np.union1d(before.numbers, part.numbers)
        found[named[0]] = replace(part, numbers=numbers, named={**before.named, **part.named})
    yield from found.items()


def _distinct_ends(paths: list[str]) -> list[str]:
    """The shortest ends of ``paths``, cut between folders, that all differ."""
    folders = [path.split("/") for path in paths]
    for length in range(1, max(map(len, folders))):
        ends = ["/".join(each[-length:]) for each in folders]
        if len(set(ends)) == len(ends):
            return ends
    return paths


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def is_named(path: str, name: str) -> bool:
    """Whether ``name`` names the file at ``path``: as the whole path, or as an end of it."""
    named = (name, public_name(name))
    return path in named or any(path.endswith(f"/{one.lstrip('/')}") for one in named)
