"""What an experiment with a pipeline shows: a difference, nothing, or that it could not be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..core.graph import walk
from ..core.stage import Stage
from . import reasons
from .processes import TaskOutcome
from .reasons import Reason
from .report import Finding
from .runs import ItemDifference, PipelineRun

TEXTS: Final = 10_000
"""Number of items of a run that are kept as text, to show one of them."""

ERROR: Final = "the error"
"""The beginning of the text that is shown for an exception in the place of an item."""


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
        return Finding(
            self.reason.name,
            str(stage),
            path,
            f"{self.reason.evidence} {self.details}".strip(),
            hint or self.reason.hint,
            self.position,
            self.item,
            self.expected,
            self.got,
            unchecked,
        )


def seen_in(
    run: PipelineRun, whole: PipelineRun | None = None, position: int | None = None
) -> Seen | None:
    """The difference in ``run``, which began after ``position``, with the item of the ``whole`` run."""
    difference = run.difference
    if run.error is not None:
        difference = ItemDifference(run.items + (position or 0), f"{ERROR} {run.error}")
    if difference is None:
        return None
    number, got = difference
    texts = () if whole is None else whole.texts
    return Seen(number, texts[number] if number < len(texts) else None, got, position)


class Unchecked(Exception):
    """An experiment could not be made, or shows nothing; the message says why."""


def result_of(outcome: TaskOutcome) -> Any:
    """The result of a work that is no resume, so that a failure shows nothing.

    Raises:
      Unchecked: if it could not be done.
    """
    if outcome.error is not None:
        raise Unchecked(outcome.error)
    return outcome.result


Experiment = Callable[[int], "Seen | None"]
"""Whether something differs in the pipeline cut after the stage of this number.

Raises `Unchecked` if it cannot be found out."""
