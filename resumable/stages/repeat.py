"""Go through upstream several times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar, final

from ..core import (
    EPOCHS,
    ITEMS,
    Block,
    Dependence,
    IdentityField,
    IdentityFields,
    IndexedIterator,
    InputItems,
    Items,
    Relation,
    Repeated,
    SourceItem,
    Stage,
    StageIterator,
    Transform,
    TransformIterator,
    block_length,
    by_index,
    check_int,
    computed_once,
)
from ..core.arguments import check_field
from ..core.block import concatenate
from ..core.epoch_runs import ENDLESS, EpochRuns
from ..core.epochs import ENDLESS_EPOCHS, ByEpoch, by_epoch, in_epoch, runs_of
from ..core.function_state import restore_functions
from ..core.graph import walk, why_first_epoch_only, with_inputs
from ..core.identity import LATER_EPOCHS
from ..core.made_of import record_at
from ..core.orders import MOST_ITEMS
from ..core.reach import Reach, reached_all
from ..core.run_changes import RunChanges
from ..core.stage import runs_ahead
from ..core.stage_iterator import pulled_blocks
from ..core.timeline import UNBOUNDED
from ..errors import InvalidArgument
from ..state.value import State, unpack, unpack_count, unpack_flag
from ..workers.idle_workers import IdleWorkers, WorkerSource, reuse_workers
from .part import is_in_partition

T = TypeVar("T")

FIXED_EPOCHS: Final = (
    "the number may change only if no stage after it deals out, draws, counts or shuffles items, or repeats "
    "them again, so put repeat behind such stages"
)

FIXED_IN_LATER_EPOCHS: Final = (
    "in a later epoch of the loop than the first it says which epochs of the data come, so it may change "
    "only in the first, or where all epochs of the data are alike"
)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Transform[T]):
    """Upstream's items ``epochs`` times over, each time as a new epoch.

    Random stages upstream differ from epoch to epoch. A repeat inside a repeat counts on: if the
    inner repeat makes n epochs, its epochs within epoch p of the outer repeat are p * n to (p + 1)
    * n - 1.

    Earlier maps keep their workers from epoch to epoch, until the last epoch ends. Processes are
    started again if the objects that their function refers to have changed since the previous
    epoch.

    State: O(1), the number of epochs finished and upstream's state. Random access is kept over an
    upstream of finite length. After `by_epoch`, the length may differ from epoch to epoch.

    Args:
      upstream: stage to repeat.
      epochs: number of epochs, at least 0; None repeats without end, until an epoch has no items.
        May differ between save and resume, unless a later stage deals out (``shard``), draws
        (``random_map``), counts or shuffles items, or repeats in turn. In a later epoch of your
        loop than the first, the number may differ only if all epochs of upstream have the same
        items in the same order, by index.

    Raises:
      InvalidArgument: if ``epochs`` is below 0, or makes more than 2**62 items.
      InvalidType: if ``epochs`` is neither an integer nor None.

    >>> list(rs.range(3).repeat(2))
    [0, 1, 2, 0, 1, 2]
    """

    alone = True
    identity: ClassVar[IdentityFields] = {
        "epochs": IdentityField(ITEMS | EPOCHS, hint=FIXED_EPOCHS),
        "epochs_each": IdentityField(LATER_EPOCHS, shown_as="epochs", hint=FIXED_IN_LATER_EPOCHS),
    }
    depends_on: ClassVar[Dependence] = EPOCHS
    state_cost = "the epoch"
    _run_changes = RunChanges(counts_epochs=True)

    _: KW_ONLY
    epochs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_later_epochs(self.upstream)
        check_field(self, "epochs", check_int, optional=True, minimum=0)
        if self.length not in (None, math.inf) and self.length > MOST_ITEMS:
            lengths = " and ".join(map(str, self._runs_from(self._first_epoch).lengths))
            raise InvalidArgument(
                f"epochs must make at most 2**62 items, got {self.epochs} of {lengths}"
            )

    @computed_once
    def split(self) -> Stage[T]:
        """Upstream, as a `ByEpoch` if upstream changes with the epoch."""
        return by_epoch(self.upstream)

    def relation(self, epoch: int) -> Relation:
        epoch = self._made_for(epoch)
        runs = self.runs(epoch)
        return Repeated(
            self,
            epoch,
            split=self.split,
            runs=runs,
            is_first=not epoch and not self._first_epoch,
            input_at=partial(self.in_pass, epoch),
            in_partition=partial(is_in_partition, self),
            in_order=not runs.known,  # only a finite length decides which epoch an index is in
        )

    @computed_once
    def _changes(self) -> tuple[int, ...]:
        if self.epochs == 0 or not self.split._changes:
            return ()
        epochs = self._epochs_counted
        if self.epochs is None and self.length in (None, math.inf):
            return ()  # a later epoch is as long as the first
        own = range(self._first_epoch // epochs + 1, self._last_epoch // epochs + 1)
        # A change in the middle of an epoch changes this epoch and the next.
        changed = {-(-number // epochs) for number in self.split._changes}
        changed |= {number // epochs for number in self.split._changes}
        return tuple(sorted(epoch for epoch in changed if epoch in own))

    def _in_epoch(self, epoch: int) -> Stage[Any]:
        upstream, first = self.split, self.epoch_of(epoch, 0)
        if isinstance(upstream, ByEpoch):
            upstream = upstream.within(first, first + self._epochs_counted)
        return self if upstream is self.upstream else with_inputs(self, (upstream,))

    @property
    def _first_epoch(self) -> int:
        """The first upstream epoch that this copy covers."""
        return self.split.starts[0] if isinstance(self.split, ByEpoch) else 0

    @property
    def _last_epoch(self) -> int:
        """The last upstream epoch that this copy covers.

        If endless, the last epoch in which upstream changes, plus one epoch of this stage.
        """
        stop = self.split.stop if isinstance(self.split, ByEpoch) else math.inf
        if stop != math.inf:
            return int(stop) - 1
        return self.split._changes[-1] + self._epochs_counted

    @property
    def _epochs_counted(self) -> int:
        return ENDLESS_EPOCHS if self.epochs is None else self.epochs

    def runs(self, epoch: int) -> EpochRuns:
        """The place of each upstream epoch among the items of this stage's own ``epoch``."""
        return self._runs_from(self.epoch_of(epoch, 0))

    def _runs_from(self, first: int) -> EpochRuns:
        return runs_of(self.split, first, ENDLESS if self.epochs is None else self.epochs)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return RepeatIterator(self, self._made_for(epoch))  # a cache starts all epochs in 0

    def in_pass(self, epoch: int, number: int) -> InputItems:
        """Upstream in pass ``number`` of ``epoch``."""
        own = self.epoch_of(epoch, number)
        return InputItems(in_epoch(self.split, own), own)

    def _made_for(self, epoch: int) -> int:
        """``epoch``, or the first epoch of this stage that this copy covers, if later."""
        return max(epoch, self._first_epoch // max(self._epochs_counted, 1))

    @computed_once
    def alike(self) -> bool:
        """Whether all epochs have the same items, and every item is looked up by its index."""
        return self._has_one_order and not any(runs_ahead(stage) for stage, _ in walk(self.split))

    @computed_once
    def _has_one_order(self) -> bool:
        """Whether the items by index are the same in all epochs, whatever threads run ahead."""
        upstream = self.split
        if not upstream.random_access or not upstream.length or upstream.length == math.inf:
            return False
        return not upstream._changes and by_index(upstream).every_epoch

    @property
    def epochs_each(self) -> Any:
        """The factor of `epoch_of`; `MISSING` where all epochs of upstream are alike."""
        return MISSING if self._has_one_order else self.epochs

    def epoch_of(self, epoch: int, number: int) -> int:
        """Upstream's epoch that is number ``number`` within this stage's own ``epoch``."""
        return epoch * self._epochs_counted + number


def check_later_epochs(upstream: Stage[Any]) -> None:
    """Refuse an upstream that has no epoch after the first.

    Raises:
      InvalidArgument: if a stage of ``upstream`` has only the first epoch.
    """
    if reason := why_first_epoch_only(upstream):
        raise InvalidArgument(f"{reason}, got {upstream!r}, which begins again")


class RepeatIterator(TransformIterator[T]):
    """Motion through the epochs, one after another."""

    _stage: Repeat[T]

    def __init__(self, stage: Repeat[T], epoch: int) -> None:
        self._stage = stage
        self._start_epoch = epoch
        # Epochs without items need not be begun; there may be 2**62 of them.
        self._epoch_runs = stage.runs(epoch)
        self._epochs = 0 if self._epoch_runs.total == 0 else stage.epochs
        self._finished = 0  # the number of epochs before this one
        self._delivered = False  # whether this epoch has delivered an item
        # Keeps workers between two epochs; an outer repeat uses its own instead.
        self._own_idle = IdleWorkers()
        self._source: WorkerSource = self._own_idle
        self._upstream = self._started(0)
        # All epochs as a single looked-up sequence, once items were asked for, where possible.
        # `_whole` then moves instead of upstream, which catches up on demand.
        self._whole: IndexedIterator[T] | None = None

    def pull(self, count: int) -> Block:
        if whole := self._looked_up():
            return whole.pull(count)
        blocks: list[Block] = []
        missing = count
        while missing and self._within():
            block = self._upstream.pull(missing)
            length = block_length(block)
            if length:
                blocks.append(block)
                self._delivered = True
            if length < missing and not self._next_epoch():
                break
            missing -= length
        return concatenate(blocks)

    def items(self) -> Items[T]:
        if whole := self._looked_up():
            return whole.items()
        return Items(chain.from_iterable(self._runs()))

    def blocks(self, size: int) -> Iterator[Block]:
        whole = self._looked_up()
        return whole.blocks(size) if whole else pulled_blocks(self, size)

    def _runs(self) -> Iterator[Iterable[T]]:
        """The items of each epoch: the first item, which sets `_delivered`, then the rest."""
        while self._within():
            items = iter(self._upstream.items())
            for first in items:
                self._delivered = True
                yield (first,)
                yield items
                break
            if not self._next_epoch():
                break

    def skip(self, count: int) -> int:
        if whole := self._looked_up():
            return whole.skip(count)
        missing = count
        while missing and self._within():
            passed = self._upstream.skip(missing)
            self._delivered |= passed > 0
            missing -= passed
            if missing and not self._next_epoch():
                break
            missing -= self._advance_over(missing)
        return count - missing

    def origin(self, back: int) -> SourceItem | None:
        indexed = self._stage.indexed(self._start_epoch)
        place = None if indexed is None or self._whole is not None else self._upstream_position()
        if indexed is None or place is None:
            return (self._whole or self._upstream).origin(back)
        position = int(self._epoch_runs.items_before(self._finished)) + place
        # A block may reach over the end of an epoch, so items are counted over all epochs.
        return record_at(self._stage, self._start_epoch, position - back)

    @property
    def _items_delivered(self) -> int | None:
        inner, runs = self.inputs[0]._items_delivered, self._epoch_runs
        if inner is None or not self._finished:
            return inner
        return int(runs.items_before(self._finished)) + inner if runs.known else None

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        self._catch_up()
        return super().inputs

    @property
    def epoch(self) -> int:
        self._catch_up()
        return super().epoch

    def _reached(self) -> Iterator[Reach]:
        self._catch_up()
        begun: float = self._stage.epoch_of(self._start_epoch, self._finished) + 1
        if (
            self._epochs != self._finished + 1
            and self._epoch_runs.after(self._finished) == self._epoch_runs.epochs
        ):
            begun = UNBOUNDED  # it may have ended, since no later epoch has items
        yield Reach(self._stage, UNBOUNDED, begun)
        if self._finished:
            yield from reached_all(self._stage.split)
        else:
            yield from self._upstream._reached()

    def get_state(self) -> State:
        if self._whole is not None:
            self._catch_up()
        return {
            "pass": self._finished,
            "delivered": self._delivered,
            "upstream": self._upstream.get_state(),
        }

    def set_state(self, state: State) -> None:
        number, delivered, upstream = unpack(self._stage, state, "pass", "delivered", "upstream")
        epochs = self._stage.epochs
        last = None if epochs is None else max(epochs - 1, 0)
        number = unpack_count(self._stage, "pass", number, last, f"the last of {epochs} epochs")
        delivered = unpack_flag(self._stage, "delivered", delivered)
        self._whole = None
        self._begin(number)
        self._delivered = delivered
        self._upstream.set_state(upstream)

    def _use_workers_of(self, source: WorkerSource) -> WorkerSource:
        self._source = source
        return source

    def close(self) -> None:
        self._own_idle.close()  # first, so that no workers are kept for a further epoch
        if self._whole is not None:
            self._whole.close()
        super().close()

    def _advance_over(self, count: int) -> int:
        """Go to the epoch of the last of ``count`` items; returns the number of items skipped.

        Called at the start of an epoch.
        """
        runs = self._epoch_runs
        total = runs.total
        if not self._stage.upstream.random_access or not runs.known or not total:
            return 0
        before = int(runs.items_before(self._finished))
        last = int(min(before + count, total)) - 1
        number = runs.epoch_with(last) if last >= before else self._finished
        if number == self._finished:
            return 0
        self._begin(number)
        return int(runs.items_before(number)) - before

    def _looked_up(self) -> IndexedIterator[T] | None:
        """All epochs from here on as a single looked-up sequence; None if epochs may differ."""
        if self._whole is None and self._stage.alike and self._within():
            place = self._upstream_position()
            if place is not None:
                self._whole = IndexedIterator(self._stage, self._start_epoch)
                self._whole.skip(self._finished * len(self._stage.upstream) + place)
                self._upstream.close()  # it reads nothing; its state stays readable
        return self._whole

    def _upstream_position(self) -> int | None:
        """How many items upstream has handed out in its epoch, if upstream looks items up."""
        length = self._epoch_runs.length_of(self._finished)
        rest = self._upstream.state_at(length)
        return rest and length - rest[1]

    def _catch_up(self) -> None:
        """Move upstream to the position of `_whole`."""
        if self._whole is None:
            return
        place, position = self._upstream_position(), self._whole.position
        assert place is not None
        length = len(self._stage.upstream)
        if position != self._finished * length + place:
            number, last = divmod(position - 1, length)
            upstream = self._started(number)
            upstream.skip(last + 1)
            upstream.close()
            self._finished, self._delivered, self._upstream = number, True, upstream

    def _within(self) -> bool:
        return self._epochs is None or self._finished < self._epochs

    def _next_epoch(self) -> bool:
        """Begin the next epoch; False if no epoch follows."""
        following = self._epoch_runs.after(self._finished)
        if following == self._epochs or (self._epochs is None and not self._delivered):
            self._own_idle.close()
            return False
        restore_functions(self._upstream)
        self._begin(following)
        return True

    def _begin(self, number: int) -> None:
        self._finished, self._delivered = number, False
        self._upstream.close()
        self._upstream = self._started(number)

    def _started(self, number: int) -> StageIterator[Any]:
        """Upstream at the start of epoch ``number``."""
        stage, epoch = self._stage.in_pass(self._start_epoch, number)
        upstream: StageIterator[Any] = stage.start(epoch)
        reuse_workers(upstream, self._source)
        return upstream
