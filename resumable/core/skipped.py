"""How many items the stages of a running pipeline have dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .graph import walk
from .stage import Stage
from .stage_iterator import StageIterator


def skipped_items(stage: Stage[Any], root: StageIterator[Any]) -> dict[str, int]:
    """How many items each stage that may drop some has dropped so far in this pass, by its path.

    These are the stages whose iterator has a count ``skipped``. Of several inputs that are read one
    after another, only those being read are included. Iterators of a stage that stands in several
    places get its paths in order. Before a prefetch a stage counts what the thread has read.

    Args:
      stage: the last stage of the pipeline.
      root: its iterator.
    """
    paths: defaultdict[int, list[str]] = defaultdict(list)  # a stage may stand in several places
    for found, path in walk(stage):
        paths[id(found)].append(path)
    skipped = {}
    for iterator in iterators(root):
        count = getattr(iterator, "skipped", None)
        if count is not None:
            skipped[paths[id(iterator._stage)].pop(0)] = count  # type: ignore[attr-defined]
    return skipped


def iterators(root: StageIterator[Any]) -> Iterator[StageIterator[Any]]:
    """``root`` and all iterators that it reads, in the order of `walk`."""
    yield root
    for upstream in root.inputs:
        yield from iterators(upstream)
