"""A `DataLoader` that resumes exactly mid-epoch, with any number of workers."""

# The way of a batch: the loop calls `ReceivedBatches.__next__` (`loop.py`). At first `_begin` moves
# the cursor, makes the `WorkerShares` if workers own partitions, and starts torch's own iterator.
# The iterator draws from
#
# - a sampler (`sampler.py`), which delivers the indices of a map-style data set; or
# - the `PipelineDataset` (`dataset.py`) in this process, if ``num_workers`` is 0: `_every_item`; or
# - the `PipelineDataset` in each worker: `_items_of_worker`, which starts at the worker's own
#   partitions (`_own_partitions` → `worker_share`) or at its first batch of the whole →
#   `_items_of_own_batches`.
#
# For a stream, `BatchState.record` notes the state after each batch, and `CollateWithState`
# (`batch_states.py`) adds the state to the batch. Back in `__next__`, `Cursor.count_received`
# counts the batch in the `EpochProgress` of the loop (`place.py`), and keeps the state from the
# batch: `WorkerShares.count_received` if workers own partitions, else `ConsumedStates.keep`.
#
# The way of a state: `state_dict` → `Cursor.state_after` (`cursor.py`), given the number of batches
# received → `ConsumedStates.after`, which computes the state, or finds a state from a batch. If
# workers own partitions, `WorkerShares.before` (`worker_shares.py`) joins their states instead.
#
# The way of a resume: `load_state_dict` → `Cursor.load`, which checks the state and goes to another
# `Place`. The next `_begin` drops old workers; then `ConsumedStates.produce` starts at the state.

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset

import resumable as rs
from resumable.core.arguments import check_bool, check_callable, check_choice, check_int
from resumable.core.best_effort import BestEffort
from resumable.core.foreign_protocol import protocol_of
from resumable.core.foreign_source import POLICIES, apply_policy
from resumable.core.run_counters import RunCounters, described
from resumable.core.savers import GuardedStateDict
from resumable.core.stopwatch import Stopwatch
from resumable.errors import shorten
from resumable.stages.partition import has_partitions

from .cursor import KEY
from .dataset import PipelineDataset
from .drawing import HasCursor
from .loop import ReceivedBatches, may_cycle
from .place import BatchSize
from .randomness import draws_of
from .replayed import Replayed, batches_of, samples_of
from .sample_order import as_order, check_makes_order, refuse_given
from .sampler import ResumableBatchSampler, ResumableSampler
from .torch_progress import CountingSampler
from .worker_shares import check_workers

__all__ = ["ResumableDataLoader"]

T = TypeVar("T")


class ResumableDataLoader(HasCursor, DataLoader[T]):
    """`torch.utils.data.DataLoader` with the same arguments and a state. Each loop is a new epoch.

    The sampler runs ahead of the loop, so the state counts the batches **received** by the loop.
    The state holds neither the number of workers nor the batch size: ``num_workers``,
    ``prefetch_factor``, ``persistent_workers`` and ``batch_size`` may change on resume.

    In the body of the loop, the current batch counts as consumed. After the loop, the state is at
    the start of the next epoch. A state of the last batch also resumes at the start of the next
    epoch, and ``epoch`` is then the next number. After a ``break`` the next loop is the next epoch,
    unless the loop had received nothing, or only one batch, counted as a look. If a state was saved
    in the interrupted epoch, call `end_epoch` first.

    If ranks own partitions and ``drop_last`` is off, the state after the loop is the state of the
    last batch, to be joined with the states of ranks still in the epoch. A rank that resumes with
    nothing left has an empty epoch, so all ranks stay in the same epoch. A single rank warns, since
    the run may have ended.

    If a batch of a map-style data set cannot be made, a loop that calls `next` again skips the
    batch. If an interrupt, such as the exception of a signal handler, comes while torch waits,
    `next` then gives the awaited batch. If torch would leave batches out after an error or an
    interrupt, `next` raises `WorkerError`; after ``load_state_dict(state_dict())`` the next loop is
    exact.

    State: some 150 bytes under one constant key, from ``state_dict()`` at any moment: the state of
    the order, ``sampler.cursor.pipeline``, or of the pipeline of a `PipelineDataset`. For a stream,
    the state comes out of the worker with each batch, at the cost of some microseconds and at most
    4 kB for each batch. A larger state comes only with one of several batches; the state after
    another batch is then computed by reading the items in between again.

    For a stream, each worker also reports the items read before and after each batch. If the
    sources deliver another order in each worker, an `ExternalStateError` is raised instead of a
    batch.

    Functions with state keep their state across epochs. Persistent workers are then started again
    for each epoch.

    If workers own partitions, torch takes a batch from each worker in turn, and continues with the
    remaining workers when one has ended. Until a partition ends, the order is the same as without
    workers if the pipeline makes the batches and the rank's number of partitions is a multiple of
    ``num_workers``.

    Args:
      dataset: a map-style data set, or a `PipelineDataset`.
      batch_size: as in torch.
      shuffle: as in torch; the order is ``rs.range(len(dataset)).shuffle(seed)``.
      sampler: a `ResumableSampler` or `ResumableDistributedSampler`, a random-access pipeline of
        indices, or a ``SequentialSampler``, ``RandomSampler`` or ``SubsetRandomSampler`` of torch,
        drawn by ``seed``. Your own sampler is drawn again up to the place of a resume, and receives
        each epoch by ``set_epoch``: the sampler must then deliver the same order, or the resume is
        refused.
      batch_sampler: a `ResumableBatchSampler`, a ``BatchSampler`` of torch over one of these
        samplers, or your own batch sampler.
      args: further positional arguments of torch.
      seed: of the shuffle, instead of torch's generator; 0 by default. Allowed only if this loader
        makes the order, not with a sampler or a pipeline.
      with_position: whether to call ``dataset[index, position]``, for `rng_for`. Allowed only if
        this loader makes the sampler.
      external_state_policy: reaction of `state_dict` to a map-style data set with its own state,
        such as ``state_dict`` and ``load_state_dict``. The state of the data set is not saved,
        since each worker has a copy of the data set with another state: ``"fail"`` raises,
        ``"warn"`` warns, and ``"ignore"`` does nothing. The policy also applies to a resume with
        your own sampler in another order.
      identity: identifies a map-style data set beyond its length, such as a version. A state of
        other data is refused. By default, the indices of a ``Subset`` and the fingerprint of a data
        set of Hugging Face are used, also within a ``ConcatDataset``.
      kwargs: further arguments of torch.

    Raises:
      InvalidType: if the data set or the sampler cannot be resumed.
      InvalidArgument: if ``in_order`` is False, since batches overtaking each other have no
        position. If a ``generator`` is given: here ``seed`` decides the order, and a resume would
        draw the seeds of the workers again from a generator. If ``seed`` or ``with_position`` is
        given although something else makes the order. If the rank has fewer partitions than
        workers.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | rs.Pipeline[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        *args: Any,
        seed: int | None = None,
        with_position: bool = False,
        external_state_policy: str = "fail",
        identity: str | int | None = None,
        **kwargs: Any,
    ) -> None:
        given = sampler, batch_sampler
        if kwargs.get("in_order") is False:
            raise rs.InvalidArgument(
                "in_order must be True: batches that overtake each other leave no position to "
                "resume at, got False"
            )
        check_bool("with_position", with_position)
        check_makes_order(dataset, sampler, batch_sampler, seed, with_position)
        if isinstance(dataset, IterableDataset) or (sampler, batch_sampler) != (None, None):
            advice = "; rs.from_sequence(indices, identity=...) as sampler has one"
            refuse_given("a sampler or a pipeline", advice, identity=identity)
        self._source: ResumableSampler | ResumableBatchSampler | Replayed | PipelineDataset
        if isinstance(dataset, IterableDataset):
            if not isinstance(dataset, PipelineDataset):
                raise rs.InvalidType(
                    "an iterable data set must be a PipelineDataset to be resumed, got "
                    f"{shorten(dataset)}; PipelineDataset(rs.from_iterable(...)) makes one"
                )
            self._source = dataset = dataset.for_loader()
        elif batch_sampler is not None:
            self._source = batch_sampler = batches_of(batch_sampler, external_state_policy)
        else:
            if isinstance(dataset, rs.Pipeline):
                raise rs.InvalidType(
                    f"dataset must be a data set, got {dataset!r}; for its items pass "
                    "PipelineDataset(pipeline), as the order pass it as sampler"
                )
            if sampler is None:
                sampler, shuffle, seed = as_order(dataset, shuffle, seed, identity), None, None
            self._source = sampler = samples_of(sampler, seed, with_position, external_state_policy)
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, *args, **kwargs)
        if self.generator is not None:
            raise rs.InvalidArgument(
                "generator must not be given: seed decides the order, and what the workers draw from "
                "a generator's seeds would be drawn anew by a resume; for randomness of samples use "
                f"with_position and rng_for, got {self.generator!r}"
            )
        if isinstance(self._source, PipelineDataset):
            check_workers(self._source.pipeline, self.num_workers)
        items = self.batch_size or 1
        self.per_batch = (
            self._source.per_batch
            if isinstance(self._source, ResumableBatchSampler)
            else BatchSize(items, items if self.drop_last else 1)
        )
        self._policy = check_choice("external_state_policy", external_state_policy, POLICIES)
        self._protocol = None if self._source is dataset else protocol_of(dataset)
        self.cursor = self._source.cursor
        self.cursor.set_owner(self, for_ever=all(self._source is not one for one in given))
        if self._source is dataset:
            # Called by Lightning. At a resume at the end of an epoch, Lightning loads no states of
            # loaders, so only this call moves the loader.
            self.sampler.set_epoch = self.cursor.follow  # type: ignore[attr-defined]
        else:
            # Torch forbids setting the sampler, and has added a SequentialSampler to a batch
            # sampler; Lightning judges the order by this sampler.
            object.__setattr__(self, "sampler", getattr(self._source, "sampler", self._source))
        self._received_in_all = 0
        # Whether a callback of Lightning saves and loads the state.
        self.has_callback = False
        self._stopwatch: Stopwatch | None = None
        self._best_effort = BestEffort("stats are")

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        return ReceivedBatches(self, may_cycle=may_cycle(sys._getframe(1)))

    def measure(self, clock: Callable[[], float] = perf_counter) -> None:
        """Time the calls of `next` in all loops begun from now on, for `stats`.

        The cost is some microseconds a batch. A second call does nothing.

        Args:
          clock: seconds, never going back; replaced in tests.

        Raises:
          InvalidType: if ``clock`` is not a function.
        """
        check_callable("clock", clock)
        if self._stopwatch is None:
            self._stopwatch = Stopwatch(clock, RunCounters())

    def stats(self) -> dict[str, Any]:
        """Stats of this process's loops over the loader, with the keys of `PipelineIterator.stats`.

        ``steps`` and ``items`` count the batches received by the loops, a batch being one item.
        After `measure`, times are measured in the loop: the wait for workers is the wait in `next`.
        The time between two epochs is time of the loop. ``inputs`` is present if the order has
        random access. Counts in workers are unknown here. A state holds no counters, so all counts
        begin at 0 in each process. Like `stats` of an iterator, the method raises nothing.
        """
        counts = {"items": self._received_in_all}
        counters = RunCounters(counts)
        if (stopwatch := self._stopwatch) is not None:
            counters = self._best_effort(lambda: stopwatch.counters(counts), counters)
        known: dict[str, Any] = {"steps": self._received_in_all}
        stats = self._best_effort(lambda: described(known["steps"], counters, {}, {}), known)
        nothing: dict[str, Any] = {}
        return stats | self._best_effort(self._of_inputs, nothing)

    def _of_inputs(self) -> dict[str, Any]:
        """The items that inputs of mixtures have given to the loop, as far as known here."""
        pipeline = self.cursor.pipeline
        if not pipeline.random_access:
            return {}
        with pipeline.resume(rs.loads(self._state(held=0)[KEY])) as iterator:
            iterator._best_effort = self._best_effort  # warns once
            found = iterator.stats()
        return {name: found[name] for name in ("inputs", "passes") if name in found}

    @property
    def received(self) -> int:
        """Number of batches received by the loop since the epoch began or was resumed."""
        return self.cursor.progress.consumed

    @property
    def _is_accelerate_prepared(self) -> bool:
        # Accelerate reads this before wrapping a loader in its own loader; no other caller does.
        raise rs.InvalidArgument(
            f"a {type(self).__name__} must not be given to prepare, which deals its batches out to the ranks "
            "once more, runs ahead of the loop, and leaves the state of this loader behind: loop over it as "
            "it is, and register_for_checkpointing(loader)"
        )

    @GuardedStateDict
    def state_dict(self, held: int = 0) -> dict[str, bytes]:
        """The state after the batches received by the loop.

        Args:
          held: number of received batches that have not reached the training step yet.

        Raises:
          ExternalStateError: if the data set has its own state, and the policy is ``"fail"``; or if
            ranks own partitions and the loader is registered with Accelerate, which keeps the state
            of rank 0 only: register ``JoinedState(loader)``.
        """
        self._apply_policy()
        there = self.cursor.place
        state = self._state(held) if there.end_before is None else there.end_before
        there.progress.is_saved |= there.progress.consumed > 0
        return state

    def _apply_policy(self) -> None:
        if self._protocol is not None:
            apply_policy(
                f"dataset: {type(self.dataset).__name__} has a state of its own, "
                f"{self._protocol}, which is not saved: each worker has a copy with another one; let "
                "a sample depend on its index alone, with rng_for for randomness",
                self._policy,
                stacklevel=3,
            )

    def _state(self, held: int) -> dict[str, bytes]:
        return self.cursor.state_after(max(self.received - held, 0))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if ``state_dict`` belongs to other data or to another order; nothing
            changes then.
        """
        # With partitions, even if this rank has nothing left of the epoch.
        self.cursor.load(state_dict, is_chosen=has_partitions(self._stage), leads=True)

    def count_epochs_from(self, number: int) -> None:
        """Let ``set_epoch(number)`` mean the next epoch, for a loop counting from ``number``."""
        self.cursor.count_from(check_int("number", number, minimum=0), self.per_batch)

    def end_epoch(self) -> None:
        """Leave out the rest of the epoch, as after ``break``; the state moves to the next epoch.

        A loop in progress ends at its next batch. Nothing happens before the first batch of an
        epoch, or after its end.
        """
        self.cursor.leave_rest()

    def peek(self) -> T:
        """The next batch, made in this process; neither the loader nor torch's generators change.

        Raises:
          InvalidArgument: if no batch is left.
        """
        apart = self._apart()
        apart.num_workers = apart.timeout = 0
        with draws_of(torch.initial_seed(), self.cursor.epoch, self.cursor.states.origin["step"]):
            for batch in apart:
                return batch
        raise rs.InvalidArgument(
            f"peek needs a batch that comes next, got none in epoch {self.epoch}"
        )

    def _apart(self) -> ResumableDataLoader[T]:
        """A loader at the same place, over the same data set, which moves alone."""
        shared: list[Any] = [self.collate_fn, self.dataset]
        if not self.cursor.states._has_own_state:
            shared.append(self.cursor.pipeline)
        memo = {id(one): one for one in shared if one is not self._source}
        progress = self.cursor.progress
        is_saved = progress.is_saved
        try:
            return copy.deepcopy(self, memo)
        finally:
            progress.is_saved = is_saved

    def __copy__(self) -> ResumableDataLoader[T]:
        """A shallow copy, sharing the place too."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy at the same place as this loader: workers and loops are left out."""
        return {**vars(self), "_iterator": None, "has_callback": False}

    def get_state(self) -> dict[str, bytes]:
        """As `state_dict`, for ``rs.from_iterable(loader)``; after an epoch, the start of the next."""
        self._apply_policy()
        return self._state(held=0)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """As `load_state_dict`, but at the end of an epoch the next loop is empty.

        A pipeline that repeats the loader then goes to the next epoch automatically.
        """
        self.cursor.load(state, is_chosen=True)

    def batches_left(self, most: int) -> int:
        """Number of batches left in the next epoch, up to ``most``.

        Their items are passed over: read for a stream, and counted for partitions.
        """
        items, fewest = self.per_batch
        batches, rest = divmod(self.cursor.states.left(most * items), items)
        return batches + (rest >= fewest)

    @property
    def _index_sampler(self) -> Any:
        """The sampler for torch's iterators."""
        return CountingSampler(super()._index_sampler)
