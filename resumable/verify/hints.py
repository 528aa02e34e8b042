"""Hints on how to cure a cause, in words that fit the kind of stage at fault."""

from __future__ import annotations

from typing import Any, Final

from ..core.function_state import CallsFunction
from ..core.stage import Stage, runs_ahead
from ..sources.iterable import FromIterable
from ..stages.flat_map import FlatMap
from ..stages.interleave_map import InterleaveMap
from ..stages.map import Map
from ..stages.scan import Scan
from . import reasons
from .reasons import Reason

# A resume calls the function again for the current item, so the function can carry no state.
CALL_AGAIN: Final = (FlatMap, InterleaveMap)


def hint_for(reason: Reason, stage: Stage[Any]) -> str:
    """The hint of ``reason``, or a better one for this ``stage``."""
    found: str | None = None
    if reason is reasons.FUNCTION_KEEPS_STATE:
        found = _against_state(stage)
    elif reason in (reasons.NOT_REPRODUCIBLE, reasons.UNSTEADY):
        found = _against_chance(stage)
    elif reason is reasons.RANDOMNESS:
        found = _against_randomness(stage)
    elif reason in (reasons.STATE_INCOMPLETE, reasons.STATE_REFUSED):
        found = _for_a_state(stage)
    elif reason in (reasons.READ_ONCE, reasons.COUNTS_EPOCHS):
        found = _for_a_source(stage)
    return found or reason.hint


def _against_state(stage: Stage[Any]) -> str | None:
    if isinstance(stage, CALL_AGAIN):
        return (
            "Let the function depend on the item alone: a resume calls it again for the item it was "
            "inside. What goes on from item to item is carried by scan(fn, initial) before it, "
            "whose output this function then expands."
        )
    if isinstance(stage, Scan):
        return "Let the carry hold all that the function remembers."
    if isinstance(stage, CallsFunction):
        workers = " and no workers" if runs_ahead(stage) else ""
        return (
            f"Let the function depend on the item alone, or give it get_state and set_state{workers}, "
            "or carry the value by scan(fn, initial)."
        )
    if not stage.inputs:
        return "Let the source deliver the same whatever this process has read before."
    return None


def _against_chance(stage: Stage[Any]) -> str | None:
    if not (isinstance(stage, CallsFunction) and runs_ahead(stage)):
        return None
    return (
        "Let the function depend on the item alone: each worker remembers what it met itself, and which "
        "items it meets is chance. Look for files, the network and addresses of objects too."
    )


def _against_randomness(stage: Stage[Any]) -> str | None:
    if not stage.inputs:
        return "Give the source a seed, and each of its epochs the same one."
    if isinstance(stage, Map):
        return None
    return (
        "Draw by random_map(fn, seed) before it, whose generator belongs to the item, or seed by "
        "the item."
    )


def _for_a_state(stage: Stage[Any]) -> str | None:
    if isinstance(stage, FromIterable) and not stage.is_made_by_a_function:
        return (
            f"Its own {stage.method} do not restore all that its next items depend on, such as a "
            "shuffle buffer: shuffle by shuffle(seed, window=n) after it, or pass from_iterable a "
            "function that makes it, if iterating anew gives the same items."
        )
    if isinstance(stage, CallsFunction) and stage.carries_state:
        return "Let get_state of the function return, and set_state restore, all that it remembers."
    return None


def _for_a_source(stage: Stage[Any]) -> str | None:
    if isinstance(stage, FromIterable) and stage.is_made_by_a_function:
        return "Let the function that from_iterable was given make a new iterator each time."
    return None
