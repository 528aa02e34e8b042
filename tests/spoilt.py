"""Every way to spoil a state of this library's own stages; each must be refused."""

from __future__ import annotations

import itertools
from typing import Any

import resumable as rs
from resumable.testing.comparing import assert_same
from resumable.testing.laws import first_items, through_bytes


def refused_state_leaves_no_trace(pipeline: rs.Pipeline[Any], position: int) -> None:
    """Every way to spoil a state is refused by StateMismatch, and changes nothing."""
    expected = first_items(pipeline, position + 6)
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, position))
        before = through_bytes(iterator)
        for spoilt in _spoilt(rs.loads(before)):
            try:
                iterator.set_state(spoilt)
            except rs.StateMismatch:
                pass
            else:
                raise AssertionError(f"accepted {spoilt}")
            assert through_bytes(iterator) == before
        rest = list(itertools.islice(iterator, 6))
        assert_same(rest, expected[position:], "after refused states")


def _spoilt(state: Any) -> list[Any]:
    """States that are not this pipeline's: wrong types, missing and unknown keys, bad counts."""
    variants: list[Any] = [None, [], {}, "state", {**state, "more": 1}]
    for key in state:
        without = dict(state)
        del without[key]
        variants += [without, {**state, key: object()}]
    for name in ("step", "epoch", "ahead"):
        variants += [{**state, name: wrong} for wrong in (-1, 1.5, True, None, "1")]
    positions: list[Any] = [None, {}, [1], {**state["pipeline"], "unknown": 1}]
    variants += [{**state, "pipeline": wrong} for wrong in positions]
    variants += [{**state, "pipeline": wrong} for wrong in _spoilt_positions(state["pipeline"])]
    return variants


def _spoilt_positions(state: dict[str, Any]) -> list[dict[str, Any]]:
    variants: list[dict[str, Any]] = []
    for key, value in state.items():
        if key in ("position", "pass", "index", "offset", "turn", "taken", "skipped", "drained"):
            variants += [{**state, key: wrong} for wrong in (-1, "1", 0.5, None)]
        if key == "upstream":
            variants += [{**state, key: wrong} for wrong in [None, {}, *_spoilt_positions(value)]]
        if key in ("places", "slots", "ended", "delivered", "draining", "start"):
            variants += [{**state, key: wrong} for wrong in (object, [object], ["x"] * 99)]
        if key == "stage":
            variants += [{**state, key: wrong} for wrong in [None, {}, *_spoilt_positions(value)]]
        if key == "upstreams":
            spoilt: list[Any] = [None, [], [{}] * len(value)]
            variants += [{**state, key: wrong} for wrong in spoilt]
    return variants
