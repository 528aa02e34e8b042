"""What the state of a stage takes for granted about the stages before it."""

from __future__ import annotations

from typing import Final, TypeAlias

Reliance: TypeAlias = frozenset[str]
"""What a stage's state relies on in the stages before it; joined by ``|``."""
NOTHING: Final[Reliance] = frozenset()
ALWAYS: Final[Reliance] = frozenset({"always"})
ITEMS: Final[Reliance] = frozenset({"items"})
EPOCHS: Final[Reliance] = frozenset({"epochs"})
RANK: Final[Reliance] = frozenset({"rank"})
PARTS: Final[Reliance] = frozenset({"parts"})
ENDS: Final[Reliance] = frozenset({"ends"})
"""In `Stage.identity` alone: the field must be equal if a later stage `relies_on` anything. With it
``shard`` names the rank where ranks may end at different steps, as under ``uneven="keep"``."""
LATER_EPOCHS: Final[Reliance] = frozenset({"later epochs"})
"""In `Stage.identity` alone: the field must be equal once the loop over the pipeline is in a later
epoch than the first. States of earlier versions do not have it; then it is not compared."""
OVER_EPOCHS: Final[Reliance] = frozenset({"over epochs"})
"""What ``exclude`` behind ``repeat`` relies on, whose state is one place among the items of all epochs:
that the epochs before it had as many items. In `Stage.identity` it stands alone, and the field says how
many; it may differ as long as all items that were read come from the first epoch. States of earlier
versions do not have it."""
SO_FAR: Final[Reliance] = frozenset({"so far"})
"""In `Stage.identity` alone, beside `ALWAYS`: the field says what holds from which position on. It must be
equal as far as items were read, so that a run can be changed while it goes on."""
ANYTHING: Final = (
    ALWAYS | ITEMS | EPOCHS | RANK | PARTS | ENDS | LATER_EPOCHS | OVER_EPOCHS | SO_FAR
)
