"""How many items the stages of a running pipeline have dropped."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar

from ..state.saved_pipeline import below
from .graph import walk
from .stage import Stage
from .stage_iterator import StageIterator

T = TypeVar("T")


class CountsSkipped(StageIterator[T]):
    """Motion of a stage that may drop items."""

    @property
    @abstractmethod
    def skipped(self) -> int | None:
        """Number of items dropped in this epoch; None where failing items are not dropped."""


def skipped_items(
    stage: Stage[Any], root: StageIterator[Any], path: str = "pipeline"
) -> dict[str, int]:
    """Number of items dropped so far in this epoch by each stage that may drop items, by its path.

    Counted are stages whose iterator `CountsSkipped`. If inputs are read one after another, only
    the inputs being read are included. Iterators of a stage in several places get the paths of the
    stage in order. Before a prefetch, a stage counts the items read by the thread. If a stage runs
    copies of earlier stages, the counts of all copies are added.

    Args:
      stage: the last stage of the pipeline.
      root: the iterator of ``stage``.
      path: the path of ``stage``.
    """
    paths: defaultdict[int, list[str]] = defaultdict(list)  # a stage may have several places
    for found, place in walk(stage, path):
        paths[id(found)].append(place)
    skipped: defaultdict[str, int] = defaultdict(int)

    def count(iterator: StageIterator[Any], place: str) -> None:
        # A stage that reads its inputs again has several iterators in one place. A copied stage, as
        # made by `exclude` and `by_epoch`, has the place of the original.
        places = paths.get(id(iterator._stage)) or [place]
        place = places.pop(0) if len(places) > 1 else places[0]
        in_copies = iterator._skipped_in_copies(below(place, (None,), 0))
        if in_copies is not None:
            for counts in in_copies:
                for inner, number in counts.items():
                    skipped[inner] += number
            return
        if isinstance(iterator, CountsSkipped) and (dropped := iterator.skipped) is not None:
            skipped[place] += dropped
        inputs = iterator._stage.inputs if isinstance(iterator._stage, Stage) else ()
        for number, upstream in enumerate(iterator.inputs):
            count(upstream, below(place, inputs or (None,), iterator._first_input + number))

    count(root, path)
    return dict(skipped)


def iterators(root: StageIterator[Any]) -> Iterator[StageIterator[Any]]:
    """``root`` and all iterators before it, in the order of `walk`."""
    yield root
    for upstream in root.inputs:
        yield from iterators(upstream)
