"""Whether a stage delivers the same, however many items it is asked for at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from ..core.block import block_items, block_length
from ..core.graph import cut_after, walk, without_threads
from ..core.iterator import PipelineIterator
from ..core.stage import Stage
from ..pipeline import Pipeline
from . import reasons
from .digest import item_digest
from .flow import is_the_users
from .processes import ProcessTask, TaskProcesses
from .report import Finding
from .runs import Watch, text_of
from .work import Work

SIZES: Final = (2, 1, 7, 3)
"""Sizes of the blocks that are pulled, one after the other."""
NOTHING: Final = "nothing"
PULLED: Final = 200
"""Items of a stage that are pulled."""


def check_pulls(stage: Stage[Any], workers: TaskProcesses) -> Finding | str | None:
    """Pull the stages of the user one by one and in blocks.

    Returns what is wrong, or a text that says why it could not be checked.
    """
    stages = [*walk(stage)]
    mine = [number for number, (found, _) in enumerate(stages) if is_the_users(found)]
    if not mine:
        return None
    outcome = workers.run(ProcessTask(Pulled(tuple(reversed(mine)), PULLED)))
    if outcome.result is None:
        return outcome.error
    seen: Unlike = outcome.result
    found, path = stages[seen.stage]
    return Finding.of(
        reasons.DEPENDS_ON_PULLS, found, path, item=seen.item, expected=seen.singly, got=seen.pulled
    )


class Unlike(NamedTuple):
    """An item that is another one in a block: its stage, its number, and how it came in both ways."""

    stage: int
    item: int
    singly: str
    pulled: str


@final
@dataclass(frozen=True)
class Pulled(Work):
    """Run pipelines that end with the stages ``numbers`` one by one and in blocks.

    Gives the first `Unlike` among the first ``most`` items of each; None if there is none.
    """

    numbers: tuple[int, ...]
    most: int

    def do(self, stage: Stage[Any], watch: Watch) -> Unlike | None:
        for number in self.numbers:
            pipeline: Pipeline[Any] = Pipeline(without_threads(cut_after(stage, number)))
            with iter(pipeline) as iterator:
                singly = [*itertools.islice(iterator, self.most)]
            with iter(pipeline) as iterator:
                pulled = [*itertools.islice(_pulled(iterator), self.most)]
            pairs = itertools.zip_longest(singly, pulled, fillvalue=NOTHING)
            for item, (one, other) in enumerate(pairs):
                if item_digest(one) != item_digest(other):
                    return Unlike(number, item, text_of(one), text_of(other))
        return None


def _pulled(iterator: PipelineIterator[Any]) -> Iterator[Any]:
    """The items of blocks of several sizes."""
    for size in itertools.cycle(SIZES):
        block = iterator.pull(size)
        yield from block_items(block)
        if block_length(block) < size:
            return
