"""The shadow of a pipeline: the same positions and states, with origins instead of items."""

# A shadow is made of the stages of its pipeline, so the shadow moves, saves and restores like the
# pipeline. A stage that never looks at an item gets origins instead of items. If an item decides
# the following items, pairs of item and origin travel, and functions get the item. A stage chooses
# in `_traced`. A user's stage need not: the stage reads plain items, and the origins of its inputs
# are noted.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

from ..core.combine import joins_inputs
from ..core.computed_once import computed_once
from ..core.graph import with_inputs, without_threads
from ..core.identity import RANK
from ..core.indexed import Indexed
from ..core.layout import LISTS, Layout
from ..core.lookup import IndexedIterator
from ..core.origin import ItemOrigin
from ..core.reach import Reach
from ..core.relation import Aligned, Grouped, Held, Same
from ..core.stage import InputShadows, Stage
from ..core.stage_iterator import StageIterator
from ..core.timeline import UNBOUNDED
from ..core.transform import ForwardingIterator, PassThrough
from ..state.value import State
from .by_index import follows_from_relations, origins_by_index
from .source import SourceShadow
from .tapped import Tapped
from .traced import (
    Each,
    Traced,
    joined_origins,
    names_of_inputs,
    origin_alone,
    origin_beside,
    rows_alike,
    through_input,
)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Origins(PassThrough[ItemOrigin]):
    """The origin of each item of the upstream, instead of the item.

    State: as of the upstream, so a state of either pipeline resumes the other. Random access is
    kept, and any step then costs only its origins: no user function is called, and no item is read,
    unless a stage decides by the content of its items (`filter`, `flat_map`, `pack`, `bucket` and
    the like).

    Args:
      upstream: any pipeline.

    >>> pipeline = rs.range(100).shuffle(seed=0).batch(2)
    >>> [origin.record for origin in rs.origins(pipeline)[7]] == pipeline[7].tolist()
    True
    """

    block_layout: ClassVar[Layout] = LISTS

    @computed_once
    def shadow(self) -> Stage[ItemOrigin]:
        """The stages that deliver origins."""
        return shadow_of(without_threads(self.upstream), paired=False)

    def start(self, epoch: int = 0) -> StageIterator[ItemOrigin]:
        iterator = self.shadow.start(epoch)
        if isinstance(iterator, IndexedIterator):
            return IndexedIterator(self, epoch)
        return _OriginsIterator(self, iterator, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[ItemOrigin] | None:
        items = self.upstream.indexed(epoch) if follows_from_relations(self.upstream) else None
        if items is not None:
            return origins_by_index(self.upstream, epoch, items)
        return self.shadow.indexed(epoch)


class _OriginsIterator(ForwardingIterator[ItemOrigin]):
    """Motion of the shadow."""

    def __init__(self, stage: Origins, shadow: StageIterator[ItemOrigin], epoch: int) -> None:
        self._stage = stage
        self._upstream = shadow
        self._start_epoch = epoch

    def state_at(self, offset: int) -> tuple[State, int] | None:
        return self._upstream.state_at(offset)

    def _reached(self) -> Iterator[Reach]:
        """Number of items read from the stages of the pipeline, instead of its shadow."""
        iterator = without_threads(self._stage.upstream).start(self._start_epoch)
        iterator.set_state(self.get_state())
        yield Reach(self._stage, UNBOUNDED)
        yield from iterator._reached()


def shadow_of(stage: Stage[Any], *, paired: bool) -> Stage[Any]:
    """The shadow of ``stage``.

    Args:
      stage: the last stage of a pipeline without threads and workers.
      paired: whether the shadow delivers items with their origins, as `Traced`, rather than origins
        alone.
    """
    if isinstance(stage, Origins):
        origins = shadow_of(stage.upstream, paired=False)
        return Each(origins, _of_itself) if paired else origins
    if isinstance(stage, PassThrough) and _passes_on(stage):
        return shadow_of(stage.upstream, paired=paired)
    if not stage.inputs:
        return SourceShadow(stage, paired)
    inputs = InputShadows(paired, partial(_shadows_before, stage))
    made = stage._traced(inputs)
    if made is None and _is_blind(stage):
        return with_inputs(stage, inputs.alike)
    if made is None and (join := _joins_origins(stage)):
        return Each(with_inputs(stage, inputs.alike), join)
    made = made or Tapped(stage, inputs.pairs)
    return made if paired else Each(made, origin_alone)


def _is_blind(stage: Stage[Any]) -> bool:
    """Whether the stage never looks at an item, and holds no item in its state.

    Origins may then replace items.
    """
    if isinstance(stage, PassThrough):
        return stage.ignores_items
    relation = stage.relation(0)
    if isinstance(relation, Held) and stage.depends_on & RANK:
        return False
    looks = isinstance(relation, Same) and relation.in_order  # a user's stage may look
    return stage.unchanged and not looks and not stage.user_functions


def _joins_origins(stage: Stage[Any]) -> Callable[[Any], Any] | None:
    """A function that makes origins of the items of ``stage`` over shadows; None if impossible."""
    relation = stage.relation(0)
    if isinstance(relation, Grouped) and relation.is_slice:
        return partial(rows_alike, relation.make)
    if isinstance(relation, (Same, Aligned)) and relation.make is not None and relation.make.is_row:
        return joined_origins if isinstance(relation, Aligned) else origin_beside
    return None


def _of_itself(origin: ItemOrigin) -> Traced[ItemOrigin]:
    """An item that is an origin, with itself as origin."""
    return Traced(origin, origin)


def _passes_on(stage: PassThrough[Any]) -> bool:
    """Whether the upstream's items are delivered unchanged, without motion of a user's stage."""
    kind = type(stage)
    return kind.start is PassThrough.start and kind.indexed is PassThrough.indexed


def _shadows_before(stage: Stage[Any], paired: bool) -> tuple[Stage[Any], ...]:
    """The shadows of the inputs of ``stage``; if inputs are joined, each origin names its input."""
    found = tuple(shadow_of(upstream, paired=paired) for upstream in stage.inputs)
    if not joins_inputs(stage):
        return found
    names = names_of_inputs(stage)
    return tuple(
        Each(one, partial(through_input, name)) for name, one in zip(names, found, strict=True)
    )
