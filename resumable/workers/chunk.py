"""Consecutive items of a map in work, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.block import Block, block_items, block_length, slice_block
from .after_item import AfterItem
from .answers import Job
from .chunk_work import Outcome
from .failure import Failure
from .worker_deaths import Deaths


@dataclass
class Chunk:
    """Consecutive items in the window.

    Attributes:
      positions: upstream's position after each item, where it is a stream.
      deaths: of workers that had these items in work.
      answer: the outcome to come, once the items are submitted.
      outcome: once it has been waited for.
      failure: the error of the first item, to be raised before it is tried again.
      passed: how many of the items were handed out or dropped.
    """

    block: Block
    positions: list[AfterItem]
    deaths: Deaths
    answer: Job[Outcome] | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    passed: int = 0

    @property
    def left(self) -> int:
        """How many of the items were not passed."""
        return block_length(self.block) - self.passed

    def item(self, number: int) -> Any:
        """One of the items."""
        return block_items(slice_block(self.block, number, number + 1))[0]

    def part(self, start: int, stop: int) -> Chunk:
        """The items from ``start`` to ``stop`` as a chunk that is not submitted."""
        block = slice_block(self.block, start, stop)
        return Chunk(block, self.positions[start:stop], self.deaths)

    def rest(self) -> Chunk:
        """The items that were not passed, as a chunk that is not submitted."""
        return self.part(self.passed, block_length(self.block))
