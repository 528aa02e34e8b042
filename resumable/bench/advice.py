"""Name the bottleneck in a sentence, and say what to do about it."""

from __future__ import annotations

from typing import Any, Final

from ..core.carried import CallsFunction
from ..core.indexed import looks_up
from ..core.stage import Stage, runs_ahead
from .report import brief

IDLE: Final = 0.25
"""A process that computes for less than this share of the time mostly waits."""

ONE_BY_ONE: Final = (
    "It works on one item after another in Python: let map, with workers, do what costs most."
)
HANDS_ON: Final = "It only hands items on: batches, where they can be made before it, are fewer."
HINTS: Final = {
    **dict.fromkeys(
        ("Concatenate", "Enumerate", "Interleave", "Mix", "Repeat", "Shard", "Skip", "Take", "Zip"),
        HANDS_ON,
    ),
    "RandomMap": "Its function draws and computes in one Python thread: let it do only what is "
    "random, and a map with workers after it the rest.",
    "Filter": ONE_BY_ONE,
    "FlatMap": ONE_BY_ONE,
    "InterleaveMap": "It makes one item after another out of what its function opens: let that "
    "return larger pieces, and unbatch() them.",
    "Scan": "Each step needs the one before: let map, with workers, do whatever does not.",
    "Batch": "It puts batches together out of single Python objects: arrays out of from_arrays move "
    "as whole columns; or give a collate that does less.",
    "Unbatch": "It takes batches apart into single Python objects: map whole batches where that is "
    "possible.",
    "Prefetch": "Handing an item from thread to thread costs more than making it: put prefetch "
    "after batch, so that fewer and larger items are handed over, or leave it out.",
    "Shuffle": "The order itself costs more than the items: shuffle whole batches, or blocks of rows.",
    "WindowShuffle": "It moves single Python objects: shuffle(seed) without a window, if the source "
    "can be indexed, moves indices only.",
}


def advise(
    stage: Stage[Any], path: str, share: int, above: list[Stage[Any]], cpu_share: float | None
) -> str:
    """A sentence that names the bottleneck, and a hint that fits it.

    Args:
      stage: the one with the greatest share.
      path: of that stage.
      share: of the loop's time, in percent.
      above: the stages after it, the nearest first.
      cpu_share: of the time, that the process computed; None if it is not known.
    """
    named = f"The bottleneck is {brief(stage.label)} at {path}: {share} % of the time."
    if runs_ahead(stage) and type(stage).__name__ != "Prefetch":
        hint = "The loop waits for its workers: give it more of them, or a faster function."
    elif type(stage).__name__ == "Map":
        hint = _map_hint(stage, above, cpu_share)
    elif not stage.inputs:
        hint = _source_hint(above, cpu_share)
    else:
        hint = HINTS.get(type(stage).__name__, "")
    return f"{named} {hint}".rstrip()


def advise_on_loop(share: int) -> str:
    """The same if no stage is as slow as the loop around them."""
    return (
        f"The stages are not the bottleneck: {share} % of the time goes into handing out items one "
        "by one. batch(n) hands out many at once."
    )


def _map_hint(stage: Stage[Any], above: list[Stage[Any]], cpu_share: float | None) -> str:
    if isinstance(stage, CallsFunction) and stage.carries_state:
        return "Its function carries state, so it is called for one item after another."
    waits = cpu_share is not None and cpu_share < IDLE
    how = "map(fn, workers=n)" if waits else 'map(fn, workers=n, executor="process")'
    reason = (
        "Its function mostly waits, and threads can wait together"
        if waits
        else "Its function computes in one Python thread; processes share the work"
    )
    looking_up = [later for later in above if looks_up(later)]
    place = f", after {type(looking_up[-1]).__name__}" if looking_up else ""
    return f"{reason}: {how}{place}."


def _source_hint(above: list[Stage[Any]], cpu_share: float | None) -> str:
    if any(runs_ahead(later) and type(later).__name__ == "Prefetch" for later in above):
        return (
            "Reading the source is slower than the loop, though it is read ahead: read larger "
            "pieces at once, or several sources by interleave."
        )
    if cpu_share is not None and cpu_share < IDLE:
        return "The source makes the loop wait: prefetch(n) reads ahead while the loop works."
    return (
        "Reading the source takes the most: prefetch(n) reads it while the loop works on the item "
        "before."
    )
