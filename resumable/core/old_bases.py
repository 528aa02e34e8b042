"""What stands for the bases of iterators that 0.3 had, until 0.5."""

from __future__ import annotations

from typing import Any, final

from .stage_iterator import StageIterator


def blocks_of(iterator: Any, size: int) -> Any:
    """The ``blocks`` of ``iterator``, which no longer need a function."""
    return iterator.blocks(size)


@final
class OldBase:
    """Stands in a class statement for a base of 0.3 whose methods every `StageIterator` has."""

    def __getitem__(self, item: object) -> OldBase:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type[Any], ...]:
        kinds = [getattr(one, "__origin__", one) for one in bases]
        others = [one for one in kinds if isinstance(one, type) and issubclass(one, StageIterator)]
        is_first = next(one for one in bases if isinstance(one, OldBase)) is self
        return (StageIterator,) if is_first and not others else ()

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, StageIterator)
