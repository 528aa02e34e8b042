"""Consecutive items of a map in work, and their outcome."""

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
      positions: position of the upstream after each item, if the upstream is a stream.
      deaths: of workers with these items in work.
      answer: the outcome to come, once the items are submitted.
      outcome: the outcome, once awaited.
      failure: the error of the first item, raised before the item is tried again.
      passed: number of items handed out or dropped.
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
        """Number of items not passed."""
        return block_length(self.block) - self.passed

    def item(self, number: int) -> Any:
        """Item ``number`` of the chunk."""
        return block_items(slice_block(self.block, number, number + 1))[0]

    def part(self, start: int, stop: int) -> Chunk:
        """The items from ``start`` to ``stop`` as a new chunk, not submitted."""
        block = slice_block(self.block, start, stop)
        return Chunk(block, self.positions[start:stop], self.deaths)

    def rest(self) -> Chunk:
        """The items not passed as a new chunk, not submitted."""
        return self.part(self.passed, block_length(self.block))
