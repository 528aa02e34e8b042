"""Decode the nested values of LitData: JSON, or LitData's binary form."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...errors import MalformedItem
from .. import decoders

JSON, STRINGS, INTEGERS, FLOATS, BOOLEANS, DICT, RECORDS = range(7)
STRING, INTEGER, FLOAT, BOOLEAN, NOTHING = range(7, 12)
"""First bytes of values. The first bytes of JSON, a bracket or a brace, are larger."""

LARGEST_TAG: Final = 0x20
IN_RECORDS: Final = {0x10: NOTHING, 0x11: STRING, 0x12: INTEGER, 0x13: FLOAT, 0x14: BOOLEAN}
DEEPEST: Final = 200


def nested_value(data: bytes) -> Any:
    """The value in ``data``.

    Raises:
      MalformedItem: if ``data`` are damaged.
    """
    if not data or data[0] > LARGEST_TAG:
        return decoders.json(data)
    reader = _Reader(data)
    value = reader.value(reader.byte(), 0)
    reader.check_ended()
    return value


class _Reader:
    """Reads values one after another; each method raises `MalformedItem` beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def check_ended(self) -> None:
        if self._offset != len(self._data):
            raise MalformedItem(f"the value ends at byte {self._offset} of {len(self._data)}")

    def byte(self) -> int:
        return self._take(1)[0]

    def value(self, tag: int, depth: int) -> Any:
        """The value whose first byte was ``tag``."""
        if depth > DEEPEST:
            raise MalformedItem(f"values are nested deeper than {DEEPEST} levels")
        if tag == DICT:
            return {
                self._string(): self.value(self.byte(), depth + 1) for _ in range(self._count(5))
            }
        read = self._readers().get(tag)
        if read is None:
            raise MalformedItem(f"no value begins with byte {tag}, at byte {self._offset - 1}")
        return read()

    def _readers(self) -> dict[int, Callable[[], Any]]:
        return {
            JSON: lambda: decoders.json(self._take(self._number())),
            STRINGS: lambda: [self._string() for _ in range(self._count(4))],
            INTEGERS: lambda: self._array("<i8"),
            FLOATS: lambda: self._array("<f8"),
            BOOLEANS: lambda: [byte != 0 for byte in self._take(self._number())],
            RECORDS: self._records,
            STRING: self._string,
            INTEGER: lambda: struct.unpack("<q", self._take(8))[0],
            FLOAT: lambda: struct.unpack("<d", self._take(8))[0],
            BOOLEAN: lambda: self.byte() != 0,
            NOTHING: lambda: None,
        }

    def _records(self) -> list[dict[str, Any]]:
        """Dicts with the same keys."""
        rows = self._number()
        keys = [self._string() for _ in range(self._count(4))]
        if rows * max(len(keys), 1) > len(self._data) - self._offset:
            raise MalformedItem(f"it has {len(self._data)} bytes, too few for {rows} dicts")
        return [{key: self._of_record() for key in keys} for _ in range(rows)]

    def _of_record(self) -> Any:
        tag = self.byte()
        if tag not in IN_RECORDS:
            raise MalformedItem(
                f"no value of a dict begins with byte {tag}, at byte {self._offset - 1}"
            )
        return self.value(IN_RECORDS[tag], 0)

    def _array(self, dtype: str) -> list[Any]:
        values: list[Any] = np.frombuffer(self._take(8 * self._number()), dtype).tolist()
        return values

    def _string(self) -> str:
        return decoders.text(self._take(self._number()))

    def _count(self, least: int) -> int:
        """A count of values with at least ``least`` bytes each."""
        count = self._number()
        if count * least > len(self._data) - self._offset:
            raise MalformedItem(f"it has {len(self._data)} bytes, too few for {count} values")
        return count

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def _take(self, size: int) -> bytes:
        end = self._offset + size
        if end > len(self._data):
            raise MalformedItem(f"it has {len(self._data)} bytes, and a value ends at byte {end}")
        self._offset, begin = end, self._offset
        return self._data[begin:end]
