"""Columns of text, and trees with columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

N = TypeVar("N")


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


def draw_tree(
    root: N, inner: Callable[[N], Sequence[N]], row: Callable[[N], tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """A row for each node, with the first cell drawn as a branch of the tree.

    Args:
      root: the node on top.
      inner: the nodes below a node.
      row: the cells of a node, the label first.
    """
    label, *cells = row(root)
    rows = [(label, *cells)]
    below = inner(root)
    for number, node in enumerate(below, start=1):
        first, rest = ("└─ ", "   ") if number == len(below) else ("├─ ", "│  ")
        for line in draw_tree(node, inner, row):
            rows.append((first + line[0], *line[1:]))
            first = rest
    return rows
