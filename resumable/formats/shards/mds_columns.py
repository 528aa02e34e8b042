"""Decode the samples of MDS: the columns of a shard."""

# A sample has the sizes (little-endian, uint32) of its columns without a fixed size, and then the
# values of all columns.

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from ...errors import InvalidArgument, MalformedItem
from .decoding import check_reaches, pickle_refused, raise_where
from .index_json import IndexPart
from .mds_encodings import Encoding, encoding_of


class SampleColumn(NamedTuple):
    """A column of the samples.

    Attributes:
      name: the key in the dict.
      encoding: of the values.
    """

    name: str
    encoding: Encoding


@final
class Columns:
    """The columns of the samples of a shard.

    Args:
      columns: in the order of the values.
    """

    def __init__(self, columns: Sequence[SampleColumn]) -> None:
        self._columns = columns
        varying = sum(column.encoding.size is None for column in columns)
        self._sizes = struct.Struct(f"<{varying}I")

    @classmethod
    def of(cls, part: IndexPart, allow_pickle: bool) -> Columns:
        """The columns described by a ``part`` of an index.

        Raises:
          MalformedItem: if ``part`` does not describe columns.
          InvalidArgument: if a column has an unsupported encoding.
        """
        names, encodings = part.texts("column_names"), part.texts("column_encodings")
        sizes = part.items("column_sizes")
        if not len(names) == len(encodings) == len(sizes):
            raise part.refused(
                f"{part.place} must have a name, an encoding and a size for each column, got "
                f"{len(names)}, {len(encodings)} and {len(sizes)}"
            )
        columns = []
        for name, text, size in zip(names, encodings, sizes, strict=True):
            encoding = encoding_of(text)
            if encoding is None:
                raise InvalidArgument(
                    f"{part.file}: column {name!r} has the encoding {text!r}, which is not known"
                )
            if encoding.is_pickle and not allow_pickle:
                raise pickle_refused(f"{part.file}: column {name!r} is pickled")
            if (size or None) != encoding.size or isinstance(size, (bool, float)):
                raise part.refused(
                    f"the size of column {name!r} must be {encoding.size} by its encoding {text!r}, "
                    f"got {size!r}"
                )
            columns.append(SampleColumn(name, encoding))
        return cls(columns)

    def sample(self, record: bytes) -> dict[str, Any]:
        """The values in ``record``, by the names of the columns.

        Raises:
          MalformedItem: if ``record`` is damaged.
          MissingDependency: if the package for images is not installed.
        """
        place = self._sizes.size
        check_reaches(place, record, "the sizes of its columns")
        sizes = iter(self._sizes.unpack_from(record))
        found: dict[str, Any] = {}
        for name, (size, decode, _) in self._columns:
            end = place + (next(sizes) if size is None else size)
            if end > len(record):
                raise MalformedItem(f"column {name!r} ends at byte {end} of {len(record)}")
            try:
                found[name] = decode(record[place:end])
            except Exception as error:
                raise_where(error, f"column {name!r}")
            place = end
        if place != len(record):
            raise MalformedItem(f"its columns have {place} bytes of {len(record)}")
        return found
