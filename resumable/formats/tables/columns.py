"""Check which columns of a table to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...core.identity import ALWAYS, IdentityField
from ...errors import InvalidArgument, InvalidType, shorten

NAMES: Final = IdentityField(
    ALWAYS,
    shown_as="columns",
    hint="were inputs renamed, added, removed or put in another order?",
)


def checked_columns(columns: Any) -> tuple[str, ...] | None:
    """``columns`` as a tuple of names, at least one, or None for all columns.

    Raises:
      InvalidArgument: if ``columns`` are empty, or repeat a name.
      InvalidType: if ``columns`` are no list of names.
    """
    if columns is None:
        return None
    if isinstance(columns, (list, tuple)) and all(isinstance(name, str) for name in columns):
        if not columns:
            raise InvalidArgument("columns must name at least one column, got none")
        if len(set(columns)) < len(columns):
            raise InvalidArgument(f"columns must be different, got {shorten(columns)}")
        return tuple(columns)
    raise InvalidType(f"columns must be a list of names, got {shorten(columns)}")


def check_names(path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Check that ``names``, the columns at ``path``, contain each of the ``wanted`` columns once.

    Raises:
      InvalidArgument: if a column is missing or repeated, or ``wanted`` is empty.
    """
    names = list(names)
    for name in wanted:
        if name not in names:
            raise InvalidArgument(
                f"columns must be in every file, got {name!r}, which {path} lacks: it has "
                f"{shorten(names)}"
            )
        if names.count(name) > 1:
            raise InvalidArgument(
                f"columns must have different names, got {name!r} twice in {path}"
            )
    if not wanted:
        raise InvalidArgument(f"files must have at least one column, got {path} without any")
