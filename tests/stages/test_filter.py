"""A filter that passes nothing on says so."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import stream

import resumable as rs
from resumable.stages import filter as module

TAKES: dict[str, Callable[[rs.Pipeline[Any]], list[Any]]] = {
    "item by item": list,
    "in blocks": lambda kept: list(kept.batch(4).unbatch()),
}


def is_large(item: int) -> bool:
    return item >= 70


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DROPPED", 50)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("numbers", [rs.range(100), stream(100)], ids=["range", "stream"])
def test_a_filter_that_drops_the_first_items_of_a_pass_says_so_once(
    numbers: rs.Pipeline[int], take: str
) -> None:
    with pytest.warns(RuntimeWarning, match=r"Filter\(predicate=is_large\) has dropped") as caught:
        items = TAKES[take](numbers.filter(is_large))
    assert items == [*range(70, 100)]
    assert len(caught) == 1


@pytest.mark.parametrize("take", TAKES)
def test_a_filter_that_drops_all_items_says_so_once(take: str) -> None:
    with pytest.warns(RuntimeWarning, match="without passing one on") as caught:
        assert TAKES[take](rs.range(500).filter(lambda item: False)) == []
    assert len(caught) == 1


@pytest.mark.parametrize("take", TAKES)
def test_a_filter_that_has_passed_an_item_on_may_drop_all_others(take: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TAKES[take](rs.range(200).filter(lambda item: item == 30)) == [30]


def test_what_was_dropped_before_the_first_item_is_passed_over_on_a_resume() -> None:
    kept = rs.range(40).filter(lambda item: item > 20)
    with iter(kept) as iterator:
        for number in itertools.count(21):
            with kept.resume(iterator.get_state()) as again:
                assert list(again) == [*range(number, 40)]
            if next(iterator, None) is None:
                break


def test_a_predicate_that_raises_stop_iteration_does_not_end_the_pass() -> None:
    def raises(item: int) -> bool:
        raise StopIteration

    with pytest.raises(RuntimeError, match="a user function raised StopIteration"):
        list(rs.range(5).filter(raises))
