"""The outcome of an experiment with a pipeline: a difference, nothing, or `Unchecked`."""

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
"""Number of items of a run that are kept as text, for error reports."""

ERROR: Final = "the error"
"""Start of the text that stands for an exception instead of an item."""


class Seen(NamedTuple):
    """A difference found by an experiment.

    Attributes:
      item: the number of the first differing item; None for a difference elsewhere.
      expected: the item as text, if kept.
      got: the actual item or error, as text; None if nothing came.
      position: the item after which the run was resumed; None if plain runs differ.
      details: an error, the differing configuration, or more known facts.
      kind: the name of the error's type.
      reason: the cause, as far as the experiment shows.
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
        """The finding with the stage of this ``number`` in the ``whole`` pipeline at fault."""
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
    """The difference in ``run`` after ``position``, with the expected item of the ``whole`` run."""
    difference = run.difference
    if run.error is not None:
        difference = ItemDifference(run.items + (position or 0), f"{ERROR} {run.error}")
    if difference is None:
        return None
    number, got = difference
    texts = () if whole is None else whole.texts
    return Seen(number, texts[number] if number < len(texts) else None, got, position)


class Unchecked(Exception):
    """An experiment could not be made, or proves nothing; the message says why."""


def result_of(outcome: TaskOutcome) -> Any:
    """The result of work without a resume: a failure of such work proves nothing.

    Raises:
      Unchecked: if the work failed.
    """
    if outcome.error is not None:
        raise Unchecked(outcome.error)
    return outcome.result


Experiment = Callable[[int], "Seen | None"]
"""Whether something differs in the pipeline cut after the stage of this number.

Raises `Unchecked` if the experiment fails."""
