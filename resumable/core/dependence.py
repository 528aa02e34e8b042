"""Dependence of the state of a stage on earlier stages."""

from __future__ import annotations

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
