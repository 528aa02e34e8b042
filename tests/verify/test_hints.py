"""What is advised can be done: a stage is told only of what it takes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.command import call_command
from support.forks import verify_by_forks

import resumable as rs
from resumable.verify import reasons
from resumable.verify.hints import hint_for


class Counting:
    """A function that has get_state and set_state, whatever it is called with."""

    calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return [self.calls]

    def get_state(self) -> Any:
        return self.calls

    def set_state(self, state: Any) -> None:
        self.calls = state


def numbers() -> Iterable[int]:
    return iter(range(3))


STAGES: dict[str, Callable[[Any], rs.Pipeline[Any]]] = {
    "map": lambda fn: rs.range(9).map(fn),
    "map with workers": lambda fn: rs.range(9).map(fn, workers=1),
    "filter": lambda fn: rs.range(9).filter(fn),
    "batch": lambda fn: rs.range(9).batch(2, collate=fn),
    "random_map": lambda fn: rs.range(9).random_map(fn, 0),
    "flat_map": lambda fn: rs.range(9).flat_map(fn),
    "interleave": lambda fn: rs.range(9).interleave_map(fn, cycle_length=2),
}


@pytest.mark.parametrize("name", STAGES)
def test_get_state_is_advised_where_a_function_may_have_it(name: str) -> None:
    stage = STAGES[name](lambda *items: items).stage
    hint = hint_for(reasons.FUNCTION_KEEPS_STATE, stage)
    try:
        STAGES[name](Counting())
        taken = True
    except rs.InvalidArgument:
        taken = False
    without_workers = hint.replace("give it get_state and set_state and no workers", "")
    assert ("give it get_state and set_state" in without_workers) == taken


@pytest.mark.parametrize(
    ("reason", "pipeline", "advised"),
    [
        (reasons.FUNCTION_KEEPS_STATE, rs.range(3).scan(lambda c, i: (c, i), 0), "Let the carry"),
        (reasons.FUNCTION_KEEPS_STATE, rs.from_iterable(numbers), "Let the source"),
        (reasons.FUNCTION_KEEPS_STATE, rs.range(3).prefetch(1), "Keep in the iterator"),
        (reasons.RANDOMNESS, rs.range(3).map(abs), "Use random_map(fn, seed)"),
        (reasons.RANDOMNESS, rs.range(3).flat_map(range), "Draw by random_map(fn, seed) before it"),
        (reasons.RANDOMNESS, rs.from_sequence([1]), "Give the source a seed"),
        (reasons.STATE_INCOMPLETE, rs.range(3).map(Counting()), "Let get_state of the function"),
        (reasons.READ_ONCE, rs.from_iterable(numbers), "Let the function that from_iterable"),
        (reasons.READ_ONCE, rs.from_iterable(iter("a")), "Pass from_iterable a function"),
    ],
)
def test_the_advice_fits_the_stage(
    reason: reasons.Reason, pipeline: rs.Pipeline[Any], advised: str
) -> None:
    assert hint_for(reason, pipeline.stage).startswith(advised)


class Loader(Counting):
    """A loader with a state of its own, which leaves something out."""

    def __iter__(self) -> Any:
        return iter(range(9))


def test_of_a_loader_with_its_own_state_the_methods_are_named() -> None:
    hint = hint_for(reasons.STATE_INCOMPLETE, rs.from_iterable(Loader()).stage)
    assert "Its own get_state/set_state do not restore" in hint
    assert "check_stage" not in hint


def test_what_is_advised_for_a_flat_map_is_exact() -> None:
    def numbered(count: int, item: int) -> tuple[int, list[int]]:
        return count + item % 3, [*range(count, count + item % 3)]

    def same(items: Iterable[int]) -> Iterable[int]:
        return items

    pipeline = rs.range(20).scan(numbered, 0).flat_map(same)
    rs.testing.check_resumes_everywhere(pipeline)


MINE = """
import resumable as rs

count = 0


def numbered(item):
    global count
    for _ in range(item % 3):
        count += 1
        yield count


expanded = rs.range(30).flat_map(numbered)
"""


def test_a_flat_map_that_counts_is_not_told_of_get_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    verify_by_forks(monkeypatch)
    done: subprocess.CompletedProcess[str] = call_command(
        tmp_path, "verify", "mine:expanded", "--positions", "3"
    )
    assert "Not exact: function keeps state." in done.stdout
    assert "It first appears at FlatMap(fn=numbered) at pipeline." in done.stdout
    assert "is carried by scan(fn, initial) before it" in done.stdout
    assert "get_state" not in done.stdout


def test_what_workers_remember_is_looked_for_where_there_are_workers() -> None:
    for reason in (reasons.NOT_REPRODUCIBLE, reasons.UNSTEADY):
        beside = hint_for(reason, rs.range(9).map(str, workers=2).stage)
        assert "each worker remembers" in beside
        assert hint_for(reason, rs.range(9).map(str).stage) == reason.hint
