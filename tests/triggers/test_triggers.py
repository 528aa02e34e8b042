"""Triggers against an oracle, with a fake clock."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs


def progress(
    step: int,
    saved_step: int = 0,
    seconds: float = 0,
    saved: float = 0,
    signals: tuple[int, ...] = (),
    at_end: bool = False,
) -> rs.Progress:
    return rs.Progress(step, saved_step, seconds, saved, frozenset(signals), at_end)


@given(st.integers(1, 20), st.lists(st.integers(0, 50), max_size=30), st.integers(0, 100))
def test_every_steps_fires_when_a_multiple_was_reached_or_jumped_over(
    every: int, jumps: list[int], start: int
) -> None:
    trigger = rs.EverySteps(every)
    step = saved = start
    for jump in jumps:
        before, step = step, step + jump
        crossed = any(number % every == 0 for number in range(before + 1, step + 1))
        due = trigger.is_due(progress(step, saved))
        assert due == any(number % every == 0 for number in range(saved + 1, step + 1))
        if due:
            assert crossed
            saved = step


@given(st.sets(st.integers(1, 60), min_size=1), st.integers(0, 60), st.integers(0, 30))
def test_at_steps_fires_when_one_of_them_was_reached_or_jumped_over(
    steps: set[int], saved: int, later: int
) -> None:
    due = rs.AtSteps(steps).is_due(progress(saved + later, saved))
    assert due == bool(steps & set(range(saved + 1, saved + later + 1)))


def test_many_steps_cost_hardly_more_than_few() -> None:
    looked_at = []

    class Noted(tuple[int, ...]):
        def __getitem__(self, index: Any) -> Any:
            looked_at.append(index)
            return super().__getitem__(index)

        def __iter__(self) -> Any:
            return map(self.__getitem__, range(len(self)))

    trigger = rs.AtSteps(range(1, 2000, 2))
    object.__setattr__(trigger, "steps", Noted(trigger.steps))
    assert not trigger.is_due(progress(1000, 999))
    assert len(looked_at) <= 20


@given(st.floats(0.001, 1000), st.floats(0, 1e6), st.floats(0, 2000))
def test_every_seconds_fires_when_they_have_passed(
    seconds: float, saved: float, later: float
) -> None:
    due = rs.EverySeconds(seconds).is_due(progress(5, 0, saved + later, saved))
    assert due == (saved + later - saved >= seconds)


@given(st.sets(st.sampled_from([2, 10, 12, 15]), min_size=1), st.sets(st.sampled_from([10, 15])))
def test_on_signal_fires_for_its_own_signals(own: set[int], received: set[int]) -> None:
    trigger = rs.OnSignal(*own)
    assert trigger.is_due(progress(5, signals=tuple(received))) == bool(own & received)
    assert trigger.signals == own


def test_at_end_fires_at_the_end_only() -> None:
    assert rs.AtEnd().is_due(progress(5, at_end=True))
    assert not rs.AtEnd().is_due(progress(5))


def test_when_asks_its_function() -> None:
    trigger = rs.When(lambda progress: progress.step > 3)
    assert [trigger.is_due(progress(step)) for step in (3, 4)] == [False, True]


class Noting(rs.Trigger):
    def __init__(self, answer: bool) -> None:
        self.answer, self.asked = answer, 0

    def is_due(self, progress: rs.Progress) -> bool:
        self.asked += 1
        return self.answer


@given(st.booleans(), st.booleans(), st.booleans())
def test_or_and_and_ask_every_child(one: bool, two: bool, three: bool) -> None:
    first, second, third = Noting(one), Noting(two), Noting(three)
    assert ((first | second) & third).is_due(progress(1)) == ((one or two) and three)
    assert (first | (second & third)).is_due(progress(1)) == (one or (two and three))
    assert first.asked == second.asked == third.asked == 2


def test_nested_triggers_know_all_their_signals() -> None:
    trigger = (rs.OnSignal(signal.SIGTERM) & rs.EverySteps(3)) | rs.OnSignal(
        signal.SIGUSR1, signal.SIGUSR2
    )
    assert trigger.signals == {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
    assert (rs.EverySteps(3) | rs.AtEnd()).signals == frozenset()


def test_triggers_are_values() -> None:
    assert rs.EverySteps(3) | rs.EverySeconds(2.0) == rs.EverySteps(3) | rs.EverySeconds(2.0)
    assert "EverySteps(steps=3)" in repr(rs.EverySteps(3) & rs.EverySteps(2))
    assert rs.AtSteps([3, 1, 3]) == rs.AtSteps((1, 3))
    assert repr(rs.OnSignal(signal.SIGTERM)) == "OnSignal(SIGTERM)"


def test_every_takes_exactly_one_of_two_arguments() -> None:
    assert rs.every(save_steps=5) == rs.EverySteps(5)
    assert rs.every(save_secs=5) == rs.EverySeconds(5.0)
    for wrong in ({}, {"save_steps": 5, "save_secs": 5}):
        with pytest.raises(ValueError, match="exactly one of save_steps and save_secs"):
            rs.every(**wrong)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        rs.every(save_steps=0)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: rs.EverySteps(0), ValueError, "steps must be at least 1, got 0"),
    (lambda: rs.EverySteps(-3), ValueError, "at least 1, got -3"),
    (lambda: rs.EverySteps(True), TypeError, "must be an integer, got True"),
    (lambda: rs.EverySteps(math.nan), TypeError, "must be an integer, got nan"),  # type: ignore[arg-type]
    (lambda: rs.EverySeconds(0), ValueError, "seconds must be finite and above 0, got 0"),
    (lambda: rs.EverySeconds(-1), ValueError, "above 0, got -1"),
    (lambda: rs.EverySeconds(math.nan), ValueError, "finite and above 0, got nan"),
    (lambda: rs.EverySeconds(math.inf), ValueError, "finite and above 0, got inf"),
    (lambda: rs.EverySeconds(True), TypeError, "number of seconds, got True"),
    (lambda: rs.AtSteps([]), ValueError, "at least one step, got none"),
    (lambda: rs.AtSteps([3, 0]), ValueError, "each of steps must be at least 1, got 0"),
    (lambda: rs.AtSteps([True]), TypeError, "must be an integer, got True"),
    (lambda: rs.AtSteps(5), TypeError, "steps must be a list of integers, got 5"),  # type: ignore[arg-type]
    (lambda: rs.AtSteps("12"), TypeError, "steps must be a list of integers"),  # type: ignore[arg-type]
    (lambda: rs.OnSignal(), ValueError, "at least one signal, got none"),
    (lambda: rs.OnSignal(0), ValueError, "must be a signal, got 0"),
    (lambda: rs.OnSignal(-1), ValueError, "must be a signal, got -1"),
    (lambda: rs.OnSignal(True), TypeError, "must be an integer, got True"),
    (lambda: rs.OnSignal("SIGTERM"), TypeError, "must be an integer, got 'SIGTERM'"),  # type: ignore[arg-type]
    (lambda: rs.OnSignal(signal.SIGKILL), ValueError, "can be caught, got SIGKILL"),
    (lambda: rs.OnSignal(signal.SIGSTOP), ValueError, "can be caught, got SIGSTOP"),
    (lambda: rs.When(5), TypeError, "predicate must be callable, got 5"),  # type: ignore[arg-type]
    (lambda: rs.EverySteps(3) | 5, TypeError, "composes with another trigger, got 5"),  # type: ignore[operator]
    (lambda: rs.EverySteps(3) & None, TypeError, "composes with another trigger"),  # type: ignore[operator]
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_arguments_are_refused_at_construction(number: int) -> None:
    make, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        make()
