"""A tree in text, with columns to its right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

N = TypeVar("N")


def draw_tree(
    root: N, inner: Callable[[N], Sequence[N]], row: Callable[[N], tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """A row for each node, its first cell drawn as a branch of the tree.

    Args:
      root: the node on top.
      inner: the nodes below a node.
      row: the cells of a node, the first one its label.
    """
    return list(_rows(root, inner, row, "", ""))


def _rows(
    node: N,
    inner: Callable[[N], Sequence[N]],
    row: Callable[[N], tuple[str, ...]],
    first: str,
    rest: str,
) -> Iterator[tuple[str, ...]]:
    label, *cells = row(node)
    yield (first + label, *cells)
    below = inner(node)
    for number, child in enumerate(below, start=1):
        last = number == len(below)
        yield from _rows(
            child, inner, row, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")
        )
