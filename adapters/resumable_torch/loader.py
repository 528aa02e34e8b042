"""A `DataLoader` that resumes exactly in mid-epoch, with any number of workers."""

# The way of a batch: `ReceivedBatches.__next__`, which the loop calls, first has `_begin_epoch` move the
# cursor, make the `WorkerShares` if workers own partitions, and start torch's own iterator. That draws from
#
# - a sampler (`sampler.py`), which gives it the indices of a map-style data set; or
# - the `PipelineDataset` (`dataset.py`) in this process, if ``num_workers`` is 0: `_every_item`; or
# - the `PipelineDataset` in each worker: `_items_of_worker`, which starts at the worker's own partitions
#   (`_own_partitions` → `worker_share`) or at its first batch of the whole → `_items_of_own_batches`.
#
# For a stream, `BatchState.record` notes the state after each batch, and `CollateWithState`
# (`batch_states.py`) puts it next to the batch. Back in `__next__`, `_count_received` counts the batch in the
# cursor's `EpochProgress`, and keeps the state that came with it: `WorkerShares.count_received` if workers own
# partitions, else `Cursor.keep`.
#
# The way of a state: `state_dict` → `_state` → `Cursor.state_dict` (`cursor.py`), given the number of items
# received → `ConsumedStates.after`, which computes it, or finds one that came with a batch. If workers own
# partitions, `WorkerShares.before` (`worker_shares.py`) joins their states instead.
#
# The way of a resume: `load_state_dict` → `Cursor.load`, which checks the state and gets a new
# `EpochProgress`. The next `_begin_epoch` drops old workers; there, `Cursor.produce` starts at the state.

from __future__ import annotations

import copy
import gc
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from types import FrameType
from typing import Any, Final, TypeVar

import torch
from torch.utils.data import DataLoader, IterableDataset

import resumable as rs
from resumable.core.arguments import check_bool, check_callable, check_choice, check_int
from resumable.core.best_effort import BestEffort
from resumable.core.ended import warn_of_ended_run
from resumable.core.foreign_protocol import protocol_of
from resumable.core.foreign_source import POLICIES, apply_policy
from resumable.core.run_counters import RunCounters
from resumable.core.run_stats import described
from resumable.core.savers import GuardedStateDict
from resumable.core.stopwatch import Stopwatch
from resumable.errors import shorten
from resumable.stages.global_order import deal_of
from resumable.stages.partition import has_partitions
from resumable.state.encoding import dumps_frozen

from .batch_states import BatchWithState, CollateWithState, SameOrderCheck
from .callers import refuse_states_not_loaded
from .cursor import KEY, EpochProgress, HasCursor
from .dataset import PipelineDataset
from .randomness import draws_of
from .replayed import Replayed, batches_of, samples_of
from .sample_order import as_order, check_makes_order, refuse_given
from .sampler import EpochForwarder, ResumableBatchSampler, ResumableSampler
from .torch_progress import CountingSampler, TorchProgress
from .worker_shares import WorkerShares, check_workers

__all__ = ["ReceivedBatches", "ResumableDataLoader", "may_cycle", "refuse_cycle"]

T = TypeVar("T")

PLACE: Final = "resumable_place"
"""The name under which a copy of a loader has its state."""


class ResumableDataLoader(HasCursor, DataLoader[T]):
    """`torch.utils.data.DataLoader` with the same arguments and a state. Each loop is a new epoch.

    The sampler runs ahead of the loop, so the state counts the batches that the loop **received**. It
    holds neither the number of workers nor the batch size: ``num_workers``, ``prefetch_factor``,
    ``persistent_workers`` and ``batch_size`` may change on resume.

    In the body of the loop, the current batch counts as consumed. After the loop, the state is that
    of the start of the next epoch. A state of the last batch also resumes at the start of the next
    epoch, and ``epoch`` is then the next one. After a ``break`` the next loop is the next epoch,
    unless the loop had received nothing, or one batch only, which was a look. If a state was saved in the epoch
    that was left, call `end_epoch` first.

    If ranks own partitions and ``drop_last`` is off, the state after the loop is that of the last
    batch, so that it can be joined with the states of ranks that are still in the epoch. A rank
    that resumes with nothing left has an empty epoch, so that all ranks are in the same epoch. If
    there is one rank, it warns, since the run may have ended.

    If a batch of a map-style data set cannot be made, a loop that calls `next` again skips it. If
    an interrupt, such as the exception of a signal handler, comes while torch waits, `next` then
    gives the batch that was waited for. If torch would leave batches out after an error or an
    interrupt, `next` raises `WorkerError`; after ``load_state_dict(state_dict())`` the next loop is
    exact.

    State: some 150 bytes under one constant key, from ``state_dict()`` at any moment. It is the state
    of the order, ``sampler.cursor.pipeline``, or of the pipeline of a `PipelineDataset`. For a stream, the
    state comes out of the worker with each batch, which costs some microseconds and at most 4 kB for each
    batch. A larger state comes with one of several batches only; the state after another batch is then
    computed by reading the items in between again.

    For a stream, each worker also reports what it read before and after each batch. If the sources
    deliver another order in each worker, an `ExternalStateError` is raised instead of a batch.

    An epoch goes on with a function that carries state as it is after the epoch before. Workers that persist are
    then started anew for each epoch.

    If workers own partitions, torch takes a batch from each worker in turn, and continues with the
    others when one has ended. Until a partition ends, the order is the same as without workers if
    the pipeline makes the batches and the rank's number of partitions is a multiple of
    ``num_workers``.

    Args:
      dataset: a map-style data set, or a `PipelineDataset`.
      batch_size: as in torch.
      shuffle: as in torch; the order is that of ``rs.range(len(dataset)).shuffle(seed)``.
      sampler: a `ResumableSampler` or `ResumableDistributedSampler`, a random-access pipeline
        of indices, or a ``SequentialSampler``, ``RandomSampler`` or ``SubsetRandomSampler`` of torch, which
        draws by ``seed``. A sampler of your own is drawn again up to the place of a resume, and told
        each epoch by ``set_epoch``: it must then deliver the same order, or the resume is refused.
      batch_sampler: a `ResumableBatchSampler`, a ``BatchSampler`` of torch over one of these samplers, or a
        batch sampler of your own.
      args: further positional arguments of torch.
      seed: of the shuffle, in place of torch's generator; 0 by default. It is allowed only where this
        loader makes the order, and not with a sampler or a pipeline.
      with_position: whether to call ``dataset[index, position]``, for `rng_for`. It is allowed only
        where this loader makes the sampler.
      external_state_policy: what `state_dict` does if a map-style data set has a state of its own,
        such as ``state_dict`` and ``load_state_dict``. Such a state is not saved, since each worker has
        a copy of the data set with another state: ``"fail"`` raises, ``"warn"`` warns, and ``"ignore"``
        does nothing. It also says so of a resume with a sampler of your own that gives another order.
      identity: what identifies a map-style data set beyond its length, such as a version. A state of other
        data is refused. By default, the indices of a ``Subset`` and the fingerprint of a data set of Hugging
        Face identify it, also within a ``ConcatDataset``.
      kwargs: further arguments of torch.

    Raises:
      InvalidType: if the data set or the sampler cannot be resumed.
      InvalidArgument: if ``in_order`` is False, since batches that overtake each other have no
        position. If a ``generator`` is given: here ``seed`` decides the order, and a resume would
        draw the seeds of the workers anew from a generator. If ``seed`` or ``with_position`` is given
        where something else makes the order. If the rank has fewer partitions than workers.
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
            dataset = _checked_dataset(dataset, batch_size)
            self._source = dataset
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
        self._shares: WorkerShares | None = None
        self._policy = check_choice("external_state_policy", external_state_policy, POLICIES)
        self._protocol = None if self._source is dataset else protocol_of(dataset)
        self.cursor = self._source.cursor
        self.cursor.set_owner(self, for_ever=all(self._source is not one for one in given))
        if self._source is dataset:
            # Torch forbids to set it.
            object.__setattr__(self, "sampler", EpochForwarder(self.cursor))
        else:
            # Torch has put a SequentialSampler next to a batch sampler, by which Lightning judges the order.
            object.__setattr__(self, "sampler", getattr(self._source, "sampler", self._source))
            if isinstance(self._source, Replayed):
                self._source.batch_items = self._batch_items
        self._received_in_all = 0
        # Whether a callback of Lightning saves and loads the state.
        self.has_callback = False
        self._stopwatch: Stopwatch | None = None
        self._best_effort = BestEffort("stats are")

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        return ReceivedBatches(self, may_cycle=may_cycle(sys._getframe(1)))

    def measure(self, clock: Callable[[], float] = perf_counter) -> None:
        """Time the calls of `next` in all loops that begin from now on, for `stats`; some microseconds a batch.

        It may be called again, and then does nothing.

        Args:
          clock: seconds, never going back; replaced in tests.

        Raises:
          InvalidType: if ``clock`` is not a function.
        """
        check_callable("clock", clock)
        if self._stopwatch is None:
            self._stopwatch = Stopwatch(clock, RunCounters())

    def stats(self) -> dict[str, Any]:
        """How the loops over this loader are doing in this process, with the keys of `PipelineIterator.stats`.

        ``steps`` and ``items`` are the batches that they have received, a batch being one item. After `measure`, the
        times are those of the loop: workers are waited for where `next` is called. The time between two epochs is
        time of the loop. ``inputs`` is there if the order has random access. Nothing of what workers count is known
        here. A state holds no counters, so all begin with 0 in each process. Like that of an iterator, it raises
        nothing.
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
        """What the inputs of mixtures have given to the loop, as far as that is known here."""
        pipeline = self.cursor.pipeline
        if not pipeline.random_access:
            return {}
        with pipeline.resume(rs.loads(self._state(held=0)[KEY])) as iterator:
            iterator._best_effort = self._best_effort  # which warns once
            found = iterator.stats()
        return {name: found[name] for name in ("inputs", "passes") if name in found}

    @property
    def received(self) -> int:
        """Number of batches that the loop has received since the epoch began or was resumed."""
        return self.cursor.progress.consumed

    @property
    def pipeline(self) -> rs.Pipeline[Any]:
        """The pipeline of the data set, or of the numbers of samples."""
        return self.cursor.pipeline

    @property
    def _is_accelerate_prepared(self) -> bool:
        # Accelerate asks for this before it wraps a loader in one of its own, and nobody else does.
        raise rs.InvalidArgument(
            f"a {type(self).__name__} must not be given to prepare, which deals its batches out to the ranks "
            "once more, runs ahead of the loop, and leaves the state of this loader behind: loop over it as "
            "it is, and register_for_checkpointing(loader)"
        )

    @GuardedStateDict
    def state_dict(self, held: int = 0) -> dict[str, bytes]:
        """The state after the batches that the loop has received.

        Args:
          held: how many of these batches have not reached the training step yet.

        Raises:
          ExternalStateError: if the data set has a state of its own, and the policy is ``"fail"``;
            or if ranks own partitions and the loader is registered with Accelerate, which keeps the
            state of rank 0 only: register ``JoinedState(loader)``.
        """
        self._apply_policy()
        progress = self.cursor.progress
        state = self._state(held) if progress.end_before is None else progress.end_before
        progress.is_saved |= progress.consumed > 0
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
        batches = max(self.received - held, 0)
        if batches and self._shares is not None:
            ahead = self.cursor.progress.received - batches
            return {KEY: dumps_frozen(self._shares.before(ahead))}
        return self.cursor.state_dict(batches * self._batch_items)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to other data or to another order; nothing changes then.
        """
        self.cursor.load(state_dict)
        progress = self.cursor.progress
        # With partitions, even if this rank has nothing left of the epoch.
        progress.chosen = has_partitions(self.cursor.pipeline.stage)
        progress.led_by_state = True

    def count_epochs_from(self, number: int) -> None:
        """Let ``set_epoch(number)`` mean the epoch that comes next, for a loop that counts its epochs from ``number``."""
        self.cursor.count_from(check_int("number", number, minimum=0), self.fewest)

    def end_epoch(self) -> None:
        """Leave out the rest of the epoch, as after ``break``: the state becomes that of the start of the next one.

        A loop in progress ends at its next batch. Nothing happens before the first batch of an epoch, and after the
        end of one.
        """
        self.cursor.leave_rest()

    def peek(self) -> T:
        """The batch that comes next, made in this process; neither the loader nor torch's generators change.

        Raises:
          InvalidArgument: if there is none.
        """
        apart = self._apart()
        apart.num_workers = apart.timeout = 0
        with draws_of(torch.initial_seed(), self.cursor.epoch, self.cursor.start_state["step"]):
            for batch in apart:
                return batch
        raise rs.InvalidArgument(
            f"peek needs a batch that comes next, got none in epoch {self.epoch}"
        )

    def _apart(self) -> ResumableDataLoader[T]:
        """A loader at the same place, over the same data set, which moves alone."""
        shared: list[Any] = [self.collate_fn, self.dataset]
        if not self.cursor.uses_objects:
            shared.append(self.cursor.pipeline)
        memo = {id(one): one for one in shared if one is not self._source}
        progress = self.cursor.progress
        is_saved = progress.is_saved
        try:
            return copy.deepcopy(self, memo)
        finally:
            progress.is_saved = is_saved

    def __copy__(self) -> ResumableDataLoader[T]:
        """A shallow copy, which shares the place too."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets, which stands where this loader stands: workers and loops stay behind."""
        place = self._state(held=0) if self.received else None
        self.cursor.progress.is_saved |= place is not None
        left_behind = {"_iterator": None, "_shares": None, "has_callback": False}
        return {**vars(self), **left_behind, PLACE: place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop(PLACE)
        vars(self).update(state)
        if place is not None:
            self.load_state_dict(place)

    def get_state(self) -> dict[str, bytes]:
        """As `state_dict`, for ``rs.from_iterable(loader)``; after an epoch, the start of the next."""
        self._apply_policy()
        return self._state(held=0)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """As `load_state_dict`, but at the end of an epoch the next loop is empty.

        A pipeline that repeats the loader then goes to the next epoch by itself.
        """
        self.cursor.load(state)
        self.cursor.progress.chosen = True

    def batches_left(self, most: int) -> int:
        """How many batches are left of the epoch that comes next, up to ``most``.

        Their items are passed over: of a stream they are read, and of partitions counted.
        """
        batches, rest = divmod(self.cursor.left(most * self._batch_items), self._batch_items)
        return batches + (rest >= self.fewest)

    @property
    def _batch_items(self) -> int:
        """Number of items that one batch takes."""
        if isinstance(self._source, ResumableBatchSampler):
            return self._source.items_of_one
        return 1 if self.batch_size is None else self.batch_size

    @property
    def fewest(self) -> int:
        """The smallest number of items that make a batch."""
        if isinstance(self._source, ResumableBatchSampler):
            return self._source.fewest
        return self._batch_items if self.drop_last else 1

    def _begin_epoch(self) -> tuple[EpochProgress, Iterator[T]]:
        """Begin an epoch: the progress in it, and torch's own iterator over it."""
        progress = self.cursor.begin_loop(self._batch_items, self.fewest)
        if isinstance(self._source, PipelineDataset):
            if self.num_workers:
                progress.worker_items = self._batch_items
            # Persistent workers would go to the next epoch, with functions as they are there.
            if not progress.follows or self.cursor.carries_state:
                self._iterator = None
            self._shares = WorkerShares.of(
                self._source.pipeline, self.num_workers, self.cursor.start_state, self._batch_items
            )
        # Torch seeds its workers from a generator that the model may use too. A resume begins the
        # epoch a second time, so it must not change that generator.
        with draws_of(torch.initial_seed(), self.cursor.epoch, self.cursor.start_state["step"]):
            return progress, self._torch_iterator()

    def _torch_iterator(self) -> Iterator[T]:
        """Torch's own iterator. Its batches are `BatchWithState` if the state comes with them."""
        if not isinstance(self._source, PipelineDataset) or self._source.marks is None:
            return super().__iter__()
        collate = self.collate_fn
        self.collate_fn = CollateWithState(collate, self._source.marks)
        try:
            return super().__iter__()
        finally:
            self.collate_fn = collate

    def _count_received(
        self, progress: EpochProgress, batches: int, state: bytes | None, worker: int | None
    ) -> None:
        """Count batches, unless the cursor has gone elsewhere.

        Args:
          progress: in the epoch of these batches.
          batches: how many.
          state: the one after them, if it is known.
          worker: the number of the one that made them, if it owns partitions.
        """
        self._received_in_all += 1
        if progress is self.cursor.progress:
            progress.received += batches
            if self._shares is not None and worker is not None:
                self._shares.count_received(worker, state)
            elif state is not None:
                self.cursor.keep(progress.received * self._batch_items, state)

    def _end_epoch(self, progress: EpochProgress) -> None:
        """Go to the next epoch when torch has no more batches, unless the cursor has gone elsewhere."""
        if progress is self.cursor.progress:
            self._warn_if_nothing_was_left()
            last = None
            if has_partitions(self.cursor.pipeline.stage) and not self.drop_last:
                # Other ranks may have batches of this epoch left, and all states are joined. A
                # pipeline that cannot be saved can still be iterated.
                with suppress(Exception):
                    last = self._state(held=0)
            progress.has_ended = True
            self.cursor.end("end_epoch")
            self.cursor.progress.end_before = last

    def _warn_if_nothing_was_left(self) -> None:
        """Warn at the end of a resumed epoch that had no batch.

        With several ranks there is no warning: others may have batches, and all stay in one epoch.
        """
        if (
            self.cursor.progress.led_by_state
            and not self.received
            and deal_of(self.cursor.pipeline.stage).ranks == 1
        ):
            warn_of_ended_run(
                self.cursor.start_state["step"],
                "load no state",
                go_on=f"begin the next loop, which is epoch {self.cursor.epoch + 1}",
                stacklevel=4,
            )

    @property
    def _continues_after_errors(self) -> bool:
        """Whether batches come after one that could not be made."""
        return not isinstance(self._source, PipelineDataset)

    @property
    def _index_sampler(self) -> Any:
        """What torch's iterators draw from."""
        return CountingSampler(super()._index_sampler)


def may_cycle(caller: FrameType) -> bool:
    """Whether ``caller`` may be the frame that calls `itertools.cycle`, which has none of its own."""
    return "cycle" in caller.f_code.co_names


def refuse_cycle(batches: Iterator[Any]) -> None:
    """Refuse to end ``batches`` if `itertools.cycle` would then repeat them.

    Raises:
      InvalidArgument: saying what to write instead.
    """
    if any(isinstance(one, itertools.cycle) for one in gc.get_referrers(batches)):
        raise rs.InvalidArgument(
            "itertools.cycle would repeat the batches of this epoch, which no state counts: iterate over "
            "itertools.chain.from_iterable(itertools.repeat(loader)), which begins the next epoch each time"
        )


class ReceivedBatches(Iterator[T]):
    """Counts the batches that the loop receives. The epoch begins with the first call of `next`.

    Args:
      loader: whose batches they are.
      is_ahead: whether batches are handed out later than they are received, as `EpochProgress.handed_out` says. The
        epoch then ends when `end_epoch` is called, and else with the last batch.
      may_cycle: whether `itertools.cycle` may have asked for it.
    """

    def __init__(
        self, loader: ResumableDataLoader[T], *, is_ahead: bool = False, may_cycle: bool = False
    ) -> None:
        self._loader = loader
        self._is_ahead = is_ahead
        self._may_cycle = may_cycle
        self.progress = EpochProgress()
        self._take: Callable[[], T] | None = None  # the next of torch's batches
        self._order_check = SameOrderCheck()
        self._torch: TorchProgress | None = None
        # Number of batches that could not be made. With a map-style data set, they count as skipped
        # once the loop has received another batch. A pipeline's epoch ends with the first of them:
        # its worker would deliver nothing more, while others would continue.
        self._failed = 0
        # Whether torch would leave a batch out if it continued after an exception. It is set before
        # torch is asked, since a signal handler may raise anywhere.
        self._broken = False
        self._ended = False

    def __next__(self) -> T:
        if self._ended:  # or each further call would end another epoch
            raise StopIteration
        self.check_current()
        if self.progress.received < 2 and not self._loader.has_callback:
            refuse_states_not_loaded()
        if self._take is None or self._torch is None:
            self._begin()
            assert self._take is not None
            assert self._torch is not None
        if self._broken:
            raise rs.WorkerError(
                "the epoch ended with the error before; load_state_dict(state_dict()) goes on with the "
                "batch that could not be made"
            )
        self._torch.note_before_next()
        self._broken = True
        try:
            batch: Any = self._take()
        except StopIteration:
            self._ended = True
            if not self._is_ahead:
                self.end_epoch()
            if self._may_cycle:
                refuse_cycle(self)
            raise
        except BaseException as error:
            self._broken = not self._continues(self._torch, error)
            if self._broken:
                self._loader._iterator = None  # so that new workers begin the next epoch
            raise
        state = worker = None
        if isinstance(batch, BatchWithState):
            batch, state, digests, worker = batch
            self._order_check.check(digests)
        self._loader._count_received(self.progress, 1 + self._failed, state, worker)
        self._failed, self._broken = 0, False
        return batch  # type: ignore[no-any-return]

    def check_current(self) -> None:
        """Check that the loader is where this loop left it.

        Raises:
          InvalidArgument: if something has moved the loader since this loop began.
          StopIteration: if `end_epoch` has ended this loop.
        """
        by = self.progress.left_by
        if by == "end_epoch":
            raise StopIteration
        if by:
            raise rs.InvalidArgument(
                f"this loop was overtaken by {by}: the loader is at another place, and what this loop delivers "
                "would not be in its state. End this loop, or use another loader for the other one"
            )

    def state_dict(self) -> dict[str, bytes]:
        """As that of the loader.

        Raises:
          InvalidArgument: if something has moved the loader since this loop began.
        """
        if not (self._ended or self.progress.left_by == "end_epoch"):
            self.check_current()
        return self._loader.state_dict()

    def end_epoch(self) -> None:
        """Go to the next epoch, unless the loader has gone elsewhere."""
        self._loader._end_epoch(self.progress)

    def _begin(self) -> None:
        stopwatch = self._loader._stopwatch
        begin = self._loader._begin_epoch
        self.progress, batches = begin() if stopwatch is None else stopwatch.timed_call(begin)
        if self._is_ahead:
            self.progress.handed_out = 0
        self._torch = TorchProgress(batches, self._loader._continues_after_errors)
        take = batches.__next__
        self._take = take if stopwatch is None else partial(stopwatch.timed_call, take)

    def _continues(self, torch_progress: TorchProgress, error: BaseException) -> bool:
        """Whether torch leaves out nothing after ``error`` but a batch that could not be made."""
        if not torch_progress.leaves_none_out:
            return False
        if not torch_progress.taken:  # torch was interrupted while it waited
            return True
        # Torch skips the batch. That is right for an error of the data set, but an interrupt says
        # nothing about the batch.
        passed_over = torch_progress.taken == 1 and isinstance(error, Exception)
        if not (passed_over and self._loader._continues_after_errors):
            return False
        self._failed += 1
        return True


def _checked_dataset(dataset: Any, batch_size: int | None) -> PipelineDataset:
    if not isinstance(dataset, PipelineDataset):
        raise rs.InvalidType(
            "an iterable data set must be a PipelineDataset to be resumed, got "
            f"{shorten(dataset)}; PipelineDataset(rs.from_iterable(...)) makes one"
        )
    return dataset.for_loader(1 if batch_size is None else batch_size)
