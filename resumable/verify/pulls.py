"""Check that a stage delivers the same items for any number pulled at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from ..core.graph import cut_after, walk, without_threads
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..testing.comparing import ItemsDiffer
from ..testing.laws import next_and_pull_may_be_mixed
from . import reasons
from .experiments import Seen, result_of
from .flow import is_the_users
from .processes import ProcessTask, TaskProcesses
from .runs import Watch, text_of
from .work import Work

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
    work = Pulled(tuple(reversed(mine)), PULLED)
    found: tuple[int, Seen] | None = result_of(workers.run(ProcessTask(work)))
    return found


@final
@dataclass(frozen=True)
class Pulled(Work):
    """Run pipelines that end with the stages ``numbers``, item by item and in blocks.

    Gives the first difference among the first ``most`` items of each; None if all agree.
    """

    numbers: tuple[int, ...]
    most: int

    def do(self, stage: Stage[Any], watch: Watch) -> tuple[int, Seen] | None:
        for number in self.numbers:
            pipeline: Pipeline[Any] = Pipeline(without_threads(cut_after(stage, number)))
            try:
                next_and_pull_may_be_mixed(pipeline, SIZES, self.most, singly=0)
            except ItemsDiffer as found:
                expected, got = text_of(found.expected), text_of(found.got)
                return number, Seen(found.number, expected, got, reason=reasons.DEPENDS_ON_PULLS)
        return None
