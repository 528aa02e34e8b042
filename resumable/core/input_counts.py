"""How many items each input of a mixture has given, by the state of a pipeline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .combine import Combine
from .stage import Stage
from .stage_iterator import StageIterator
from .timeline import UNBOUNDED

T = TypeVar("T")


class MixesInputs(Combine[T]):
    """A stage that takes its items from one input or another."""

    @abstractmethod
    def items_of_inputs(self, items: int, epoch: int) -> Sequence[float] | None:
        """How many of its first ``items`` items in ``epoch`` are of each input; None if unknown."""


class CountsInputs(StageIterator[T]):
    """Motion of a stage that `MixesInputs`."""

    @property
    @abstractmethod
    def items_of_inputs(self) -> Sequence[float] | None:
        """How many items of each input were handed out in this epoch; None if unknown."""


class DealsInput(StageIterator[T]):
    """Motion of a stage that deals the items of its input out to ranks."""

    @property
    @abstractmethod
    def items_of_input(self) -> int:
        """How many items of the input all ranks have handed out in this epoch."""


def input_counts(root: StageIterator[Any]) -> dict[str, int]:
    """How many items the inputs of mixtures have given in their epoch, by name or number.

    Of a mixture that is an input of another one, or of another stage with several inputs, names are joined
    by a slash. A mixture is left out if that is unknown: before a `shuffle` that looks items up, within a
    `partition`, or where its epoch has ended.

    Args:
      root: an iterator without threads that stands at a state.
    """
    return dict(_by_motion(root, ""))


def _by_motion(iterator: StageIterator[Any], prefix: str) -> Iterator[tuple[str, int]]:
    stage = iterator._stage
    if not isinstance(stage, Stage):
        return
    if isinstance(iterator, DealsInput):
        (dealt,) = stage.inputs
        yield from _by_index(dealt, iterator.items_of_input, iterator.epoch, prefix)
        return
    if stage.random_access and (state := iterator.get_state()).keys() == {"position"}:
        items = stage._position_in(state, iterator.epoch)
        yield from _by_index(stage, items, iterator.epoch, prefix)
        return
    if isinstance(iterator, CountsInputs):
        yield from _named(stage, iterator.items_of_inputs, prefix)
    for place, upstream in enumerate(iterator.inputs):
        yield from _by_motion(upstream, prefix + _part(stage, iterator, place))


def _by_index(
    stage: Stage[Any], items: float, epoch: int, prefix: str
) -> Iterator[tuple[str, int]]:
    if items == UNBOUNDED:
        return
    needed: Sequence[float] | None = stage._inputs_reached(items)
    if isinstance(stage, MixesInputs):
        needed = stage.items_of_inputs(int(items), epoch)
        yield from _named(stage, needed, prefix)
    names = _names(stage)
    for name, upstream, count in zip(names, stage.inputs, needed or (), strict=False):
        inner = f"{prefix}{name}/" if len(names) > 1 else prefix
        yield from _by_index(upstream, count, epoch, inner)


def _named(
    stage: Stage[Any], items: Sequence[float] | None, prefix: str
) -> Iterator[tuple[str, int]]:
    for name, count in zip(_names(stage), items or (), strict=False):
        yield prefix + name, int(count)


def _names(stage: Stage[Any]) -> Sequence[str]:
    names = getattr(stage, "names", None) if isinstance(stage, Combine) else None
    return names or [str(number) for number in range(len(stage.inputs))]


def _part(stage: Stage[Any], iterator: StageIterator[Any], place: int) -> str:
    """The name of an input of ``iterator`` and a slash, if ``stage`` has several."""
    if len(stage.inputs) < 2:
        return ""
    if len(iterator.inputs) < len(stage.inputs):  # those that are being read
        read = iterator.inputs[place]._stage
        place = next((number for number, one in enumerate(stage.inputs) if one is read), place)
    return f"{_names(stage)[place]}/"
