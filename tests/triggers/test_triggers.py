"""Triggers against an oracle, with a fake clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import resumable as rs


def progress(step: int, saved_step: int = 0, seconds: float = 0, saved: float = 0) -> rs.Progress:
    return rs.Progress(step, saved_step, seconds, saved)


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


@given(st.floats(0.001, 1000), st.floats(0, 1e6), st.floats(0, 2000))
def test_every_seconds_fires_when_they_have_passed(
    seconds: float, saved: float, later: float
) -> None:
    due = rs.EverySeconds(seconds).is_due(progress(5, 0, saved + later, saved))
    assert due == (saved + later - saved >= seconds)


def test_a_clock_that_goes_back_saves_nothing() -> None:
    assert not rs.EverySeconds(1).is_due(progress(5, 0, 10, 20))


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


def test_triggers_are_values() -> None:
    assert rs.EverySteps(3) | rs.EverySeconds(2.0) == rs.EverySteps(3) | rs.EverySeconds(2.0)
    assert "EverySteps(steps=3)" in repr(rs.EverySteps(3) & rs.EverySteps(2))
