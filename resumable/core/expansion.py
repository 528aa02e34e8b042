"""Open what a user function made of one item, at an offset."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from ..errors import InvalidType, StateMismatch, shorten
from .indexed import IndexedIterator
from .stage import Stage, as_stage
from .stage_iterator import StageIterator


def inner_stage(made: Any) -> Stage[Any] | None:
    """The stage that ``made`` is or wraps, if it is a pipeline."""
    stage = getattr(made, "stage", made)
    return as_stage(stage) if isinstance(stage, Stage) else None


def expand(made: Any, epoch: int, offset: int, owner: Stage[Any]) -> Iterator[Any]:
    """Iterate ``made``, an iterable or a pipeline, from item ``offset`` on.

    Raises:
      InvalidType: if it is neither.
      StateMismatch: if it has fewer items.
    """
    stage = inner_stage(made)
    if stage is not None:
        return _expanded_stage(stage, epoch, offset, owner)
    try:
        iterator: Iterator[Any] = iter(made)
    except TypeError:
        raise InvalidType(
            f"the function of {type(owner).__name__} must return an iterable or a pipeline, "
            f"got {shorten(made)}"
        ) from None
    _check_passed(sum(1 for _ in islice(iterator, offset)), offset, owner)
    return iterator


def close_expansion(items: Iterator[Any]) -> None:
    """End what `expand` opened: its threads, or the generator that was made."""
    if isinstance(items, (StageIterator, Generator)):
        items.close()


def _expanded_stage(
    stage: Stage[Any], epoch: int, offset: int, owner: Stage[Any]
) -> StageIterator[Any]:
    if stage.random_access:
        indexed: StageIterator[Any] = IndexedIterator(stage, epoch)
        length = stage.length
        assert length is not None
        _check_passed(int(min(offset, length)), offset, owner)
        indexed.set_state({"position": offset})
        return indexed
    iterator = stage.start(epoch)
    _check_passed(sum(1 for _ in islice(iterator, offset)), offset, owner)
    return iterator


def _check_passed(passed: int, offset: int, owner: Stage[Any]) -> None:
    if passed < offset:
        raise StateMismatch(
            f"saved offset={offset} lies beyond the {passed} items that the function makes of "
            "this item; does it return the same items in every run?",
            owner,
        )
