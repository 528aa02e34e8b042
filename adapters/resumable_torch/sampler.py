"""Samplers that resume at any sample, with a state of some 100 bytes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import length_hint
from typing import Any, Final

from torch.utils.data import Sampler

import resumable as rs
from resumable.core.arguments import check_bool, check_int
from resumable.core.epochs import in_epoch

from .cursor import Cursor, HasCursor
from .sample_order import (
    Source,
    as_order,
    check_positions,
    positions_from,
    refuse_given,
    refuse_indices,
    take_list,
)

__all__ = ["EpochForwarder", "LoaderOwned", "ResumableBatchSampler", "ResumableSampler"]

BLOCK: Final = 4096


class LoaderOwned(HasCursor):
    """A sampler that one loader at a time owns, which then begins the epochs."""

    _has_had_owner = False
    _owner: weakref.ref[Any] | None = None  # None in a copy too: its loader is a copy

    @property
    def has_owner(self) -> bool:
        """Whether a loader begins the epochs."""
        return self._has_had_owner and (self._owner is None or self._owner() is not None)

    def set_owner(self, loader: object) -> None:
        """Let ``loader`` begin the epochs as long as it exists.

        Raises:
          InvalidArgument: if another loader begins them already.
        """
        if self._owner is not None and self._owner() not in (None, loader):
            raise rs.InvalidArgument(
                f"a sampler serves one loader at a time, got {self!r} of another one"
            )
        self._has_had_owner, self._owner = True, weakref.ref(loader)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_owner": None}


class EpochForwarder(Sampler[None]):
    """In place of the sampler of a loader over a stream: it passes `set_epoch` on to the cursor.

    Lightning calls it. When Lightning resumes at the end of an epoch, it loads no states of loaders,
    so this call is all that tells the loader where to go.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[None]:
        return repeat(None)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come first, unless the loop has begun or a state was loaded."""
        progress = self._cursor.progress
        if not (progress.begun or progress.resumed):
            self._cursor.set_epoch(epoch)


class ResumableSampler(LoaderOwned, Sampler[Any]):
    """Indices of a data set. Each loop is a new epoch and can be resumed at any index.

    A `DataLoader` takes indices from its sampler ahead of the loop. So with a plain `DataLoader`, pass the
    number of consumed samples to `state_dict`; `ResumableDataLoader` counts them itself.

    State: O(1), and so is the time to resume. No permutation is ever made.

    Args:
      source: a data set (only its length matters), a length, or a random-access pipeline of
        indices, such as ``rs.range(n).shuffle(0).shard(rank, world_size)``.
      shuffle: whether to go through the indices in the order of ``rs.range(n).shuffle(seed)``,
        a new one in each epoch; not allowed with a pipeline.
      seed: of the order, 0 by default; not allowed with a pipeline.
      with_position: whether to yield pairs ``(index, position)`` with the position of the sample in the
        whole run, for `rng_for`. An endless order has them in its first epoch.

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
        # Invariant: `_drawn` minus what is left in `_block` is the number of samples yielded.
        self._drawn = 0
        self._block: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        # The epoch begins with its first sample: torch asks for more iterators than it uses.
        if not self.has_owner:
            self.cursor.begin(self.yielded > 0)
        positions = positions_from(self.cursor) if self.with_position else None
        self._drawn = 0
        with self.cursor.produce() as producer:
            while block := take_list(producer, BLOCK):
                if positions is not None:
                    block = list(zip(block, positions, strict=False))
                self._drawn += len(block)
                self._block = iter(block)
                yield from self._block

    def __len__(self) -> int:
        return len(in_epoch(self.cursor.pipeline.stage, self.cursor.epoch))

    @property
    def yielded(self) -> int:
        """How many samples of this epoch were yielded; the loop may have consumed fewer."""
        return self._drawn - length_hint(self._block)

    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state after the samples that the loop has consumed.

        Args:
          consumed: number of samples that the loop has consumed since the epoch began or was resumed. By
            default, the number of those yielded, which is right only where nothing runs ahead.
        """
        count = self.yielded if consumed is None else check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(count)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to another order.
        """
        self.cursor.load(state_dict)
        self._drawn, self._block = 0, iter(())


class ResumableBatchSampler(LoaderOwned, Sampler[list[Any]]):
    """Batches of indices, for the argument ``batch_sampler`` of a `DataLoader`.

    State: that of the samples, so the batch size may differ after a resume.

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
        self._yielded = 0

    def __iter__(self) -> Iterator[list[Any]]:
        if not self.has_owner:
            self.cursor.begin(self._yielded > 0, self.fewest)
        positions = positions_from(self.cursor) if self.sampler.with_position else None
        self._yielded = 0
        with self.cursor.produce() as producer:
            while batch := take_list(producer, self.batch_size):
                if len(batch) < self.batch_size and self.drop_last:
                    return
                if positions is not None:
                    batch = list(zip(batch, positions, strict=False))
                self._yielded += 1
                yield batch

    def __len__(self) -> int:
        batches, rest = divmod(len(self.sampler), self.batch_size)
        return batches + (rest > 0 and not self.drop_last)

    @property
    def fewest(self) -> int:
        """The smallest number of samples that make a batch."""
        return self.batch_size if self.drop_last else 1

    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state after the batches that the loop has consumed.

        Args:
          consumed: number of batches that the loop has consumed since the epoch began or was resumed. By
            default, the number of those yielded, which is right only where nothing runs ahead.
        """
        batches = self._yielded if consumed is None else check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(batches * self.batch_size)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to another order.
        """
        self.cursor.load(state_dict)
        self._yielded = 0
