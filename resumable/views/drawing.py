"""A tree in text, with columns on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

N = TypeVar("N")


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
