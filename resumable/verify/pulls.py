"""Check that a stage delivers the same items for any number pulled at once."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ..core.graph import cut_after, walk, without_threads
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..testing.comparing import ItemsDiffer
from ..testing.laws import next_and_pull_may_be_mixed
from . import reasons
from .experiments import Seen, result_of
from .flow import is_the_users
from .processes import TaskProcesses
from .runs import Watch, text_of

SIZES: Final = (2, 1, 7, 3)
"""Sizes of the blocks that are pulled, one after the other."""
PULLED: Final = 200
"""Items of a stage that are pulled."""


def check_pulls(stage: Stage[Any], workers: TaskProcesses) -> tuple[int, Seen] | None:
    """Pull the user's stages item by item and in blocks; the first stage that differs, and how.

    Raises:
      Unchecked: if the stages could not be pulled.
    """
    mine = [number for number, (found, _) in enumerate(walk(stage)) if is_the_users(found)]
    if not mine:
        return None
    work = partial(pulled, numbers=tuple(reversed(mine)))
    found: tuple[int, Seen] | None = result_of(workers.run(work))
    return found


def pulled(
    stage: Stage[Any], watch: Watch, *, numbers: tuple[int, ...], most: int = PULLED
) -> tuple[int, Seen] | None:
    """Run pipelines that end with the stages ``numbers``, item by item and in blocks.

    Gives the first difference among the first ``most`` items of each; None if all agree.
    """
    for number in numbers:
        pipeline: Pipeline[Any] = Pipeline(without_threads(cut_after(stage, number)))
        try:
            next_and_pull_may_be_mixed(pipeline, SIZES, most, singly=0)
        except ItemsDiffer as found:
            expected, got = text_of(found.expected), text_of(found.got)
            return number, Seen(found.number, expected, got, reason=reasons.DEPENDS_ON_PULLS)
    return None
