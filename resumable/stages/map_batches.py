"""Apply a function to groups of consecutive items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    PARTS,
    RANK,
    Block,
    Dependence,
    Held,
    IdentityFields,
    Relation,
    SavedState,
    Stage,
    StageIterator,
    block_items,
    check_int,
    computed_once,
)
from ..core.arguments import check_field
from ..core.callables import StandIn
from ..core.function_state import check_stateless
from ..core.origin import PartOrigin
from ..core.stage import InputShadows
from ..errors import InvalidType, MalformedItem, shorten
from ..groups.motion import GroupIterator, Groups
from ..shadows.traced import Traced, rows_of
from .map import CallsInWorkers


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MapBatches(CallsInWorkers[Any]):
    """The items of ``fn(batch)`` for every group of ``batch_size`` consecutive items.

    ``fn`` may return more items than the group has, fewer, or none. The last group of an epoch may
    be shorter.

    A batch is columns if the items are rows of arrays: items of `from_arrays` and `range`, also
    after stages that only choose, reorder, keep or join items. Columns are an array whose rows are
    the items, shape (n, ...), or a dict or tuple of arrays of this kind, with the dtypes of the
    source. Rows of `pack`, and of tables of only numbers and text, come as columns stacked as by
    `batch`. Any other batch is a list of items. Prefetches, workers and resumes do not change the
    kind of a batch. Columns need no Python object per item, and ``fn`` may return columns too.

    State: O(1), upstream's from before the current group, the number of the group, and an offset. A
    resume reads the group again and calls ``fn`` again.

    Args:
      upstream: stage whose items are grouped.
      fn: called with a batch; returns an iterable of items, or columns: an array, or a dict or
        tuple of arrays of one length. The result must be the same in every run, and ``fn`` must
        carry no state.
      batch_size: items in a group, at least 1.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.
      workers: number of threads or processes for ``fn``, 0 for none, as in `Map`.
      executor: where the workers are, as in `Map`: ``"thread"``, ``"process"`` or an executor.
      on_error: ``"raise"`` passes an exception of ``fn`` on, ``"skip"`` drops the whole group. The
        same groups must then fail in every run: a resume calls ``fn`` again for the groups dropped
        just before the current group, and takes the first result as the current group's.
      on_skip: with ``"skip"``, called as ``on_skip(number, error)`` for each group dropped.

    Raises:
      InvalidType: if ``fn`` cannot be called; while iterating, if ``fn`` returns no iterable.
      InvalidArgument: if ``batch_size`` is less than 1, if ``fn`` carries state, and where `Map`
        raises it.
      MalformedItem: while iterating, if the columns that ``fn`` returns differ in length.

    >>> list(rs.range(5).map_batches(lambda batch: batch[::-1], 2))
    [1, 0, 3, 2, 4]
    """

    identity: ClassVar[IdentityFields] = {**CallsInWorkers.identity, "batch_size": ALWAYS}

    batch_size: int

    def __post_init__(self) -> None:
        check_field(self, "batch_size", check_int, minimum=1)
        check_stateless("fn", self.fn)
        super().__post_init__()

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        return ITEMS | PARTS | RANK

    @property
    def state_cost(self) -> SavedState:
        own = super().state_cost.text
        text = "a group and an offset" + ("" if own == "nothing" else f", {own}")
        return SavedState(text, levels=2, resumes_before=True)

    @computed_once
    def read(self) -> Stage[Block]:
        return Groups(self.upstream, size=self.batch_size)

    @computed_once
    def called(self) -> Callable[[Block], Block]:
        return _Expanded(self.fn)

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        block = self.upstream.block_layout.block
        fn = _MapsGroup(self.fn, block)
        return replace(self, upstream=inputs.pairs[0], fn=fn, on_skip=None)

    def start_calling(self, epoch: int) -> StageIterator[Any]:
        return GroupIterator(self, super().start_calling(epoch), _as_made)


@final
class _Expanded(StandIn[Callable[[Any], Iterable[Any]]]):
    """Calls a function with a batch, and makes a block of the result; sent to workers."""

    def __call__(self, batch: Block) -> Block:
        return _as_block(self.fn(batch))


@final
class _MapsGroup(StandIn[Callable[[Any], Iterable[Any]]]):
    """Calls a function with the items of a group; each result may be made of any of the items."""

    def __init__(
        self, fn: Callable[[Any], Iterable[Any]], layout: Callable[[Block], Block]
    ) -> None:
        super().__init__(fn)
        self._layout = layout

    def __call__(self, group: list[Traced[Any]]) -> list[Traced[Any]]:
        made = _as_block(self.fn(self._layout([one.item for one in group])))
        whole = rows_of(group)
        return [
            Traced(item, PartOrigin(whole, number)) for number, item in enumerate(block_items(made))
        ]


def _as_block(made: Any) -> Block:
    """The returned items of a function, as a block."""
    fields = made.values() if isinstance(made, Mapping) else made if isinstance(made, tuple) else ()
    if fields and all(isinstance(field, np.ndarray) and field.ndim for field in fields):
        lengths = sorted({len(field) for field in fields})
        if len(lengths) > 1:
            raise MalformedItem(f"columns that fn returns must have one length, got {lengths}")
        return dict(made) if isinstance(made, Mapping) else made
    if isinstance(made, list) or (isinstance(made, np.ndarray) and made.ndim):
        return made
    if isinstance(made, (str, bytes, Mapping, np.ndarray)) or not isinstance(made, Iterable):
        raise InvalidType(
            "the function of map_batches must return an iterable of items, an array, or a dict or "
            f"tuple of arrays, got {shorten(made)}"
        )
    return list(made)


def _as_made(block: Block, group: int) -> Block:
    return block
