"""What the rows that documents are packed into consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np

from ..core.arguments import check_int
from ..core.block import Indices
from ..errors import InvalidArgument, InvalidType, shorten
from .filling import Padding

RowLength: TypeAlias = "int | Mapping[str, int]"

SEGMENT_IDS: Final = "segment_ids"
POSITIONS: Final = "positions"
LONGEST: Final = 2**31 - 1  # positions are int32


@final
@dataclass(frozen=True)
class Capacity:
    """How many tokens of some fields a row has.

    Args:
      length: tokens in a row.
      field: the only field; None for all fields, whose lengths then are equal in each document.
    """

    length: int
    field: str | None = None

    @property
    def segment_ids(self) -> str:
        """The name of what numbers the documents."""
        return SEGMENT_IDS if self.field is None else f"{self.field}_{SEGMENT_IDS}"

    @property
    def positions(self) -> str:
        """The name of what counts the tokens of each."""
        return POSITIONS if self.field is None else f"{self.field}_{POSITIONS}"


@final
@dataclass(frozen=True)
class RowFormat:
    """The capacities of a row, of which there are one or more, and its padding."""

    capacities: tuple[Capacity, ...]
    pad: Padding = 0

    @classmethod
    def of(cls, length: RowLength, pad: Padding) -> RowFormat:
        """That of rows of ``length``, which `check_length` has returned."""
        if isinstance(length, Mapping):
            return cls(tuple(Capacity(most, field) for field, most in length.items()), pad)
        return cls((Capacity(length),), pad)

    @property
    def fields(self) -> list[str] | None:
        """The fields that have capacities of their own; None if all share one."""
        names = [capacity.field for capacity in self.capacities if capacity.field is not None]
        return names or None

    @property
    def lengths(self) -> Indices:
        """Of a row, shape (capacities,)."""
        return np.array([capacity.length for capacity in self.capacities], np.int64)


def check_length(length: Any) -> RowLength:
    """Return ``length`` with integers of Python, and names in alphabetical order.

    Raises:
      InvalidType: if it is neither an integer nor a mapping of names to integers.
      InvalidArgument: if a length is out of its range, or names are none, or are those of what is added.
    """
    if not isinstance(length, Mapping):
        return check_int("length", length, minimum=1, maximum=LONGEST)
    if not length:
        raise InvalidArgument("length must have one or more fields, got {}")
    for name in length:
        if not isinstance(name, str):
            raise InvalidType(f"fields of length must be strings, got {shorten(name)}")
    checked = {
        name: check_int(f"length[{name!r}]", length[name], minimum=1, maximum=LONGEST)
        for name in sorted(length)
    }
    for name in checked:
        for added in (Capacity(1, name).segment_ids, Capacity(1, name).positions):
            if added in checked:
                raise InvalidArgument(
                    f"length must not have the field {added!r}, which pack adds for {name!r}, "
                    f"got {shorten(checked)}"
                )
    return checked
