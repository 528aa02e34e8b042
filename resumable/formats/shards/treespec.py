"""Rebuild the structure of LitData's items from leaves: nested dicts, lists and tuples."""

# The description of a structure is that of PyTorch (`torch.utils._pytree.treespec_dumps`): JSON with
# a version, and the type, the context and the children of each node.

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from ...errors import InvalidArgument, MalformedItem, shorten
from .. import decoders
from .index_json import IndexPart

Tree: TypeAlias = Callable[[Iterator[Any]], Any]
"""Takes leaves, in order, and returns the item."""

VERSION: Final = 1
DEEPEST: Final = 100


def tree_of(config: IndexPart, leaves: int) -> Tree:
    """The structure described by a ``config``, with a number of ``leaves``.

    Raises:
      MalformedItem: if ``config`` describes no structure, or another number of leaves.
      InvalidArgument: if the structure has nodes of an unsupported type.
    """
    value = _json(config, "data_spec", "data_spec")
    if not isinstance(value, list) or len(value) != 2 or value[0] != VERSION:
        raise config.refused(f"data_spec must be [{VERSION}, structure], got {shorten(value)}")
    tree, found = _node(IndexPart(config.file, value[1], "data_spec"), 0)
    if found != leaves:
        raise config.refused(f"data_spec must have {leaves} leaves, as data_format, got {found}")
    return tree


def _node(part: IndexPart, depth: int) -> tuple[Tree, int]:
    """The node described by ``part``, and the number of its leaves."""
    if depth > DEEPEST:
        raise part.refused(f"data_spec must be at most {DEEPEST} levels deep")
    if not part.has("type"):
        return next, 1
    children = [
        _node(IndexPart(part.file, child, "data_spec"), depth + 1)
        for child in part.items("children_spec")
    ]
    trees = [tree for tree, _ in children]
    values = _values_of(trees)
    kind = part.text("type")
    context = _json(part, "context", "data_spec.context") if part.has("context") else None
    if kind == "builtins.list":
        tree: Tree = lambda leaves: list(values(leaves))  # noqa: E731
    elif kind == "builtins.tuple":
        tree = lambda leaves: tuple(values(leaves))  # noqa: E731
    elif kind in ("builtins.dict", "collections.OrderedDict"):
        keys = _keys(part, context, len(trees))
        make = dict if kind == "builtins.dict" else OrderedDict
        tree = lambda leaves: make(zip(keys, values(leaves), strict=True))  # noqa: E731
    elif kind == "collections.deque":
        if context is not None and (not isinstance(context, int) or context < len(trees)):
            raise part.refused(f"a deque of {len(trees)} values must hold as many, got {context!r}")
        tree = lambda leaves: deque(values(leaves), context)  # noqa: E731
    else:
        raise InvalidArgument(
            f"{part.file}: items hold values of the type {kind!r}, which are not read; dicts, "
            "OrderedDicts, lists, tuples and deques are"
        )
    return tree, sum(count for _, count in children)


def _values_of(trees: list[Tree]) -> Callable[[Iterator[Any]], Iterable[Any]]:
    """A function that makes the values of a node, a value of each tree."""
    count = len(trees)
    if all(tree is next for tree in trees):
        return lambda leaves: islice(leaves, count)
    return lambda leaves: [tree(leaves) for tree in trees]


def _json(part: IndexPart, name: str, shown: str) -> Any:
    """The JSON in the member ``name`` of ``part``; errors call the member ``shown``."""
    try:
        return decoders.json(part.text(name).encode("utf-8", "replace"))
    except MalformedItem as error:
        raise part.refused(f"{shown}: {error}") from None


def _keys(part: IndexPart, context: Any, count: int) -> list[Any]:
    kinds = (str, int, float, bool, type(None))
    if (
        not isinstance(context, list)
        or len(context) != count
        or not all(isinstance(key, kinds) for key in context)
        or len(set(context)) != count
    ):
        raise part.refused(
            f"a dict of {count} values must have as many keys, got {shorten(context)}"
        )
    return context
