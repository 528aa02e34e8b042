"""The epoch of the item at an index, and the record of its source."""

# No iterator keeps epochs or records: an order is arithmetic, so both are computed when asked for.
# Stages are not imported here, since iterators use these functions.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .relation import Held, Repeated, Routed
from .source_item import SourceItem


class EpochAt(NamedTuple):
    """The epoch of an item.

    Attributes:
      epoch: number of the epoch.
      ascending: whether no later item belongs to an earlier epoch.
    """

    epoch: int
    ascending: bool


def epoch_at(stage: Any, epoch: int, index: int) -> EpochAt | None:
    """The epoch of the item at ``index``, or of its last input; None if all items are in one epoch.

    For a repeat within a repeat, the inner repeat decides.

    Args:
      stage: has random access.
      epoch: epoch of ``stage``.
      index: index of the item.
    """
    found, ascending = None, True
    while (relation := stage.relation(epoch)) is not None and relation.has_epoch_of_input:
        if isinstance(relation, Repeated):
            number = relation.runs.epoch_with(index)
            stage, epoch = relation.inputs(number)
            index -= int(relation.runs.items_before(number))
            found = EpochAt(epoch, ascending)
        else:
            stage, epoch = relation.inputs(0)
            index = relation.last_of(index)
        ascending = ascending and relation.ascending
    return found


def first_epoch(stage: Any, epoch: int) -> int | None:
    """The first epoch of the inputs of at least one item; None if all items are in one epoch."""
    found = None
    while (relation := stage.relation(epoch)) is not None and relation.has_epoch_of_input:
        if isinstance(relation, Repeated):
            stage, epoch = relation.inputs(relation.runs.epoch_with(0))
            found = epoch
        else:
            stage, epoch = relation.inputs(0)
    return found


def record_at(stage: Any, epoch: int, index: int) -> SourceItem | None:
    """The record that the item at ``index`` is made of; None if unknown or several.

    After stages that join inputs: the item of the last joining stage.

    Args:
      stage: has random access.
      epoch: epoch of ``stage``.
      index: index of the item.
    """
    place = index
    while (relation := stage.relation(epoch)) is not None:
        if isinstance(relation, Routed) and len(stage.inputs) > 1:
            return SourceItem(stage, index, place)
        if isinstance(relation, Held):
            return None
        made = relation.inputs_of(np.array([index], np.int64))
        if len(made.indices) > 1:
            return None
        stage, epoch = relation.inputs(0 if made.numbers is None else int(made.numbers[0]))
        index = int(made.indices[0])
    return None if stage.inputs else SourceItem(stage, index, place)
