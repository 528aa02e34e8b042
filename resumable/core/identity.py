"""The fields of a stage that must be equal at save and resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from .dependence import ALWAYS, ANYTHING, Dependence


@dataclass(frozen=True)
class IdentityField:
    """When a field must be equal at save and resume, and the words of the error otherwise.

    Args:
      when: `ALWAYS`, or the reliances of later stages for which the field must be equal.
      shown_as: name of the field in errors; by default the name of the attribute.
      hint: the likely cause.
      names_rank: whether the field names the rank that saved a state.
      whole_run: whether the field is fixed for all epochs of a run.
    """

    when: Dependence
    shown_as: str | None = None
    hint: str = "was the pipeline changed since the save?"
    names_rank: bool = False
    whole_run: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether `when` is a non-empty set of known reliances."""
        return isinstance(self.when, frozenset) and frozenset() < self.when <= ANYTHING

    @classmethod
    def of(cls, entry: Dependence | IdentityField) -> IdentityField:
        """``entry`` of an `identity`, which may be just the reliances that require equality."""
        return entry if isinstance(entry, IdentityField) else cls(entry)


IdentityFields: TypeAlias = Mapping[str, Dependence | IdentityField]

SEED: Final = IdentityField(
    ALWAYS, hint="is the seed taken from the clock, the rank or a changed setting?"
)
COUNT_HINT: Final = "it may change only where no later stage counts, shuffles or filters items"
BATCH_SIZE_HINT: Final = "it may change only where no later stage counts or shuffles batches"
