"""What a stage depends on of earlier stages, and its fields that must be equal at save and resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Dependence: TypeAlias = frozenset[str]
"""Properties of earlier stages that a stage's state relies on; joined by ``|``."""
NOTHING: Final[Dependence] = frozenset()
ALWAYS: Final[Dependence] = frozenset({"always"})
ITEMS: Final[Dependence] = frozenset({"items"})
EPOCHS: Final[Dependence] = frozenset({"epochs"})
RANK: Final[Dependence] = frozenset({"rank"})
PARTS: Final[Dependence] = frozenset({"parts"})
ENDS: Final[Dependence] = frozenset({"ends"})
"""In `Stage.identity` alone: the field must be equal if a later stage `depends_on` anything. So
``shard`` names the rank where ranks may end at different steps, as under ``uneven="keep"``."""
LATER_EPOCHS: Final[Dependence] = frozenset({"later epochs"})
"""In `Stage.identity` alone: the field must be equal once the loop over the pipeline is in a later
epoch than the first. States of earlier versions lack the field; then it is not compared."""
OVER_EPOCHS: Final[Dependence] = frozenset({"over epochs"})
"""Dependence of ``exclude`` after ``repeat``, whose state is one place among the items of all epochs:
earlier epochs must have had as many items. Alone in `Stage.identity`, where the field is that number;
the number may differ as long as all items read come from the first epoch. States of earlier
versions lack the field."""
SO_FAR: Final[Dependence] = frozenset({"so far"})
"""In `Stage.identity` alone, together with `ALWAYS`: the field is a timeline, which must
be equal as far as items were read, so that a run can be changed midway."""
ANYTHING: Final = (
    ALWAYS | ITEMS | EPOCHS | RANK | PARTS | ENDS | LATER_EPOCHS | OVER_EPOCHS | SO_FAR
)


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
