"""Whose time it is, by made-up threads on a made-up clock."""

from __future__ import annotations

import pytest

from resumable.bench.ledger import Ledger, Totals

LOOP, THREAD, INNER = 1, 2, 3


class Script:
    """A ledger whose events and seconds are written down."""

    def __init__(self, readers: list[int | None], cost: float = 0.0) -> None:
        self.now = 100.0
        self.thread = LOOP
        self.ledger = Ledger(readers, lambda: self.now, cost=cost, thread=lambda: self.thread)

    def wait(self, seconds: float) -> Script:
        self.now += seconds
        return self

    def enter(self, number: int, thread: int = LOOP) -> Script:
        self.thread = thread
        self.ledger.enter(number)
        return self

    def leave(self, thread: int = LOOP) -> Script:
        self.thread = thread
        self.ledger.leave()
        return self

    @property
    def totals(self) -> Totals:
        return self.ledger.totals()


def test_the_time_of_a_stage_is_without_that_of_the_stages_it_calls() -> None:
    script = Script([None, 0]).wait(1).enter(0).wait(2).enter(1).wait(4).leave().wait(8).leave()
    assert script.wait(16).totals == Totals((10, 4), 17, (10, 4), (0, 0))


def test_while_a_stage_waits_for_its_thread_the_time_is_that_of_the_stage_at_work_there() -> None:
    script = Script([None, 0, 1]).enter(0).wait(1)
    script.enter(1, THREAD).wait(2).enter(2, THREAD).wait(4).leave(THREAD).leave(THREAD).wait(8)
    assert script.leave().totals == Totals((9, 2, 4), 0, (9, 2, 4), (0, 2, 4))


def test_what_a_thread_does_while_the_loop_works_costs_the_loop_nothing() -> None:
    # 0 works in the loop, on what 1 hands over out of the thread in which 2 works.
    script = Script([None, 0, 1]).enter(0).wait(1).enter(2, THREAD).wait(2)
    assert script.leave(THREAD).leave().totals == Totals((3, 0, 0), 0, (3, 0, 2), (0, 0, 2))


def test_threads_before_threads_are_followed_to_the_stage_at_work() -> None:
    script = Script([None, 0, 1, 2]).enter(0).enter(1, THREAD).wait(1).enter(3, INNER)
    script.wait(2)
    assert script.totals.loop == (0, 1 + 2, 0, 0)  # 3 serves 2, for which nobody waits yet
    script.enter(2, THREAD).wait(4)
    assert script.totals.loop == (0, 1 + 2, 0, 4)
    assert script.totals.work == (0, 1 + 2, 0, 2 + 4)


def test_a_thread_that_waits_serves_nobody() -> None:
    script = Script([None, 0]).enter(1, THREAD).wait(1).leave(THREAD).enter(0).wait(2).leave()
    assert script.totals == Totals((2, 0), 1, (2, 1), (0, 1))


def test_what_an_interval_costs_to_time_is_taken_off_and_never_more_than_it_took() -> None:
    script = Script([None], cost=0.5).wait(2).enter(0).wait(0.25).leave().wait(1)
    assert script.totals == Totals((0,), 2, (0,), (0,))


def test_a_call_that_raises_has_left_the_stage() -> None:
    script = Script([None])

    def fails() -> None:
        script.wait(3)
        raise KeyError

    with pytest.raises(KeyError):
        script.ledger.call(0, fails)
    assert script.wait(5).totals == Totals((3,), 5, (3,), (0,))


def test_the_loop_s_time_is_all_the_time() -> None:
    script = Script([None, 0, 1])
    for number, thread in ((0, LOOP), (1, THREAD), (2, THREAD)):
        script.wait(1).enter(number, thread).wait(0.5)
    for thread in (THREAD, LOOP, THREAD):
        script.wait(2).leave(thread)
    totals = script.wait(1).totals
    assert sum(totals.loop) + totals.around == script.now - 100


def test_what_was_added_since_an_earlier_moment() -> None:
    script = Script([None]).enter(0).wait(1)
    before = script.totals
    assert script.wait(2).leave().wait(4).totals.since(before) == Totals((2,), 4, (2,), (0,))
