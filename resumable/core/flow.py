"""The deprecated ``flow`` of stages written for 0.3, read until 0.5."""

from __future__ import annotations

from enum import Enum
from typing import Any

from .old_names import warn_of_old_name
from .relation import Grouped, Held, Kept, Permuted, Relation, Repeated, Routed, Same, Split


class Flow(Enum):
    """Deprecated: the effect of a stage on items (`unchanged`, `alone`, class of the relation)."""

    ANY = (False, False, None)
    SAME = (True, True, Same)
    ONE_TO_ONE = (False, True, Same)
    COUNTED = (False, False, Same)
    FILTERED = (True, True, Kept)
    SUBSET = (True, False, Kept)
    REORDERED = (True, False, Permuted)
    REPEATED = (True, True, Repeated)
    EXPANDED = (False, False, Split)
    GROUPED = (False, False, Grouped)
    JOINED = (True, False, Routed)

    def relation(self, stage: Any, epoch: int) -> Relation | None:
        """The relation of ``stage``, which has this flow."""
        _, alone, kind = self.value
        if alone and kind is Same:
            return Same(stage, epoch, in_order=True)
        return Held(stage, epoch, like=kind) if stage.inputs else None

    @property
    def advice(self) -> str:
        """The replacement to write in the class."""
        unchanged, alone, kind = self.value
        if kind is None:
            return "leave it out"
        made = f"Held(self, epoch, like={kind.__name__})"
        made = "Same(self, epoch, in_order=True)" if alone and kind is Same else made
        lines = [*["unchanged = True"] * unchanged, *["alone = True"] * alone]
        lines.append(f"def relation(self, epoch): return {made}")
        return f"write `{'` and `'.join(lines)}` in the class, with names of resumable.core"


def read_flow(kind: type[Any], default: Any) -> None:
    """Give a class with its own ``flow`` the equivalent `unchanged`, `alone` and `relation`."""
    flow = vars(kind).get("flow")
    if flow is None:
        return
    advice = flow.advice if isinstance(flow, Flow) else "write unchanged, alone and relation"
    warn_of_old_name(f"flow of {kind.__name__}", advice, 4)
    kind.unchanged = property(lambda stage: stage.flow.value[0])
    kind.alone = property(lambda stage: stage.flow.value[1])
    if kind.relation is default:  # not the relation of a base, such as `PassThrough`
        kind.relation = lambda stage, epoch: stage.flow.relation(stage, epoch)
