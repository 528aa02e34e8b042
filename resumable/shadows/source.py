"""The shadow of a source, which delivers origins of items."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

from ..core.block import Block, Indices, block_items, block_length
from ..core.computed_once import computed_once
from ..core.foreign_source import ExternalSource
from ..core.graph import with_inputs
from ..core.indexed import Indexed
from ..core.layout import LISTS, Layout
from ..core.lookup import IndexedIterator
from ..core.orders import Length
from ..core.origin import ItemOrigin, UnknownOrigin
from ..core.record_source import RecordSource, kind_of_source
from ..core.records import Records
from ..core.stage import Stage
from ..core.stage_iterator import SourceIterator, StageIterator
from ..core.transform import StateForwardingIterator
from ..errors import ExternalStateError
from ..state.value import State
from .traced import Traced


@final
@dataclass(frozen=True, eq=False, repr=False)
class SourceShadow(RecordSource[Any]):
    """The origins of the items of a source, or pairs of items and origins.

    Args:
      source: a stage without inputs.
      paired: whether items come with their origins. Without items and with random access, no item
        is read.
    """

    block_layout: ClassVar[Layout] = LISTS

    source: Stage[Any]
    paired: bool

    @computed_once
    def length(self) -> Length:
        return self.source.length

    @property
    def _first_epoch_only(self) -> str | None:
        return self.source._first_epoch_only

    def _numbers_of(self, records: Records) -> Indices:
        numbers: Indices = kind_of_source(self.source)._numbers_of(self.source, records)
        return numbers

    def _without_records(self, epoch: int, records: Mapping[int, Records]) -> Stage[Any] | None:
        remaining = kind_of_source(self.source)._without_records(self.source, epoch, records)
        if remaining is None or not remaining.inputs:
            return remaining and replace(self, source=remaining)
        return with_inputs(remaining, (self,))

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        source = self.source
        iterator = (_apart(source) if isinstance(source, ExternalSource) else source).start(epoch)
        if isinstance(iterator, IndexedIterator):
            return IndexedIterator(self, epoch)
        return _SourceShadowIterator(self, iterator)

    def indexed(self, epoch: int = 0) -> Indexed[Any] | None:
        indexed = self.source.indexed(epoch)
        if indexed is None:
            return None
        gather = indexed.gather
        origins = partial(kind_of_source(self.source)._origins, self.source)

        def pairs(numbers: Indices) -> Block:
            return list(map(Traced, block_items(gather(numbers)), origins(numbers)))

        return Indexed(pairs if self.paired else origins, every_epoch=indexed.every_epoch)


def _apart(source: ExternalSource[Any]) -> ExternalSource[Any]:
    """``source`` over a copy of an object with a position, since a pipeline may be reading it.

    Raises:
      ExternalStateError: if the object cannot be copied, or can be read only once.
    """
    if not source.keeps_position:
        return source
    if not source.reads_once:
        try:
            return deepcopy(source)
        except Exception as error:
            reason, cause = f"it cannot be copied: {type(error).__name__}: {error}", error
    else:
        reason, cause = "its items can be read once only", None
    raise ExternalStateError(
        f"the origins of the items of {source!r} cannot be told without taking them from the pipeline, since "
        f"{reason}; pass a function that makes the iterator"
    ) from cause


class _SourceShadowIterator(StateForwardingIterator[Any]):
    """Motion of the source itself, item by item."""

    _stage: Any

    def __init__(self, stage: SourceShadow, iterator: StageIterator[Any]) -> None:
        self._stage = stage
        self._upstream = iterator

    def pull(self, count: int) -> Block:
        found: list[Any] = []
        while len(found) < count and block_length(block := self._upstream.pull(1)):
            origin = self._origin_of_last()
            found.append(Traced(block_items(block)[0], origin) if self._stage.paired else origin)
        return found

    def _origin_of_last(self) -> ItemOrigin:
        if isinstance(self._upstream, SourceIterator):
            return self._upstream.last_origin()
        return UnknownOrigin(f"the records of {type(self._stage.source).__name__}")

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        return self._upstream.state_at(offset)

    @property
    def _items_delivered(self) -> int | None:
        return self._upstream._items_delivered
