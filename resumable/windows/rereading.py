"""The items of upstream that a resumed window makes again."""

# Up to 9 * window + 256 items follow the snapshot, and only the items in the window are needed.
# Passing over the rest calls no function, but each change between making and passing over has a
# cost.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..core.block import Indices
from ..core.graph import walk
from ..core.indexed import Indexed
from ..core.stage import Stage, runs_ahead
from ..core.stage_iterator import StageIterator

LARGEST_GROUP: Final = 4096


def looked_up(upstream: Stage[Any], epoch: int) -> Indexed[Any] | None:
    """The items of ``upstream`` by number, unless threads or workers are to make them."""
    if any(runs_ahead(stage) for stage, _ in walk(upstream)):
        return None
    return upstream.indexed(epoch)


def most_unneeded(upstream: Stage[Any], moving: StageIterator[Any], window: int) -> int | None:
    """How many items outside the window may be made again; None for any number.

    A tenth of the window where passing over saves calls of a user function. Elsewhere making items
    costs as little.
    """
    # An iterator without its own `skip` makes the items passed over.
    passes_over = type(moving).skip is not StageIterator.skip
    # The function of a source is its data.
    calls = any(stage.inputs and stage.user_functions for stage, _ in walk(upstream))
    return window // 10 if passes_over and calls else None


def groups(numbers: Indices, unneeded: int | None) -> list[tuple[int, int]]:
    """Cut ascending ``numbers`` into groups, each read at once, from first to last.

    Args:
      numbers: of the needed items, shape (n,).
      unneeded: how many other items all groups together may include; None for any number.

    Returns:
      where each group begins and ends in ``numbers``.
    """
    gaps = np.diff(numbers) - 1
    cut = np.diff(numbers // LARGEST_GROUP) > 0
    if unneeded is not None:
        shortest = np.argsort(gaps, kind="stable")
        cut[shortest[np.cumsum(gaps[shortest]) > unneeded]] = True
    inner = (np.flatnonzero(cut) + 1).tolist()
    ends = [*inner, len(numbers)] if len(numbers) else []
    return list(zip([0, *inner], ends, strict=False))
