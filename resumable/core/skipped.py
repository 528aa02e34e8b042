"""How many items the stages of a running pipeline have dropped."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
        """How many items were dropped in this epoch; None where failing items are not dropped."""


class MovesCopies(StageIterator[T]):
    """Motion over copies of the stages before it."""

    @abstractmethod
    def skipped_in_copies(self, path: str) -> Iterable[Mapping[str, int]]:
        """How many items the copied stages have dropped, by their paths, which begin with ``path``."""


def skipped_items(
    stage: Stage[Any], root: StageIterator[Any], path: str = "pipeline"
) -> dict[str, int]:
    """How many items each stage that may drop some has dropped so far in this epoch, by its path.

    These are the stages whose iterator `CountsSkipped`. If inputs are read one after another,
    only those being read are included. Iterators of a stage that stands in several places get its
    paths in order. Before a prefetch a stage counts what the thread has read. If a stage runs copies
    of the stages before it, the counts of all copies are added.

    Args:
      stage: the last stage of the pipeline.
      root: its iterator.
      path: that of ``stage``.
    """
    paths: defaultdict[int, list[str]] = defaultdict(list)  # a stage may stand in several places
    for found, place in walk(stage, path):
        paths[id(found)].append(place)
    skipped: defaultdict[str, int] = defaultdict(int)

    def count(iterator: StageIterator[Any], place: str) -> None:
        # A stage that goes through its inputs again has several iterators in one place. A copy of a stage, as
        # `exclude` and `by_epoch` make them, has the place of what it is a copy of.
        places = paths.get(id(iterator._stage)) or [place]
        place = places.pop(0) if len(places) > 1 else places[0]
        if isinstance(iterator, MovesCopies):
            for counts in iterator.skipped_in_copies(below(place, (None,), 0)):
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
    """``root`` and all iterators that it reads, in the order of `walk`."""
    yield root
    for upstream in root.inputs:
        yield from iterators(upstream)
