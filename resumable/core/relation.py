"""The relation of a stage: which input items each item is made of."""

# A stage describes the relation once, for one of its epochs. Length, random access, how far inputs
# were read, origins and exclusion all follow from the class of the relation. A relation computes no
# order and reads nothing before it is asked. A relation is no licence for random access
# (`in_order`), no state and no policy. A stage must not store its relation: the relation refers to
# the stage, and the cycle would keep both alive after their pipeline.

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np

from .block import Block, Indices, joined_ranges
from .epoch_runs import EpochRuns
from .indexed import Indexed
from .orders import Length, Order, Remains, TurnOrder, check_reach, countable
from .timeline import UNBOUNDED

DRAWN_AT_ONCE: Final = 1 << 16


class InputItems(NamedTuple):
    """The items of a stage in an epoch, as read by a relation."""

    stage: Any
    epoch: int


class Made(NamedTuple):
    """The input items of some outputs, one output after another.

    Attributes:
      numbers: the input of each item, shape (m,); None if all items are of input 0.
      indices: the index of each item in its input, shape (m,).
      counts: number of input items of each output, shape (n,); None for one item each.
    """

    numbers: Indices | None
    indices: Indices
    counts: Indices | None


class Joined(NamedTuple):
    """How to make items from the items at the same index of several inputs.

    Attributes:
      blocks: makes a block from one block of each input.
      items: makes an iterator from one iterator of each input, as `map` and `zip` do: no item is
        computed before it is taken.
      beside: random access to numbers placed before the inputs; None for no numbers.
      is_row: whether an item is a tuple or a dict of input items, so that substitutes may replace
        input items.
    """

    blocks: Callable[..., Block]
    items: Callable[..., Iterator[Any]]
    beside: Indexed[Any] | None = None
    is_row: bool = False


@dataclass(eq=False)
class Relation(ABC):
    """Which items of the inputs each item of ``stage`` in ``epoch`` is made of.

    Args:
      stage: the stage described.
      epoch: epoch of ``stage``.
      input_at: returns the stage and the epoch of an input; by default the same input of ``stage``
        in the same epoch.
      in_order: whether items can only be made one after another, as by a function with state. Such
        a stage has no random access.
    """

    stage: Any
    epoch: int
    _: KW_ONLY
    input_at: Callable[[int], InputItems] | None = None
    in_order: bool = False

    has_epoch_of_input = True
    """Whether the epoch of an item is the epoch of its last input item, an item of input 0."""
    ascending = True
    """Whether later items are made of later input items."""

    def inputs(self, number: int) -> InputItems:
        """The stage and the epoch of input ``number``."""
        if self.input_at is not None:
            return self.input_at(number)
        return InputItems(self.stage.inputs[number], self.epoch)

    @property
    def lengths(self) -> Sequence[Length]:
        """The length of each input of ``stage``."""
        return [self.inputs(number).stage.length for number in range(len(self.stage.inputs))]

    @property
    def upstream_length(self) -> Length:
        """The length of the only input."""
        read = self.stage.inputs[0] if self.input_at is None else self.input_at(0).stage
        length: Length = read.length
        return length

    @property
    def length(self) -> Length:
        """Number of items; by default the length of the only input."""
        return self.upstream_length

    @abstractmethod
    def inputs_of(self, outputs: Indices) -> Made:
        """The input items of ``outputs``, shape (n,)."""

    @abstractmethod
    def reads(self, count: float) -> Sequence[float]:
        """Items read of each input, at most, for ``count`` consecutive items from any place.

        Counted from the start of the epoch for the first ``count`` items of the epoch. Infinite if
        all items may have been read. The end of an input counts as one more item.
        """

    def given(self, count: int) -> Sequence[tuple[InputItems, float]]:
        """Items given by each input for the first ``count`` outputs; infinity if unknown."""
        found = []
        for number, items in enumerate(self.reads(count)):
            of_input = self.inputs(number)
            length = of_input.stage.length
            known = items != UNBOUNDED and length is not None
            found.append((of_input, min(items, length) if known and length is not None else items))
        return found

    def outputs_after(self, items: int) -> int | None:
        """Outputs handed out after ``items`` of input 0, with no output begun; None if unknown."""
        return None

    def last_of(self, output: int) -> int:
        """The index in input 0 of the last input item of ``output``."""
        return int(self.inputs_of(np.array([output], np.int64)).indices[-1])

    def outputs_of(self, number: int, items: Indices) -> Indices:
        """The indices of the outputs made of ``items``, shape (m,), of input ``number``.

        Some indices may lie after the last output, where the input is longer.

        Raises:
          NotImplementedError: if the outputs are not known without reading.
        """
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def _before_end(self, outputs: Indices) -> Indices:
        """The entries of ``outputs`` below the length."""
        return outputs if self.length is None else outputs[outputs < self.length]


@final
@dataclass(eq=False)
class Same(Relation):
    """Item i is made of item i of the only input.

    Args:
      make: how to make items; by default the items of the input are unchanged.
      kept: whether items are kept from epoch to epoch, so that any item may have been read before.
      numbered: whether item i is made of the number i too.
    """

    make: Joined | None = None
    kept: bool = False
    numbered: bool = False

    @property
    def has_epoch_of_input(self) -> bool:  # type: ignore[override]
        return not self.kept

    def inputs_of(self, outputs: Indices) -> Made:
        return Made(None, outputs, None)

    def outputs_after(self, items: int) -> int | None:
        return None if self.kept else items

    def reads(self, count: float) -> Sequence[float]:
        return [UNBOUNDED if self.kept and count else count] * len(self.stage.inputs)

    def outputs_of(self, number: int, items: Indices) -> Indices:
        return items


@dataclass(eq=False)
class Moved(Relation):
    """Items of the only input, unchanged, at other indices."""

    @property
    def stride(self) -> float:
        """Distance in the input between neighbouring outputs; 0 if arbitrary."""
        return 1

    @abstractmethod
    def indices_of(self, outputs: Indices) -> Indices:
        """The index in the input of each output; both of shape (n,)."""

    def inputs_of(self, outputs: Indices) -> Made:
        return Made(None, self.indices_of(outputs), None)

    def reads(self, count: float) -> Sequence[float]:
        return [UNBOUNDED if count else 0]


@final
@dataclass(eq=False)
class Sliced(Moved):
    """Items ``start``, ``start + step`` and so on before ``stop``, unchanged.

    Args:
      start: index of the first item.
      step: distance from one item to the next.
      stop: exclusive upper bound of the indices.
      by_ranks: whether other ranks have the rest of each ``step`` items, at the same step of the
        run.
      last: (index of the output, index of the input item) of an item that lies elsewhere, if any.
      items: number of items, if the number does not follow from the other arguments.
    """

    start: int = 0
    step: int = 1
    stop: float = math.inf
    by_ranks: bool = False
    last: tuple[int, int] | None = None
    items: int | None = None

    @property
    def length(self) -> Length:
        found = self.upstream_length
        if found is None:
            return 0 if self.stop == 0 else None
        if self.items is not None:
            return self.items
        if self.stop < math.inf:
            found = min(countable(found), self.stop)
        if found == math.inf:
            return found
        return max(-(-(int(found) - self.start) // self.step), 0)

    @property
    def stride(self) -> float:
        return self.step

    def indices_of(self, outputs: Indices) -> Indices:
        if self.upstream_length == math.inf and len(outputs):
            check_reach(int(outputs.max()) * self.step + self.start)
        indices: Indices = (outputs * self.step if self.step > 1 else outputs) + self.start
        if self.last is not None:
            indices[outputs == self.last[0]] = self.last[1]
        return indices

    def outputs_after(self, items: int) -> int | None:
        return -(-items // self.step) if self.by_ranks else None

    def reads(self, count: float) -> Sequence[float]:
        if self.by_ranks or not count:
            return [count * self.step]
        return [min((count - 1) * self.step + self.start + 1, self.stop)]

    def outputs_of(self, number: int, items: Indices) -> Indices:
        here = (items >= self.start) & (items < self.stop) & ((items - self.start) % self.step == 0)
        outputs: Indices = (items[here] - self.start) // self.step
        if self.last is not None and self.last[1] in items:
            outputs = np.append(outputs, self.last[0])
        return self._before_end(outputs)


@final
@dataclass(eq=False, kw_only=True)
class Permuted(Moved):
    """All items, unchanged, in another order.

    Args:
      order: returns the order.
      local: whether neighbours are near each other in the input.
    """

    order: Callable[[], Order]
    local: bool = False

    ascending = False

    @property
    def stride(self) -> float:
        return 1 if self.local else 0

    def indices_of(self, outputs: Indices) -> Indices:
        # Looked up for each run of indices, since a permutation takes time to set up.
        return self.order()(outputs) if len(outputs) else outputs

    def outputs_of(self, number: int, items: Indices) -> Indices:
        return self.order().inverse(items) if len(items) else items


@final
@dataclass(eq=False, kw_only=True)
class Drawn(Moved):
    """Items drawn with replacement, unchanged.

    Args:
      draw: returns the item at each index; both of shape (n,).
      items: number of draws.
    """

    draw: Callable[[Indices], Indices]
    items: int

    ascending = False

    @property
    def length(self) -> Length:
        return self.items

    stride = 0

    def indices_of(self, outputs: Indices) -> Indices:
        return self.draw(outputs)

    def outputs_of(self, number: int, items: Indices) -> Indices:
        found = [np.empty(0, np.int64)]
        for start in range(0, self.items, DRAWN_AT_ONCE):
            stop = min(start + DRAWN_AT_ONCE, self.items)
            found.append(start + np.flatnonzero(np.isin(self.draw(np.arange(start, stop)), items)))
        return np.concatenate(found)


@final
@dataclass(eq=False, kw_only=True)
class Kept(Moved):
    """The items that remain after an exclusion, unchanged.

    Args:
      remaining: returns the remaining items; called only where upstream has random access.
      keeps_all: whether nothing is left out.
    """

    remaining: Callable[[], Remains]
    keeps_all: bool = False

    @property
    def length(self) -> Length:
        return self.remaining().length if self.stage.inputs[0].random_access else None

    def indices_of(self, outputs: Indices) -> Indices:
        return self.remaining().indices_of(outputs)

    def reads(self, count: float) -> Sequence[float]:
        length = self.length if count else 0
        if not count or not length:
            return [UNBOUNDED if count else 0]
        if count == UNBOUNDED:
            return [UNBOUNDED]
        if count > length:  # the end of the input was seen, after any excluded items at the end
            return [(self.upstream_length or 0) + 1]
        return [self.remaining().index_of(int(count) - 1) + 1]

    def outputs_of(self, number: int, items: Indices) -> Indices:
        found = [self._output_of(item) for item in items.tolist()]
        return np.array([place for place in found if place is not None], np.int64)

    def _output_of(self, item: int) -> int | None:
        remaining = self.remaining()
        places = range(int(min(remaining.length, item + 1)))
        place = bisect_left(places, item, key=remaining.index_of)
        return place if place in places and remaining.index_of(place) == item else None


@final
@dataclass(eq=False, kw_only=True)
class Routed(Relation):
    """Each item is the next item of one of the inputs, unchanged.

    Args:
      total: returns the number of items.
      turns: returns the input of each output.
      cycles: whether a finished input restarts, so that all of the input may have been read.
      sees_ends: whether any input may have ended before an output, since lengths of inputs are not
        known.
    """

    total: Callable[[], Length]
    turns: Callable[[], TurnOrder]
    cycles: bool = False
    sees_ends: bool = False

    has_epoch_of_input = False

    @property
    def length(self) -> Length:
        return self.total()

    def inputs_of(self, outputs: Indices) -> Made:
        return Made(*self.turns().items_of(outputs), None)

    def reads(self, count: float) -> Sequence[float]:
        lengths = [one.length for one in self.stage.inputs]
        if not count or count == UNBOUNDED or self.sees_ends:
            return [count] * len(lengths)
        found = self.turns().turns_before(int(count))
        if not self.cycles:
            return found
        return [
            UNBOUNDED if length is None or items > length else items
            for items, length in zip(found, lengths, strict=True)
        ]

    def given(self, count: int) -> Sequence[tuple[InputItems, float]]:
        counts = self.turns().turns_before(count)
        inputs = [self.inputs(number) for number in range(len(counts))]
        return [
            (found, items if found.stage.length is None else min(items, found.stage.length))
            for found, items in zip(inputs, counts, strict=True)
        ]

    def outputs_of(self, number: int, items: Indices) -> Indices:
        turns = self.turns()
        found = [turns.turn_of(number, item) for item in items.tolist()]
        return self._before_end(np.array(found, np.int64))


@final
@dataclass(eq=False, kw_only=True)
class Repeated(Relation):
    """Epochs of the only input, one after another; input n is the only input in the n-th epoch.

    Args:
      split: the input, split by the epochs where the input is another pipeline.
      runs: where the epochs of the input lie.
      is_first: whether the first epoch is epoch 0 of the input.
      in_partition: whether other partitions have the rest, so that this partition may be left
        without items.
    """

    split: Any
    runs: EpochRuns
    is_first: bool
    in_partition: Callable[[], bool] = lambda: False

    @property
    def ascending(self) -> bool:  # type: ignore[override]
        # An earlier pipeline by epoch may count more epochs within itself than a later pipeline.
        return not self.split._changes

    @property
    def length(self) -> Length:
        return self.runs.total

    def inputs_of(self, outputs: Indices) -> Made:
        return Made(*self.runs.places(outputs), None)

    def reads(self, count: float) -> Sequence[float]:
        length = self.split.length
        return [count if length is not None and count <= length else UNBOUNDED]

    def given(self, count: int) -> Sequence[tuple[InputItems, float]]:
        number = self.runs.epoch_with(count - 1) if count and not self.in_order else 0
        before = self.runs.items_before(number) if number else 0
        return [(self.inputs(number), count - before)]

    def epochs_begun(self, count: float) -> float:
        """Epochs of the input begun, at most, for the first ``count`` items of epoch 0."""
        if not self.is_first:
            return UNBOUNDED
        if not count:
            return 1
        if self.in_order or count > (self.length or 0) or count == UNBOUNDED:
            return UNBOUNDED
        return self.runs.epoch_with(int(count) - 1) + 1


@final
@dataclass(eq=False, kw_only=True)
class Aligned(Relation):
    """Item i is made of item i of every input.

    Args:
      make: how to make an item.
    """

    make: Joined

    @property
    def length(self) -> Length:
        known = [length for length in self.lengths if length is not None]
        return min(known) if len(known) == len(self.lengths) or 0 in known else None

    def inputs_of(self, outputs: Indices) -> Made:
        width = len(self.stage.inputs)
        numbers = np.tile(np.arange(width), len(outputs))
        return Made(numbers, np.repeat(outputs, width), np.full(len(outputs), width))

    def outputs_after(self, items: int) -> int | None:
        return None if self.length is None else items  # another input may have ended earlier

    def reads(self, count: float) -> Sequence[float]:
        return [count] * len(self.stage.inputs)

    def outputs_of(self, number: int, items: Indices) -> Indices:
        return self._before_end(items)


@final
@dataclass(eq=False, kw_only=True)
class Grouped(Relation):
    """Item i is made of ``size`` neighbours from item i * ``shift`` on; of fewer at the end.

    Args:
      size: items in a group, at least 1.
      shift: items from the start of a group to the start of the next; by default ``size``.
      drop_last: whether shorter groups are left out.
      make: makes an item of a block of the items of a group.
      is_slice: whether ``make`` copies the block, so that the block may be a slice of the source's
        data.
    """

    size: int
    make: Callable[[Block], Any]
    shift: int | None = None
    drop_last: bool = False
    is_slice: bool = False

    @property
    def step(self) -> int:
        """Items from the start of a group to the start of the next."""
        return self.shift or self.size

    @property
    def length(self) -> Length:
        items = self.upstream_length
        if items is None or items == math.inf:
            return items
        return self.groups_in(int(items))

    def groups_in(self, items: int) -> int:
        """Number of groups in ``items`` items."""
        if self.drop_last:
            return max((items - self.size) // self.step + 1, 0)
        return -(-items // self.step)

    def inputs_of(self, outputs: Indices) -> Made:
        if self.upstream_length == math.inf and len(outputs):
            check_reach(int(outputs.max()) * self.step + self.size - 1)
        starts = outputs * self.step
        counts = np.minimum(countable(self.upstream_length or 0) - starts, self.size)
        return Made(None, joined_ranges(starts, counts), counts)

    def outputs_after(self, items: int) -> int:
        return items // self.step if self.drop_last else -(-items // self.step)

    def reads(self, count: float) -> Sequence[float]:
        return [(count - 1) * self.step + self.size if count else 0]

    def outputs_of(self, number: int, items: Indices) -> Indices:
        firsts = np.maximum(-(-(items - self.size + 1) // self.step), 0)
        counts = np.maximum(items // self.step - firsts + 1, 0)
        return self._before_end(np.unique(joined_ranges(firsts, counts)))


@final
@dataclass(eq=False, kw_only=True)
class Split(Relation):
    """Items i * ``size`` to (i + 1) * ``size`` - 1 are made of item i.

    Args:
      size: items made of each input item, at least 1.
      make: returns a block of ``size`` items, the same in every call.
      in_rows: whether the items are those that item i was made of, in order, if equally many.
    """

    size: int
    make: Callable[[Any], Block]
    in_rows: bool = False

    @property
    def length(self) -> Length:
        items = self.upstream_length
        return items if items is None or items == math.inf else int(items) * self.size

    def inputs_of(self, outputs: Indices) -> Made:
        return Made(None, outputs // self.size, None)

    def outputs_after(self, items: int) -> int:
        return items * self.size

    def reads(self, count: float) -> Sequence[float]:
        return [count if count == UNBOUNDED else -(-count // self.size)]

    def outputs_of(self, number: int, items: Indices) -> Indices:
        return (items[:, None] * self.size + np.arange(self.size)).reshape(-1)


@final
@dataclass(eq=False)
class Held(Relation):
    """Items with inputs known only after reading: the stage decides by items, or keeps some.

    Args:
      items: number of items; None if unknown.
      like: class of the relation whose numbers are known only after reading: ``Kept`` where the
        stage chooses among the items, `Grouped` where the stage makes groups of several, `Same`
        where the stage makes one item of each, depending on earlier items, or drops some.
    """

    items: Length = None
    in_order: bool = True
    like: type[Relation] | None = None

    has_epoch_of_input = False

    @property
    def length(self) -> Length:
        return self.items

    def inputs_of(self, outputs: Indices) -> Made:
        raise NotImplementedError("the inputs of an item are known only after reading")

    def reads(self, count: float) -> Sequence[float]:
        return [UNBOUNDED if count else 0] * len(self.stage.inputs)


def endless(stage: Any) -> Length:
    """`math.inf` if all inputs of ``stage`` are endless, else None.

    The length of a stage that ends with its inputs alone, with items known only after reading.
    """
    return math.inf if all(each.length == math.inf for each in stage.inputs) else None


def kind_of(stage: Any) -> type[Any]:
    """The class of the relation of ``stage``, also if the numbers are known only after reading."""
    relation: Relation | None = stage.relation(0)
    return (isinstance(relation, Held) and relation.like) or type(relation)


def one_for_each(stage: Any) -> bool:
    """Whether each item is made of the input item with the same number, and of no other."""
    return bool(stage.alone) and isinstance(stage.relation(0), Same)


def one_by_one(stage: Any) -> bool:
    """Whether one item of the only input is read for each, or a few more where some are dropped."""
    return kind_of(stage) is Same and len(stage.inputs) == 1
