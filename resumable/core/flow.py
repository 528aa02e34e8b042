"""The names in stages written for 0.3, read until 0.5: ``flow`` and renamed facts."""

from __future__ import annotations

import warnings
from enum import Enum
from importlib import import_module
from typing import Any, Final

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


NAMES_OF_0_3: Final = {
    "CallsOneByOne": ("StageIterator, which has one_by_one", "flow.NoBase"),
    "DefersState": ("StageIterator, which has defer_state", "flow.NoBase"),
    "MovesInBlocks": ("StageIterator, which has blocks", "flow.NoBase"),
    "Reliance": ("Dependence", "dependence.Dependence"),
    "SteadyIterator": ("OwnStateIterator", "transform.OwnStateIterator"),
    "blocks_of": ("iterator.blocks(size)", "flow.blocks_of"),
    "derived": ("computed_once", "computed_once.computed_once"),
}
"""Names of `resumable.core` in 0.3: what to write, and the module and the name of what they are."""
RENAMED: Final = {"relies_on": "depends_on", "blind": "ignores_items"}


def read_deprecated(kind: type[Any], relation: Any) -> None:
    """Give a class with facts of 0.3 the facts of today; ``relation`` is that of every stage."""
    for old, new in RENAMED.items():
        if old in vars(kind) and new not in vars(kind):  # a class for both versions has both
            _warn(f"{old} of {kind.__name__}", f"write {new}", 4)
            setattr(kind, new, vars(kind)[old])
    flow = vars(kind).get("flow")
    if flow is None:
        return
    advice = flow.advice if isinstance(flow, Flow) else "write unchanged, alone and relation"
    _warn(f"flow of {kind.__name__}", advice, 4)
    kind.unchanged = property(lambda stage: stage.flow.value[0])
    kind.alone = property(lambda stage: stage.flow.value[1])
    if kind.relation is relation:  # not the relation of a base, such as `PassThrough`
        kind.relation = lambda stage, epoch: stage.flow.relation(stage, epoch)


def _warn(what: str, advice: str, stacklevel: int) -> None:
    message = f"{what} will not be read from version 0.5 on: {advice}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


class NoBase:
    """Stands for a base of 0.3 whose methods every iterator has."""

    def __class_getitem__(cls, item: object) -> type[NoBase]:
        return cls


def blocks_of(iterator: Any, size: int) -> Any:
    """The ``blocks`` of ``iterator``, which no longer need a function."""
    return iterator.blocks(size)


def deprecated_name(name: str, package: str) -> object:
    """The object that has the name of 0.3 in ``package``.

    Raises:
      AttributeError: if 0.3 had no such name, or still has it.
    """
    if name not in NAMES_OF_0_3:
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
    advice, place = NAMES_OF_0_3[name]
    _warn(f"{name} of {package}", f"write {advice}", 3)
    module, _, attribute = place.partition(".")
    found = getattr(import_module(f"{package}.{module}"), attribute)
    return type(name, (NoBase,), {}) if found is NoBase else found  # no base may be there twice
