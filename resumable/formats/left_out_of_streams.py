"""Records of a stream of files to leave out, each from some item on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..core.records import Records
from .named_files import records_of_files


class _Excluded(NamedTuple):
    """The records to leave out from some item on.

    Attributes:
      items: by their numbers among the items of all files, ascending; shape (n,).
      of_files: the records of each file, by the number of the file, ascending.
    """

    items: Indices
    of_files: Mapping[int, Indices]

    @classmethod
    def of(cls, records: Records, paths: Sequence[str]) -> _Excluded:
        if not records.named:
            return cls(records.below(math.inf), {})
        found = records_of_files(records, paths)
        return cls(NO_INDICES, {file: one.below(math.inf, paths[file]) for file, one in found})

    def among(self, file: int, numbers: Sequence[int], first: int) -> Indices:
        """The places of the records to leave out among consecutive records, ascending; shape (n,).

        Args:
          file: the number of the records' file.
          numbers: of the records in the file, from 1.
          first: the number of the first record among the items of all files.
        """
        if file not in self.of_files:
            return _between(self.items, first, first + len(numbers)) - first
        named = _between(self.of_files[file], numbers[0] - 1, numbers[-1])
        return np.flatnonzero(np.isin(numbers, named + 1)) if len(named) else named


@final
class LeftOutOfStream:
    """Records of a stream of files that are left out.

    Args:
      records: to leave out, by the item from which on; only remaining items count.
      paths: of the files, or URLs.

    Raises:
      InvalidArgument: if a name matches no file or several.
    """

    def __init__(self, records: Mapping[int, Records], paths: Sequence[str]) -> None:
        self._firsts = list(records)
        self._parts = [_Excluded.of(each, paths) for each in records.values()]

    def remaining(
        self, file: int, numbers: Sequence[int], first: int, handed_out: int
    ) -> list[int] | None:
        """The places of the remaining records among consecutive records; None if all remain.

        Args:
          file: the number of the records' file.
          numbers: of the records in the file, from 1.
          first: the number of the first record among the items of all files.
          handed_out: how many items remain before the first record.
        """
        kept, start = list[int](), 0
        part = bisect_right(self._firsts, handed_out) - 1
        while start < len(numbers):
            left_out = self._parts[part].among(file, numbers[start:], first + start) + start
            following = self._firsts[part + 1] if part + 1 < len(self._firsts) else math.inf
            if not kept and not len(left_out) and len(numbers) <= following - handed_out:
                return None
            remain = np.ones(len(numbers) - start, np.bool_)
            remain[left_out - start] = False
            places: list[int] = (np.flatnonzero(remain) + start).tolist()
            if len(places) < following - handed_out:
                return kept + places
            # The next part decides about all records after the last item of this part.
            kept += places[: int(following) - handed_out]
            start, handed_out, part = kept[-1] + 1, int(following), part + 1
        return kept


def _between(ascending: Indices, first: int, stop: int) -> Indices:
    begin, end = np.searchsorted(ascending, [first, stop]).tolist()
    return ascending[begin:end]
