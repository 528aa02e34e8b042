"""What an experiment with a pipeline shows: a difference, nothing, or that it could not be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..core.graph import walk
from ..core.stage import Stage
from . import reasons
from .reasons import Reason
from .report import Finding

TEXTS: Final = 10_000
"""Number of items of a run that are kept as text, to show one of them."""


class Seen(NamedTuple):
    """A difference that an experiment has found.

    Attributes:
      item: the number of the first item that differs; None if it is not about an item.
      expected: that item as text, if it was kept.
      got: what came instead, as text; None if nothing came.
      position: the item after which the run was resumed; None if plain runs differ.
      details: an error, which configuration differs, or what else is known.
      kind: the name of the error's type.
      reason: why, as far as the experiment shows.
    """

    item: int | None = None
    expected: str | None = None
    got: str | None = None
    position: int | None = None
    details: str = ""
    kind: str | None = None
    reason: Reason = reasons.UNEXPLAINED

    def finding(
        self,
        whole: Stage[Any],
        number: int,
        hint: str | None = None,
        unchecked: tuple[str, ...] = (),
    ) -> Finding:
        """The finding that the stage of this ``number`` in the ``whole`` pipeline is at fault."""
        stage, path = [*walk(whole)][number]
        return Finding.of(
            self.reason,
            stage,
            path,
            self.details,
            hint,
            position=self.position,
            item=self.item,
            expected=self.expected,
            got=self.got,
            unchecked=unchecked,
        )


class Unchecked(Exception):
    """An experiment could not be made, or shows nothing; the message says why."""


Experiment = Callable[[int], "Seen | None"]
"""Whether something differs in the pipeline cut after the stage of this number.

Raises `Unchecked` if it cannot be found out."""
