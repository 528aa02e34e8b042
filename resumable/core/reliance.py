"""Reliance of the state of a stage on earlier stages."""

from __future__ import annotations

from typing import Final, TypeAlias

Reliance: TypeAlias = frozenset[str]
"""Properties of earlier stages that a stage's state relies on; joined by ``|``."""
NOTHING: Final[Reliance] = frozenset()
ALWAYS: Final[Reliance] = frozenset({"always"})
ITEMS: Final[Reliance] = frozenset({"items"})
EPOCHS: Final[Reliance] = frozenset({"epochs"})
RANK: Final[Reliance] = frozenset({"rank"})
PARTS: Final[Reliance] = frozenset({"parts"})
ENDS: Final[Reliance] = frozenset({"ends"})
"""In `Stage.identity` alone: the field must be equal if a later stage `relies_on` anything. So
``shard`` names the rank where ranks may end at different steps, as under ``uneven="keep"``."""
LATER_EPOCHS: Final[Reliance] = frozenset({"later epochs"})
"""In `Stage.identity` alone: the field must be equal once the loop over the pipeline is in a later
epoch than the first. States of earlier versions lack the field; then it is not compared."""
OVER_EPOCHS: Final[Reliance] = frozenset({"over epochs"})
"""Reliance of ``exclude`` after ``repeat``, whose state is one place among the items of all epochs:
earlier epochs must have had as many items. Alone in `Stage.identity`, where the field is that number;
the number may differ as long as all items read come from the first epoch. States of earlier
versions lack the field."""
SO_FAR: Final[Reliance] = frozenset({"so far"})
"""In `Stage.identity` alone, together with `ALWAYS`: the field is a timeline, which must
be equal as far as items were read, so that a run can be changed midway."""
ANYTHING: Final = (
    ALWAYS | ITEMS | EPOCHS | RANK | PARTS | ENDS | LATER_EPOCHS | OVER_EPOCHS | SO_FAR
)
