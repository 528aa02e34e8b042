"""Records that are named by their file and their number there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.block import Indices
from ..core.left_out import AtPlaces
from ..core.records import Records
from ..errors import InvalidArgument, shorten


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
    found = [records.below(length)] if not records.named else []
    for name, part in records.named.items():
        named = [number for number, path in enumerate(paths) if _is_named(path, name)]
        if not named and records.may_lack:
            continue
        if len(named) != 1:
            are = f"{len(named)} files are" if named else "no file is"
            raise InvalidArgument(
                f"records must name a file by its path, or by an end of it that no other has, but {are} called "
                f"{name!r} among {shorten([paths[number] for number in named] or list(paths))}"
            )
        found.append(items_of(named[0], part))
    return AtPlaces.of(np.concatenate([*found, np.empty(0, np.int64)]))


def _is_named(path: str, name: str) -> bool:
    return path == name or path.endswith(f"/{name.lstrip('/')}")
