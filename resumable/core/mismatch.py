"""A mismatch between a pipeline and a saved run, and its text in errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass
from enum import Enum, auto
from typing import Any, Final, final

from .argument_change import AS_HERE, AS_SAVED, ArgumentChange, EpochsChange
from .pipelines_by_epoch import PIPELINES
from .timeline import first_difference

LONGEST_VALUE: Final = 200


class Rule(Enum):
    """The rule broken where a pipeline does not fit a saved run."""

    READABLE = auto()
    """The fingerprint was written by this library."""
    STAGE = auto()
    """The same stage stands at each place."""
    VERSION = auto()
    """The stage reads the version of the saved state."""
    FIELD = auto()
    """An argument is equal."""
    CONTENT = auto()
    """Data are the same, and the state is of this rank; ``reason`` gives the difference."""
    INPUTS = auto()
    """A stage has as many inputs."""
    ARGUMENT = auto()
    """An argument by position agrees for the items that were read."""
    EPOCHS = auto()
    """The pipelines of all epochs that were begun agree."""


@final
@dataclass(frozen=True)
class Mismatch:
    """A place where a pipeline does not fit a saved run.

    Attributes:
      rule: the broken rule.
      path: of the stage.
      stage: the name of the stage.
      argument: as users write it, for `Rule.FIELD`.
      saved: the saved value; the number of inputs, the name or the version of the stage.
      present: the value in the pipeline.
      reason: the likely cause.
      of_rank: whether the value decides which items belong to which rank.
      whole_run: whether the value is fixed for all epochs of a run.
      change: how the argument may change, for `Rule.ARGUMENT` and `Rule.EPOCHS`.
      within: why the pipelines of an epoch differ, for `Rule.EPOCHS`.
      try_before: the stages before which a `by_epoch` would give more details; None if not allowed.
    """

    rule: Rule
    path: str
    stage: str = ""
    argument: str = ""
    saved: Any = None
    present: Any = None
    reason: str = ""
    of_rank: bool = False
    whole_run: bool = False
    change: ArgumentChange | None = None
    within: Mismatch | None = None
    try_before: str | None = None

    @property
    def says_where(self) -> bool:
        """Whether the text gives the position from which the pipeline may differ."""
        return self.rule is Rule.EPOCHS or (
            self.rule is Rule.ARGUMENT and self.change is not None and not self.change.is_fixed
        )

    def __str__(self) -> str:
        text = f"{self._where}{_TEXTS[self.rule](self)}"
        if self.try_before is None or self.rule in (Rule.ARGUMENT, Rule.EPOCHS):
            return text
        written = PIPELINES.written(((0, AS_SAVED), (1, AS_HERE)))
        return (
            f"{text}; to learn from which epoch on it may be another one, write {written} "
            f"{self.try_before}"
        )

    @property
    def _where(self) -> str:
        if self.rule in (Rule.READABLE, Rule.EPOCHS):
            return ""
        return f"{self.stage} at {self.path}: " if self.stage else f"{self.path}: "


def _other_stage(found: Mismatch) -> str:
    return f"the saved pipeline has {cut(found.saved)} here, this one has {found.present}; {found.reason}"


def _later_version(found: Mismatch) -> str:
    return (
        f"saved in version {found.saved} of its state, this library reads up to {found.present}; was it "
        "written by a newer version of the library?"
    )


def _other_field(found: Mismatch) -> str:
    argument = cut(found.argument)
    saved, present = (
        "nothing" if each is MISSING else each for each in (found.saved, found.present)
    )
    shown = str if str(saved) != str(present) else repr  # the number 1 and the text "1"
    return (
        f"saved {argument}={cut(saved, shown)}, this pipeline has {argument}={shown(present)}; "
        f"{found.reason}"
    )


def _other_inputs(found: Mismatch) -> str:
    return f"saved with {found.saved} upstreams, this pipeline has {found.present}; {found.reason}"


def _other_argument(found: Mismatch) -> str:
    change = found.change
    assert change is not None
    argument, unit = change.argument, change.argument.unit
    wrong = (
        f"saved {argument.written(change.saved)}, this pipeline has {argument.written(change.present)}, "
        f"which differs from {unit} {first_difference(change.saved, change.present)} on"
    )
    if change.refused is not None:
        return f"{wrong}; it cannot be changed here: {change.refused}"
    if change.is_fixed:
        return f"{wrong}; {change.why_fixed}, so it cannot be changed here"
    return (
        f"{wrong}, and {unit}s before {change.reached:_} were read; to change it from there on, write "
        f"{change.to_write}"
    )


def _other_epochs(found: Mismatch) -> str:
    change = found.change
    assert isinstance(change, EpochsChange)
    wrong = f"{found.within}; this is so from epoch {change.differs_from} on, and"
    if change.refused is not None:
        return f"{wrong} it cannot be changed here: {change.refused}"
    if change.is_fixed:
        return f"{wrong} any epoch may have been begun, so it cannot be changed here"
    epoch = int(change.reached)
    wrong = f"{wrong} epochs before {epoch} were begun;"
    if change.repeats_within:
        where = "the pipeline" if change.repeat is None else f"what {change.repeat} repeats"
        return f"{wrong} it may change from epoch {epoch} of {where} on"
    return f"{wrong} to change it from there on, write {change.to_write}"


_TEXTS: Final[dict[Rule, Callable[[Mismatch], str]]] = {
    Rule.READABLE: lambda found: found.reason,
    Rule.STAGE: _other_stage,
    Rule.VERSION: _later_version,
    Rule.FIELD: _other_field,
    Rule.CONTENT: lambda found: found.reason,
    Rule.INPUTS: _other_inputs,
    Rule.ARGUMENT: _other_argument,
    Rule.EPOCHS: _other_epochs,
}


def cut(value: Any, shown: Callable[[Any], str] = str) -> str:
    """``value`` of a saved state as text for a message, cut if long."""
    text = shown(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
