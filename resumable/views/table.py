"""Columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def table_lines(rows: Sequence[Sequence[str]], alignment: str, indent: str = "") -> list[str]:
    """``rows`` as lines of text with aligned columns.

    Args:
      rows: the heading first, all with the same number of cells.
      alignment: ``<`` or ``>`` for each column except the last, which is not padded.
      indent: the beginning of each line.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(alignment))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:{side}{width}}"
            for cell, side, width in zip(row, alignment, widths, strict=False)
        ]
        lines.append((indent + "  ".join([*cells, *row[len(alignment) :]])).rstrip())
    return lines
