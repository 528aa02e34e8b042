"""Save at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from .base import Progress, Trigger


@final
@dataclass(frozen=True)
class AtEnd(Trigger):
    """Due at a clean end: the pipeline is exhausted, or the loop was left without an exception.

    A `Checkpointer` saves at the end anyway, unless given ``save_at_end=False``. With `AtEnd` as
    the only trigger, it saves at the end only.

    >>> store = rs.Memory()
    >>> with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> store.steps()
    [5]
    """

    def is_due(self, progress: Progress) -> bool:
        return progress.at_end
