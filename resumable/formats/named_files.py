"""Records that are named by their file and their number there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..core.left_out import AtPlaces
from ..core.records import Records
from ..errors import InvalidArgument, shorten
from ..errors.public_urls import public_name


def left_out_of_files(
    records: Records,
    length: int,
    paths: Sequence[str],
    items_of: Callable[[int, Records], Indices],
) -> AtPlaces:
    """The items made of some ``records`` of files, which are numbers among all items, or dicts by file.

    Args:
      records: a file is named by its path, or by the end of it, such as its name.
      length: number of items.
      paths: of the files, or URLs.
      items_of: returns the items of records of a file, by their numbers there; shape (n,).

    Raises:
      InvalidArgument: if a name is that of no file or of several.
    """
    if not records.named:
        return AtPlaces.of(records.below(length))
    found = [items_of(number, part) for number, part in records_of_files(records, paths)]
    return AtPlaces.of(np.concatenate([*found, NO_INDICES]))


def records_of_files(records: Records, paths: Sequence[str]) -> Iterator[tuple[int, Records]]:
    """The number of each file that has ``records`` by its name, and these.

    Raises:
      InvalidArgument: as `left_out_of_files`.
    """
    # There may be many files and many names.
    by_last_part = defaultdict[str, list[int]](list)
    for number, path in enumerate(paths):
        by_last_part[_last_part(path)].append(number)
    for name, part in records.named.items():
        ends = dict.fromkeys((_last_part(name), _last_part(public_name(name))))
        same_end = [number for end in ends for number in by_last_part.get(end, ())]
        named = [number for number in same_end if is_named(paths[number], name)]
        if not named and records.may_lack:
            continue
        if len(named) != 1:
            are = f"{len(named)} files are" if named else "no file is"
            raise InvalidArgument(
                f"records must name a file by its path, or by an end of it that no other has, but {are} called "
                f"{public_name(name)!r} among {shorten([paths[number] for number in named] or list(paths))}"
            )
        yield named[0], part


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def is_named(path: str, name: str) -> bool:
    """Whether ``name`` is that of the file at ``path``: the path, or the end of it."""
    named = (name, public_name(name))
    return path in named or any(path.endswith(f"/{one.lstrip('/')}") for one in named)
