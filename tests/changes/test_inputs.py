"""Inputs that join a mix and leave it while a run goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import pytest
from changes.test_weights import INPUTS, MOST, ONLY_BY_INDEX, STEPS, read, with_steps
from hypothesis import given, reject
from hypothesis import strategies as st
from support.advised import advised

import resumable as rs
from resumable.testing.comparing import assert_same

Weights = Mapping[int, Mapping[str, int]]
Make = Callable[[Weights], rs.Pipeline[Any]]
NAMES = "abcd"


@st.composite
def makers(draw: st.DrawFn) -> Make:
    """Pipelines of a mix of as many inputs as its weights name, and of up to two stages after it."""
    kinds = draw(st.lists(st.sampled_from(list(INPUTS)), min_size=len(NAMES), max_size=len(NAMES)))
    stop, seed = draw(st.sampled_from(["first", "cycle"])), draw(st.none() | st.just(3))
    reshuffle = seed is not None and draw(st.booleans())
    names = draw(st.lists(st.sampled_from([*STEPS, *ONLY_BY_INDEX]), max_size=2))

    def make(weights: Weights) -> rs.Pipeline[Any]:
        inputs = {
            name: INPUTS[kind](100 * number)
            for number, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))
            if any(name in each for each in weights.values())
        }
        made = rs.mix(inputs, weights=weights, seed=seed, stop=stop, reshuffle=reshuffle)
        return with_steps(made, names, all(INPUTS[kind](0).random_access for kind in kinds))

    make.__name__ = " | ".join([*kinds, stop, str(seed), str(reshuffle), *names])
    return make


@given(
    make=makers(),
    cuts=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    shares=st.lists(st.integers(1, 4), min_size=8, max_size=8),
    leaver=st.sampled_from("ab"),
    ahead=st.integers(0, 3),
)
def test_inputs_join_and_leave_where_the_run_stands(
    make: Make, cuts: list[int], shares: list[int], leaver: str, ahead: int
) -> None:
    weights: dict[int, Mapping[str, int]] = {0: {"a": shares[0], "b": shares[1]}}
    try:
        make(weights)
    except rs.InvalidArgument:
        reject()  # threads before a stage that looks items up
    passed, state = read(make(weights), cuts[0])
    for number, cut in enumerate(cuts):
        now = weights[max(weights)]
        changed = {**now, NAMES[2 + number % 2]: shares[2 + number]}
        if number == 1:
            changed = {name: share for name, share in changed.items() if name != leaver}
        # With weights that are wrong from the beginning, the error says from where on they may be other.
        try:
            make({0: {"a": 1, "b": 50, **dict.fromkeys(changed, 7)}}).resume(state).close()
            first = 0
        except rs.StateMismatch as error:
            if cannot_join(error):
                return
            found = advised(error)
            if found is None:
                return
            first = max(found)
        weights = {item: each for item, each in weights.items() if item < first + ahead}
        if not weights:
            return
        weights[first + ahead] = changed
        try:
            items, state = read(make(weights), cut, state)
        except rs.StateMismatch as error:
            if cannot_join(error):
                return
            raise
        passed += items
        assert_same(passed, read(make(weights), len(passed))[0], make.__name__)
    rest, _ = read(make(weights), MOST, state)
    assert_same(passed + rest, read(make(weights), len(passed) + MOST)[0], make.__name__)


def cannot_join(error: rs.StateMismatch) -> bool:
    """Whether a stream was to join inputs with random access, or objects were to join arrays."""
    return bool(re.search("must have it too|must have items of the form", str(error)))


def test_a_new_input_begins_at_its_first_item_and_one_that_left_is_not_opened() -> None:
    opened = list[str]()

    def lines(name: str) -> rs.Pipeline[str]:
        def read_lines() -> Any:
            opened.append(name)
            return (f"{name}{number}" for number in range(100))

        return rs.from_iterable(read_lines)

    def mixed(weights: Any) -> rs.Pipeline[str]:
        names = {name: None for each in weights.values() for name in each}
        return rs.mix({name: lines(name) for name in names}, weights=weights)

    weights: dict[int, Any] = {0: {"web": 1, "code": 1}}
    with iter(mixed(weights)) as iterator:
        passed = list(islice(iterator, 6))
        state = iterator.get_state()
    # Streams do not say where they end, so the run may have seen that there is no item 6.
    weights[7] = {"web": 1, "math": 1}
    with mixed(weights).resume(state) as iterator:
        assert next(iterator) == "web3"
        passed.append("web3")
        state = iterator.get_state()
    opened.clear()
    with mixed(weights).resume(state) as iterator:
        rest = list(islice(iterator, 6))
    assert rest == ["web4", "math0", "web5", "math1", "web6", "math2"]
    assert set(opened) == {"web", "math"}
    assert passed + rest == list(islice(mixed(weights), 13))


def test_names_may_be_given_while_a_run_goes_on() -> None:
    def numbers(start: int) -> rs.Pipeline[int]:
        return rs.range(start, start + 50)

    _, state = read(rs.mix(numbers(0), numbers(100), weights=(2, 1)), 10)
    named = rs.mix(
        {"web": numbers(0), "code": numbers(100), "math": numbers(200)},
        weights={0: {"web": 2, "code": 1}, 10: {"web": 1, "math": 1}},
    )
    assert list(named.resume(state)) == list(named)[10:]
    # Without names an exchange of two sources that look alike would not be noticed.
    _, state = read(named, 10)
    with pytest.raises(rs.StateMismatch, match="saved names of pipelines="):
        rs.mix(
            numbers(0), numbers(100), numbers(200), weights={0: (2, 1, 0), 10: (1, 0, 1)}
        ).resume(state)


def test_what_an_input_that_joins_must_obey() -> None:
    def mixed(names: str, weights: Any) -> rs.Pipeline[int]:
        return rs.mix({name: rs.range(50) for name in names}, weights=weights)

    _, state = read(mixed("ab", {"a": 2, "b": 1}), 10)
    with pytest.raises(rs.StateMismatch, match="saved names of pipelines="):
        mixed("cab", {0: {"a": 2, "b": 1}, 20: {"c": 1}}).resume(state)
    with pytest.raises(rs.StateMismatch, match=r"10: \{'a': 2, 'b': 1, 'c': 1\}\}$"):
        mixed("abc", {"a": 2, "b": 1, "c": 1}).resume(state)
    with pytest.raises(rs.StateMismatch, match="one that has left stays without a weight"):
        mixed("a", {"a": 2}).resume(state)
    with pytest.raises(rs.InvalidArgument, match="in which 'c' has none"):
        mixed("abc", {0: {"a": 2, "b": 1}, 20: {"a": 1}})
    with pytest.raises(rs.InvalidArgument, match="must not all be 0"):
        mixed("ab", {0: {"a": 2, "b": 1}, 20: {}})
    with pytest.raises(rs.InvalidArgument, match="must have the names of the pipelines"):
        mixed("ab", {0: {"a": 2, "b": 1}, 20: {"d": 1}})
    with pytest.raises(rs.InvalidArgument, match="must have the names of the pipelines"):
        mixed("ab", {"a": 2})


@pytest.mark.parametrize("kind", ["by index", "stream"])
def test_a_cycling_mix_ends_where_the_last_input_that_had_not_ended_leaves(kind: str) -> None:
    inputs = {"a": INPUTS[kind](0).take(3), "b": INPUTS[kind](100).take(9)}
    mixed = rs.mix(inputs, weights={0: {"a": 1, "b": 1}, 8: {"a": 1}}, stop="cycle")
    assert list(mixed) == [0, 100, 1, 101, 2, 102, 0, 103]


def test_a_state_without_an_input_that_had_turns_is_refused() -> None:
    mixed = rs.mix(*(INPUTS["stream"](start) for start in (0, 100, 200)))
    _, state = read(mixed, 9)
    positions = state["pipeline"]
    for name in ("ended", "upstreams"):
        positions[name] = positions[name][:2]
    with pytest.raises(rs.StateMismatch, match="must be a list of 3 entries"):
        mixed.resume(state)


def test_an_input_that_was_planned_need_not_come() -> None:
    def mixed(names: str, weights: Any) -> rs.Pipeline[int]:
        inputs = {
            name: rs.range(100 * number, 100 * number + 90) for number, name in enumerate(names)
        }
        return rs.mix(inputs, weights=weights)

    now = {"a": 2, "b": 1}
    passed, state = read(mixed("abc", {0: now, 20: {"c": 1}}), 10)
    with pytest.raises(rs.StateMismatch, match="one that has left stays without a weight"):
        mixed("ab", now).resume(state)
    with pytest.raises(rs.InvalidArgument, match="'c' has none; write 0 for it"):
        mixed("abc", {0: now})
    changed = mixed("abc", {0: {**now, "c": 0}})
    assert passed + list(changed.resume(state)) == list(changed) == list(mixed("ab", now))
    with pytest.raises(rs.StateMismatch) as refused:
        mixed("abc", {0: {"b": 1}, 5: {"a": 1, "c": 1}, 8: {"b": 1}}).resume(state)
    advice = advised(refused.value)
    assert advice == {0: {**now, "c": 0}, 10: {"b": 1, "c": 0}}
    changed = mixed("abc", advice)
    assert passed + list(changed.resume(state)) == list(changed)


@pytest.mark.parametrize("stop", ["first", "cycle"])
def test_an_input_that_is_planned_for_later_does_not_hide_the_end(stop: str) -> None:
    def mixed(weights: Any) -> rs.Pipeline[int]:
        inputs = {
            "a": rs.range(30).shuffle(1, window=1),  # a stream of known length
            "b": rs.range(100, 135).shuffle(1, window=1),
            "c": INPUTS["filtered"](200),
        }
        chosen = {
            name: inputs[name] for name in inputs if any(name in one for one in weights.values())
        }
        return rs.mix(chosen, weights=weights, seed=5, reshuffle=True, stop=stop)

    before = {0: {"a": 7, "b": 3}}
    after = {**before, 1000: {"c": 1}}
    length = mixed(before).length
    assert length is not None
    assert mixed(after).length == length
    assert mixed({**before, 20: {"a": 7, "c": 1}}).length is None
    for cut in range(int(length) - 9, int(length) + 1):
        passed, state = read(mixed(before), cut)
        assert passed + list(mixed(after).resume(state)) == list(mixed(after))


def test_an_endless_mix_is_endless_whatever_input_has_left() -> None:
    inputs = {"a": rs.range(50), "b": rs.range(50).repeat(), "c": INPUTS["filtered"](0)}
    weights = {0: {"a": 1, "b": 1, "c": 0}, 10: {"b": 1}}
    assert list(islice(rs.mix(inputs, weights=weights), 100, 103)) == [45, 46, 47]
    for stop in ("first", "cycle"):
        assert rs.mix(inputs, weights=weights, stop=stop).length == math.inf


def test_an_error_below_a_mix_that_has_grown_names_the_stage_where_it_now_is() -> None:
    def mixed(weights: Any, *later: rs.Pipeline[int]) -> rs.Pipeline[int]:
        inner = rs.mix(rs.range(20), rs.range(50, 70), weights=weights)
        return rs.mix(inner, *later, weights={0: (1, 0), 9: (1, 1)} if later else (1,))

    _, state = read(mixed((2, 1)), 9)
    with pytest.raises(rs.StateMismatch, match=r"Mix at pipeline\.upstreams\[0\]: saved weights"):
        mixed((1, 2), rs.range(100, 120)).resume(state)
