"""Samplers that resume at any sample, with a state of some 100 bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from torch.utils.data import Sampler

from resumable.core.arguments import check_bool, check_int
from resumable.core.epochs import in_epoch

from .cursor import Cursor
from .drawing import DrawsItems
from .place import BatchSize, EpochProgress
from .sample_order import (
    Source,
    as_order,
    check_positions,
    positions_from,
    refuse_given,
    refuse_indices,
    take_list,
)

__all__ = ["ResumableBatchSampler", "ResumableSampler"]

BLOCK: Final = 4096


class ResumableSampler(DrawsItems, Sampler[Any]):
    """Indices of a data set. Each loop is a new epoch and can be resumed at any index.

    A `DataLoader` takes indices from its sampler ahead of the loop. So with a plain `DataLoader`,
    pass the number of consumed samples to `state_dict`; `ResumableDataLoader` counts automatically.

    State: O(1), like the time to resume. No permutation is ever made.

    Args:
      source: a data set (used are its length, and its identity, as of a ``Subset``), a length, or a
        random-access pipeline of indices, such as ``rs.range(n).shuffle(0).shard(rank,
        world_size)``.
      shuffle: whether to go through the indices in the order of ``rs.range(n).shuffle(seed)``, a
        new order in each epoch; not allowed with a pipeline.
      seed: of the order, 0 by default; not allowed with a pipeline.
      with_position: whether to yield pairs ``(index, position)`` with the position of the sample in
        the whole run, for `rng_for`. An endless order has positions in its first epoch only.

    Raises:
      InvalidType: if ``source`` has no length, or is a pipeline without random access.
    """

    def __init__(
        self,
        source: Source,
        *,
        shuffle: bool | None = None,
        seed: int | None = None,
        with_position: bool = False,
    ) -> None:
        self.cursor = Cursor(as_order(source, shuffle, seed))
        self.with_position = check_bool("with_position", with_position)
        if with_position:
            check_positions(self.cursor.pipeline)

    def __iter__(self) -> Iterator[Any]:
        for progress, block in self.draw(BLOCK, self.per_batch):
            progress.drawn += len(block)
            progress.block = iter(block)
            yield from progress.block

    def draw(self, count: int, per_batch: BatchSize) -> Iterator[tuple[EpochProgress, list[Any]]]:
        """The samples of an epoch in lists of up to ``count``, each with the epoch's progress."""
        # The epoch begins with its first sample: torch makes more iterators than it uses.
        progress = self.cursor.begin_drawing(per_batch)
        positions = positions_from(self.cursor) if self.with_position else None
        with self.cursor.states.produce() as producer:
            while taken := take_list(producer, count):
                if positions is not None:
                    taken = list(zip(taken, positions, strict=False))
                yield progress, taken

    def __len__(self) -> int:
        return len(in_epoch(self.cursor.pipeline.stage, self.cursor.epoch))

    @property
    def yielded(self) -> int:
        """Number of samples of this epoch yielded; the loop may have consumed fewer."""
        return self.cursor.progress.yielded


class ResumableBatchSampler(DrawsItems, Sampler[list[Any]]):
    """Batches of indices, for the argument ``batch_sampler`` of a `DataLoader`.

    State: as of the samples, so the batch size may differ after a resume.

    Args:
      source: as for `ResumableSampler`, or a `ResumableSampler`.
      batch_size: number of samples in a batch, at least 1.
      drop_last: whether to leave out a last batch with fewer samples.
      shuffle: as for `ResumableSampler`.
      seed: as for `ResumableSampler`.
    """

    def __init__(
        self,
        source: Source | ResumableSampler,
        batch_size: int,
        drop_last: bool = False,
        *,
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(source, ResumableSampler):
            refuse_given("a sampler", shuffle=shuffle, seed=seed)
            self.sampler = source
        else:
            refuse_indices(source)
            self.sampler = ResumableSampler(source, shuffle=shuffle, seed=seed)
        self.cursor = self.sampler.cursor
        self.batch_size = check_int("batch_size", batch_size, minimum=1)
        self.drop_last = check_bool("drop_last", drop_last)
        self.per_batch = BatchSize(batch_size, batch_size if drop_last else 1)

    def __iter__(self) -> Iterator[list[Any]]:
        for progress, batch in self.sampler.draw(self.batch_size, self.per_batch):
            if len(batch) < self.per_batch.fewest:
                return
            progress.drawn += len(batch)
            yield batch

    def __len__(self) -> int:
        batches, rest = divmod(len(self.sampler), self.batch_size)
        return batches + (rest > 0 and not self.drop_last)
