"""A user's sampler, with its order drawn again up to the place of a resume."""

# No data are read for the replay. The drawn indices enter a running digest in the state, so another
# order is refused. Torch draws ahead of the loop, in this process. The state after each batch is
# taken when the batch is drawn, and kept until the loop has received the batch.

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

from torch.utils.data import BatchSampler, Sampler

import resumable as rs
from resumable.errors import shorten
from resumable.state.encoding import dumps_frozen

from .callers import refuse_framework
from .cursor import Cursor
from .drawing import DrawsItems
from .place import EpochProgress
from .sampler import ResumableBatchSampler, ResumableSampler
from .torch_samplers import is_torch_sampler

__all__ = ["Replayed", "batches_of", "samples_of"]

HELD: Final = 64
"""States are kept for this many batches before the newest batch received by the loop."""


class Replayed(DrawsItems, Sampler[Any]):
    """The indices, or the batches of indices, of a user's sampler, drawn by a loader.

    ``set_epoch`` of the sampler, and of its own ``sampler``, is called with the number of each
    epoch.

    State: O(1), the number of items drawn and a digest of the items. A resume draws as many again.

    Args:
      sampler: gives the same order whenever iterated in an epoch.
      policy: the ``external_state_policy``, applied to a resume with another order.

    Raises:
      InvalidArgument: if the sampler can only be iterated once, or a framework passed the sampler.
      InvalidType: if the sampler cannot be iterated.
    """

    def __init__(self, sampler: Any, policy: str) -> None:
        refuse_framework(sampler)
        if isinstance(sampler, Iterator) and not isinstance(sampler, Sampler):
            raise rs.InvalidArgument(
                f"a sampler must be one that can be iterated again, got {shorten(sampler)}"
            )
        rs.from_iterable(sampler, external_state_policy="ignore")  # refuses other objects
        self._sampler = sampler
        self._epoch_of_sampler = epoch = getattr(sampler, "epoch", 0)
        made = rs.from_iterable(self._with_digests, external_state_policy=policy)
        self.cursor = Cursor(made)
        if type(epoch) is int and epoch > 0:
            self.cursor.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        progress, drawn = self.cursor.begin_drawing(), 0
        size = progress.per_batch.items
        with self.cursor.states.produce() as producer:
            for _, item in producer:
                drawn += 1
                if drawn % size == 0:
                    self._keep(progress, drawn, producer)
                yield item
            self._keep(progress, drawn + -drawn % size, producer)

    def __len__(self) -> int:
        return len(self._sampler)

    def _keep(
        self, progress: EpochProgress, count: int, producer: rs.PipelineIterator[Any]
    ) -> None:
        """Keep the state after ``count`` items until the loop has received their batch and some more."""
        progress.kept[count] = dumps_frozen(producer.get_state())
        oldest = (progress.consumed - HELD) * progress.per_batch.items
        for old in [each for each in progress.kept if each < oldest]:
            del progress.kept[old]

    def _with_digests(self, epoch: int) -> Iterator[tuple[int, Any]]:
        """The items of an epoch, each after a digest of all items until then."""
        sampler, digest = self._sampler, 0
        present = getattr(sampler, "epoch", epoch)
        if present not in (epoch, self._epoch_of_sampler):
            raise rs.ExternalStateError(
                f"set_epoch({shorten(present)}) of {shorten(sampler)} was called, and epoch {epoch} comes "
                "next: call set_epoch of the loader, which passes it on"
            )
        for each in (sampler, getattr(sampler, "sampler", sampler)):
            if hasattr(each, "set_epoch"):
                each.set_epoch(epoch)
        for item in sampler:
            self._epoch_of_sampler = getattr(sampler, "epoch", None)  # some count epochs themselves
            digest = zlib.crc32(_in_digest(item).encode(), digest)
            yield digest, item


def _in_digest(item: Any) -> str:
    """``item`` as text.

    An object without any text but its address changes in each run, and is refused.
    """
    try:
        return json.dumps(item, default=lambda part: getattr(part, "tolist", lambda: repr(part))())
    except TypeError:  # keys other than strings
        return repr(item)


def samples_of(
    sampler: Any, seed: int | None, with_position: bool, policy: str
) -> ResumableSampler | Replayed:
    """The sampler of indices for a loader.

    Raises:
      InvalidArgument: if a framework passed the sampler, or the sampler can be iterated only once.
      InvalidType: for an unsupported sampler of torch, or an object without iteration.
    """
    if isinstance(sampler, ResumableSampler):
        return sampler
    if isinstance(sampler, rs.Pipeline) or is_torch_sampler(sampler):
        return ResumableSampler(sampler, seed=seed, with_position=with_position)
    return Replayed(sampler, policy)


def batches_of(batch_sampler: Any, policy: str) -> ResumableBatchSampler | Replayed:
    """The sampler of batches of indices for a loader; raises as `samples_of`."""
    if isinstance(batch_sampler, ResumableBatchSampler):
        return batch_sampler
    if type(batch_sampler) is BatchSampler:
        inner: Any = batch_sampler.sampler
        if isinstance(inner, ResumableSampler) or is_torch_sampler(inner):
            return ResumableBatchSampler(inner, batch_sampler.batch_size, batch_sampler.drop_last)
    return Replayed(batch_sampler, policy)
