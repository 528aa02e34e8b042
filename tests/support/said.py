"""What stages of users may say of their items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from resumable.core import Grouped, Held, Permuted, Relation, Routed, Same, Split, Stage
from resumable.core.relation import Kept, Repeated


class Said(NamedTuple):
    """Whether items are `unchanged` and `alone`, and the relation, as far as it is known without reading."""

    unchanged: bool = False
    alone: bool = False
    like: type[Relation] | None = None

    def by(self, kind: type[Any]) -> type[Any]:
        """A stage class like ``kind`` that says so."""
        return type(kind.__name__, (kind,), {**self._asdict(), "relation": _relation})


NOTHING: Final = Said()
SAME: Final = Said(True, True, Same)
ONE_TO_ONE: Final = Said(alone=True, like=Same)
COUNTED: Final = Said(like=Same)
FILTERED: Final = Said(True, True, Kept)
SUBSET: Final = Said(True, like=Kept)
REORDERED: Final = Said(True, like=Permuted)
REPEATED: Final = Said(True, True, Repeated)
EXPANDED: Final = Said(like=Split)
GROUPED: Final = Said(like=Grouped)
JOINED: Final = Said(True, like=Routed)


def _relation(stage: Stage[Any], epoch: int) -> Relation:
    like = stage.like  # type: ignore[attr-defined]
    if stage.alone and like is Same:
        return Same(stage, epoch, in_order=True)
    return Held(stage, epoch, like=like)
