"""Report the items dropped by workers to the loop."""

# A function `on_skip` of the user stays with the loop: the function may note numbers in a list, and
# a worker in another process would fill a copy of the list. In the worker, a `SkipRecorder`
# replaces the function.

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from ..core.graph import rebuilt, walk
from ..core.stage import Stage
from .failure import Failure
from .tally import MayDropItems, takes_item


class DroppedItem(NamedTuple):
    """An item dropped by a worker.

    Attributes:
      stage: number of the stage in the order of `walk`.
      number: of the item, the argument of ``on_skip``.
      failure: error of the item.
      item: the item; None if ``on_skip`` does not take the item.
    """

    stage: int
    number: int
    failure: Failure
    item: Any


@final
@dataclass(eq=False)
class SkipRecorder:
    """Replaces a function ``on_skip`` on the way to a worker, and records dropped items there.

    Attributes:
      stage: number of the stage in the order of `walk`.
      takes_item: whether the function takes the item.
      skips: the recorded items.
    """

    stage: int
    takes_item: bool
    skips: list[DroppedItem] = field(default_factory=list)

    def __call__(self, number: int, error: Exception, item: Any) -> None:
        kept = item if self.takes_item else None
        self.skips.append(DroppedItem(self.stage, number, Failure(error), kept))


def without_listeners(stage: Stage[Any]) -> Stage[Any]:
    """The same pipeline without the functions ``on_skip`` of the user, for workers."""
    return _with_on_skip(stage, lambda number, on_skip: SkipRecorder(number, takes_item(on_skip)))


def with_recorders(stage: Stage[Any], skips: list[DroppedItem]) -> Stage[Any]:
    """``stage`` from `without_listeners`, in a worker; dropped items are recorded in ``skips``."""
    return _with_on_skip(stage, lambda _, recorder: dataclasses.replace(recorder, skips=skips))


def _with_on_skip(stage: Stage[Any], change: Callable[[int, Any], Any]) -> Stage[Any]:
    """``stage`` with each ``on_skip`` replaced by ``change(number of the stage, on_skip)``."""

    def changed(number: int, found: Stage[Any]) -> Stage[Any]:
        if not isinstance(found, MayDropItems) or found.on_skip is None:
            return found
        stage: Any = found  # `on_skip` is a field of the subclasses
        new: Stage[Any] = dataclasses.replace(stage, on_skip=change(number, found.on_skip))
        return new

    return rebuilt(stage, changed)


def report_skips(stage: Stage[Any], skips: Sequence[DroppedItem]) -> None:
    """Call the functions ``on_skip`` in the pipeline up to ``stage``."""
    stages = [found for found, _ in walk(stage)]
    for skip in skips:
        found = stages[skip.stage]
        error: Any = skip.failure.error
        if isinstance(found, MayDropItems) and found.skip_listener is not None:
            found.skip_listener(skip.number, error, skip.item)
