"""Merge the states saved by the ranks of a run at one step into the state of the whole run."""

# Ranks that own partitions have different states, each with the states of the rank's own
# partitions. All other states are equal on all ranks at one step. For example, a `shard` saves a
# position in the order of all ranks.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

import numpy as np

from ..errors import InvalidArgument, InvalidType, StateMismatch, UnencodableState, shorten
from ..state.columns import as_columns, as_rows
from ..state.leased_numbers import LEASES, LeasedNumbers, merged
from ..state.partitions import (
    EPOCH_REACHED,
    MOST_PARTITIONS,
    PARTITIONS,
    TOP,
    is_of_partitions,
    states_of_partitions,
)
from ..state.value import LARGEST_COUNT, State, freeze, unpack_count
from .differing import difference

BEFORE: Final = 30
"""Number of characters shown of fingerprints, before and after the first difference."""


def merge_states(states: Iterable[State]) -> State:
    """The state of a whole run, merged from the states that its ranks saved at the same step.

    The merged state resumes the pipeline with any number of ranks. Its size is linear in the size
    of the states. If ranks are missing, only the partitions of the given ranks are included.
    ``step`` is the step of the furthest rank. Only a rank whose partitions have ended may have a
    smaller step. States of `Leases` need not be of one step, but none of the ranks may be missing.

    Args:
      states: of the same pipeline, at least one; in any order.

    Raises:
      InvalidArgument: if ``states`` is empty.
      InvalidType: if ``states`` is not a list of states.
      StateMismatch: if the states belong to different pipelines, epochs or steps, if a state was
        saved after an error, or if states differ outside partitions, naming the place and both
        values: the ranks were then not at the same step, or a stage after the partitions keeps
        items of its rank.

    >>> numbers = rs.range(9).partition(4, lambda part: part.filter(lambda n: n % 3))
    >>> iterators = [iter(numbers.shard(rank, 2)) for rank in range(2)]
    >>> [next(iterator) for iterator in iterators]
    [4, 1]
    >>> whole = rs.merge_states([iterator.get_state() for iterator in iterators])
    >>> list(numbers.resume(whole))
    [2, 7, 8, 5]
    """
    checked = _checked_states(states)
    if any(LEASES in state for state in checked):
        return _merge_leases(checked)
    whole = _merge(checked)
    furthest = max(range(len(checked)), key=lambda number: checked[number]["step"], default=0)
    for number, state in enumerate(checked):
        if state["step"] < whole["step"] and not _has_ended(state["pipeline"]):
            raise _different("step", (furthest, whole["step"]), (number, state["step"]))
    return whole


def _merge_leases(states: list[State]) -> State:
    """One state of `Leases` for the ``states`` of all ranks of a run."""
    shares = [LeasedNumbers.of_value(state.get(LEASES)) for state in states]
    whole = merged(shares)
    furthest = max(states, key=lambda state: (state["step"], state["ahead"]))
    for number, state in enumerate(states):
        if state["epoch"] != furthest["epoch"]:
            raise _different("epoch", (0, furthest["epoch"]), (number, state["epoch"]))
        # A rank that has read nothing yet has a shorter fingerprint.
        if state["ahead"] and state["fingerprint"] != furthest["fingerprint"]:
            raise _other_pipeline((0, furthest["fingerprint"]), (number, state["fingerprint"]))
    positions = [state["step"] - state["ahead"] for state in states]
    first = positions.index(min(positions))
    return {
        **furthest,
        "ahead": furthest["step"] - positions[first],
        "pipeline": states[first]["pipeline"],
        LEASES: replace(whole, epoch=shares[first].epoch).value,
    }


def merge_owner_states(states: Iterable[State]) -> State:
    """`merge_states` for states of owners of partitions, whose steps may differ.

    Owners need not be at the same step. A state taken after the last item of an owner may not show
    yet that the owner's partitions have ended.

    Raises:
      InvalidArgument, InvalidType, StateMismatch: as `merge_states`, but not for different steps.
    """
    return _merge(_checked_states(states))


def _checked_states(states: Iterable[State]) -> list[State]:
    """Copies of ``states`` if each may be a state of a pipeline.

    Raises:
      InvalidType: if ``states`` is not a list of states.
      StateMismatch: if an entry is no state.
    """
    if isinstance(states, Mapping) or not isinstance(states, Iterable):
        raise InvalidType(
            f"states must be a list of states, one of each rank, got {shorten(states)}"
        )
    return list(map(_checked, states))


def _merge(states: list[State]) -> State:
    """One state for ``states`` of one pipeline and epoch, with the largest of the steps."""
    if not states:
        raise InvalidArgument("states must be those of one rank or more, got none")
    first = states[0]
    for number, other in enumerate(states):
        if other["epoch"] != first["epoch"]:  # the fingerprint may contain the epoch too
            raise _different("epoch", (0, first["epoch"]), (number, other["epoch"]))
        if other["fingerprint"] != first["fingerprint"]:
            raise _other_pipeline((0, first["fingerprint"]), (number, other["fingerprint"]))
    places = {(state["ahead"], state["step"]) for state in states}
    if len(places) > 1 and any(ahead for ahead, _ in places):
        # Only the rank that saved the state could draw its items again.
        raise StateMismatch(
            "a state that was saved after an error cannot be joined with others; go on for one "
            "item before the state is taken"
        )
    try:
        pipeline = _merge_values([state["pipeline"] for state in states], "pipeline")
    except RecursionError:
        raise StateMismatch(
            "the states are nested too deeply to be joined within Python's recursion limit"
        ) from None
    furthest = {
        name: max(state[name] for state in states)
        for name in ("step", EPOCH_REACHED)
        if all(name in state for state in states)
    }
    return {**first, **furthest, "pipeline": pipeline}


def _has_ended(value: Any) -> bool:
    """Whether all partitions of a rank have ended, anywhere in ``value``."""
    ends = (found["ended"] for found in states_of_partitions(value))
    return any(
        isinstance(each, list) and each and all(one is True for one in each) for each in ends
    )


def _checked(state: Any) -> State:
    """A copy of ``state`` if it may be a state of a pipeline."""
    try:
        state = freeze(state)
    except UnencodableState as error:
        raise StateMismatch(f"this is not a state: {error}") from None
    if not isinstance(state, dict) or state.keys() - {EPOCH_REACHED, LEASES} != set(TOP):
        raise StateMismatch(f"this is not the state of a pipeline: {shorten(state)}")
    if not isinstance(state["fingerprint"], str):
        shown = shorten(state["fingerprint"])
        raise StateMismatch(f"saved fingerprint must be a string, got {shown}")
    for name in ("epoch", "step", "ahead", *({EPOCH_REACHED} & state.keys())):
        unpack_count(None, name, state[name], LARGEST_COUNT)
    return state


def _merge_values(values: list[Any], path: str) -> Any:
    first = values[0]
    if isinstance(first, dict) and all(
        isinstance(value, dict) and value.keys() == first.keys() for value in values
    ):
        if is_of_partitions(first):
            return _merge_partitions(values, path)
        return {
            key: _merge_values([value[key] for value in values], f"{path}.{key}") for key in first
        }
    if isinstance(first, list) and all(
        isinstance(value, list) and len(value) == len(first) for value in values
    ):
        return [
            _merge_values(list(each), f"{path}[{number}]")
            for number, each in enumerate(zip(*values, strict=True))
        ]
    for number, value in enumerate(values):
        if not equal_values(value, first):
            raise _different(path, (0, first), (number, value))
    return first


def _merge_partitions(values: list[State], path: str) -> State:
    """The partitions of all ``values``, in the order of their numbers."""
    rows: dict[int, Any] = {}
    found_in: dict[int, int] = {}
    for at, value in enumerate(values):
        numbers = value[PARTITIONS]
        if not isinstance(numbers, list) or len(numbers) > MOST_PARTITIONS:
            raise StateMismatch(
                f"{path} must have a list of up to {MOST_PARTITIONS:,} partitions, got {shorten(numbers)}"
            )
        rest = {name: column for name, column in value.items() if name != PARTITIONS}
        for number, row in zip(numbers, as_rows(rest, len(numbers)), strict=True):
            if type(number) is not int:
                raise StateMismatch(f"{path} has a partition {shorten(number)}, not a number")
            if number in rows and not equal_values(rows[number], row):
                place = f"partition {number} at {path}"
                raise _different(place, (found_in[number], rows[number]), (at, row))
            rows[number], found_in[number] = row, at
    ordered = sorted(rows)
    return {PARTITIONS: ordered, **as_columns([rows[number] for number in ordered])}


def equal_values(one: Any, other: Any) -> bool:
    """Whether two values of states have the same types and bits; so a NaN is equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_values(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal_values, one, other))
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return bool(alike and one.tobytes() == other.tobytes())
    if isinstance(one, (float, complex, np.generic)):
        return repr(one) == repr(other)  # also NaN and the sign of zero
    return bool(one == other)


def _other_pipeline(one: tuple[int, str], other: tuple[int, str]) -> StateMismatch:
    """The error for two (number, fingerprint) pairs of states with different fingerprints."""
    if found := difference(one[1], other[1]):
        described = found.describe(f"state {one[0]}", f"state {other[0]}")
        cause = "" if found.names_rank else "; are they of different pipelines?"
        return StateMismatch(f"the states of the ranks differ: {described}{cause}")
    alike = sum(1 for _ in takewhile(bool, map(str.__eq__, one[1], other[1])))
    place = slice(max(alike - BEFORE, 0), alike + BEFORE)
    shown = " and ".join(f"{text[place]!r} in state {number}" for number, text in (one, other))
    return StateMismatch(
        f"the states of the ranks differ: fingerprint has {shown}; are they of different pipelines?"
    )


def _different(path: str, one: tuple[int, Any], other: tuple[int, Any]) -> StateMismatch:
    """The error for two (number, value) pairs of states that differ at ``path``."""
    shown = " and ".join(f"{shorten(value)} in state {number}" for number, value in (one, other))
    return StateMismatch(
        f"the states of the ranks differ: {path} is {shown}; were they saved at different steps, or "
        "does a stage after the partitions hold items of its rank, take more items on one rank than on "
        "another, or repeat partitions that end at different steps?"
    )
