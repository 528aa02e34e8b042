"""The fields of a stage that must be equal at save and resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from .reliance import ALWAYS, ANYTHING, Reliance


@dataclass(frozen=True)
class IdentityField:
    """When a field must be equal at save and resume, and what the error says if it is not.

    Args:
      when: `ALWAYS`, or if a later stage relies on one of these.
      shown_as: what the error calls the field; by default its name.
      hint: the likely cause.
      names_rank: whether it says which rank has saved a state.
      whole_run: whether it is fixed for all epochs of a run.
    """

    when: Reliance
    shown_as: str | None = None
    hint: str = "was the pipeline changed since the save?"
    names_rank: bool = False
    whole_run: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether `when` is one of the times that there are, or several."""
        return isinstance(self.when, frozenset) and frozenset() < self.when <= ANYTHING

    @classmethod
    def of(cls, entry: Reliance | IdentityField) -> IdentityField:
        """``entry`` of an `identity`, which may be no more than the time when the field must be equal."""
        return entry if isinstance(entry, IdentityField) else cls(entry)


IdentityFields: TypeAlias = Mapping[str, Reliance | IdentityField]

SEED: Final = IdentityField(
    ALWAYS, hint="is the seed taken from the clock, the rank or a changed setting?"
)
COUNT_HINT: Final = "it may change only where no later stage counts, shuffles or filters items"
BATCH_SIZE_HINT: Final = "it may change only where no later stage counts or shuffles batches"
