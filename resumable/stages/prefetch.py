"""Compute the next items in a background thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final

from ..core import PassThrough, StageIterator, check_int
from ..core.stage import RunsAhead
from ..workers.prefetching import PrefetchIterator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Prefetch(RunsAhead[T], PassThrough[T]):
    """Upstream's items, with up to ``buffer_size`` of them computed ahead by a thread.

    The thread starts with the first item and ends with the last one, at `close`, when the
    iterator is dropped, and when the interpreter exits.

    State: upstream's, after the last item handed out. Random access is kept.

    Args:
      upstream: stage that runs in the thread.
      buffer_size: items ready ahead, at least 0; 0 computes each item on demand.
        May differ between save and resume.

    Raises:
      InvalidArgument: if ``buffer_size`` is below 0.
      InvalidType: if ``buffer_size`` is not an integer.

    >>> with iter(rs.range(5).map(abs).prefetch(2)) as iterator:
    ...     list(iterator)
    [0, 1, 2, 3, 4]
    """

    ignores_items = True

    buffer_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("buffer_size", self.buffer_size, minimum=0)

    @property
    def tuning_variants(self) -> tuple[Mapping[str, Any], ...]:
        size = self.buffer_size
        return ({"buffer_size": 0}, {"buffer_size": 2 * size + 1}) if size else ()

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.buffer_size == 0:
            return super().start(epoch)
        return PrefetchIterator(self, epoch, self.buffer_size)
