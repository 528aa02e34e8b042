"""Columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """``rows`` as lines with a column below the other.

    Args:
      rows: of the same number of cells, the heading first.
      alignment: ``<`` or ``>`` for each column but the last, which is as long as it is.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(alignment))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:{side}{width}}"
            for cell, side, width in zip(row, alignment, widths, strict=False)
        ]
        lines.append("  ".join([*cells, *row[len(alignment) :]]).rstrip())
    return lines
