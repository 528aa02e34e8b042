"""One of the equal parts of a partition's upstream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    IdentityField,
    IdentityFields,
    Relation,
    Sliced,
    Stage,
)
from ..core.graph import rebuilt
from .dealing import Deals

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Part(Deals[T]):
    """Upstream's items ``index``, ``index`` + ``count``, ``index`` + 2 ``count`` and so on.

    A `Part` stands only within a `Partition`, one for each partition. A part reads no items of
    other partitions.

    State: O(1), the number of items handed out. Random access is kept.

    Args:
      upstream: has random access.
      index: number of the partition.
      count: number of partitions.
    """

    identity: ClassVar[IdentityFields] = {
        "count": IdentityField(
            ALWAYS,
            shown_as="count of partitions",
            hint="the number of partitions is fixed for a run",
            whole_run=True,
        )
    }
    state_cost = "the position"

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, start=self.index, step=self.count)


def over_all_parts(stage: Stage[Any]) -> Stage[Any]:
    """``stage`` over whole sources instead of parts; ``stage`` itself outside partitions."""
    return rebuilt(stage, lambda _, found: found.upstream if isinstance(found, Part) else found)


def is_in_partition(stage: Stage[Any]) -> bool:
    """Whether ``stage`` is in the function of a partition, and so built on a part."""
    return any(isinstance(found, Part) for found in down_to_parts(stage))


def down_to_parts(stage: Stage[Any]) -> Iterator[Stage[Any]]:
    """The stages of the pipeline of a partition, down to the parts below."""
    yield stage
    if not isinstance(stage, Part):
        for upstream in stage.inputs:
            yield from down_to_parts(upstream)
