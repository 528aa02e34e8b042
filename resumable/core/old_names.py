"""The names of 0.3, read until 0.5 with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar, cast, final

B = TypeVar("B", bound=Callable[..., Any])

_MOVED: Final = {
    "core.arguments": "check_bool check_callable check_choice",
    "core.block": "is_columns slice_block take_rows",
    "core.foreign_source": "ExternalSource",
    "core.function_state": "check_stateless",
    "core.function_version": "FunctionVersion",
    "core.indexed": "OWN_INDICES",
    "core.layout": "INTEGERS Layout common_layout joined_layout rows_layout stacked_layout",
    "core.orders": "check_reach countable",
    "core.skipped": "CountsSkipped",
    "core.stage": "RunsAhead known_length",
    "core.stage_iterator": "DeferredState pulled_blocks state_deferrer",
    "state.value": "unpack_flag unpack_position",
}
NAMES_OF_0_3: Final = {
    name: (f"from resumable.{module} import {name}", module, name)
    for module, names in _MOVED.items()
    for name in names.split()
} | {
    "CallsOneByOne": ("StageIterator, which has one_by_one", "core.old_bases", "OldBase"),
    "DefersState": ("StageIterator, which has defer_state", "core.old_bases", "OldBase"),
    "MovesInBlocks": ("StageIterator, which has blocks", "core.old_bases", "OldBase"),
    "PassThroughIterator": (
        "StateForwardingIterator of resumable.core.transform",
        "core.transform",
        "StateForwardingIterator",
    ),
    "Reliance": ("Dependence", "core.identity", "Dependence"),
    "SteadyIterator": ("OwnStateIterator", "core.transform", "OwnStateIterator"),
    "blocks_of": ("iterator.blocks(size)", "core.old_bases", "blocks_of"),
    "derived": ("computed_once", "core.computed_once", "computed_once"),
}
"""Names of `resumable.core` in 0.3: what to write, and where the object is."""


def deprecated_name(name: str) -> object:
    """The object with a name of `resumable.core` in 0.3.

    Raises:
      AttributeError: if 0.3 had no such name.
    """
    if name not in NAMES_OF_0_3:
        raise AttributeError(f"module 'resumable.core' has no attribute {name!r}", name=name)
    advice, module, attribute = NAMES_OF_0_3[name]
    warn_of_old_name(f"{name} of resumable.core", f"write {advice}", 3)
    found = getattr(import_module(f"resumable.{module}"), attribute)
    return found() if attribute == "OldBase" else found


def warn_of_old_name(what: str, advice: str, stacklevel: int) -> None:
    """Warn that ``what`` goes; ``stacklevel`` counts from the caller, as in `warnings.warn`."""
    message = f"{what} will not be read from version 0.5 on: {advice}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


def with_old_argument(old: str, new: str) -> Callable[[B], B]:
    """Let a builder take the argument ``new`` also by the name it had in 0.3."""

    def accept(builder: B) -> B:
        @wraps(builder)
        def called(*args: Any, **options: Any) -> Any:
            if old in options and new not in options:
                warn_of_old_name(f"{old}= of {builder.__name__}", f"write {new}=", 2)
                options[new] = options.pop(old)
            return builder(*args, **options)

        return cast(B, called)

    return accept


def read_renamed(kind: type[Any], names: Mapping[str, str]) -> None:
    """Give a class with members that have the names of 0.3 the same members with the new names.

    Args:
      kind: a new class.
      names: the new names by the old names.
    """
    order = kind.__mro__
    for old, new in names.items():
        writers = [number for number, one in enumerate(order) if _is_written(one, old)]
        # A class for both versions, or one that has been read, has both names.
        if writers and all(new not in vars(one) for one in order[: writers[0] + 1]):
            warn_of_old_name(f"{old} of {order[writers[0]].__name__}", f"write {new}", 4)
            setattr(kind, new, vars(order[writers[0]])[old])


def _is_written(kind: type[Any], old: str) -> bool:
    return old in vars(kind) and not isinstance(vars(kind)[old], OldName)


@final
class OldName:
    """A member by its name of 0.3: the same as the member with the new name."""

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._old = name

    def __get__(self, one: Any, owner: type[Any]) -> Any:
        warn_of_old_name(self._old, f"write {self._new}", 2)
        # A class that writes the old name has the new one too. Only `super()` in such a class comes
        # here, so the member is that of a later class.
        writers = [
            number for number, one in enumerate(owner.__mro__) if _is_written(one, self._old)
        ]
        rest = owner.__mro__[writers[-1] + 1 if writers else 0 :]
        value = next(vars(kind)[self._new] for kind in rest if self._new in vars(kind))
        return value.__get__(one, owner) if hasattr(type(value), "__get__") else value
