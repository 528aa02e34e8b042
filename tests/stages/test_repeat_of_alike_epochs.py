"""A repeat that looks its items up, as its epochs are alike, stands where any other repeat would."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from support.tiers import thinned

import resumable as rs
from resumable.stages.repeat import Repeat

LENGTH, EPOCHS = 3, 4
MOVES: dict[str, Callable[[rs.PipelineIterator[Any], int], object]] = {
    "next": lambda iterator, count: [next(iterator) for _ in range(count)],
    "pull": lambda iterator, count: iterator.pull(count),
    "skip": lambda iterator, count: iterator.skip(count),
}
PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "range": lambda: rs.range(LENGTH).repeat(EPOCHS),
    "map": lambda: rs.from_sequence("abc").map(str.upper).repeat(EPOCHS),
    "nested": lambda: rs.range(LENGTH).repeat(2).repeat(EPOCHS // 2),
    "endless": lambda: rs.range(LENGTH).repeat(),
    "shuffled": lambda: rs.range(LENGTH).shuffle(0).repeat(EPOCHS),
}


def walk(pipeline: rs.Pipeline[Any], first: str, second: str, counts: tuple[int, int]) -> list[Any]:
    """States and epochs on the way, and the items after it."""
    found: list[Any] = []
    with pipeline.start() as iterator:
        for move, count in zip((first, second), counts, strict=True):
            MOVES[move](iterator, count)
            found += [iterator.get_state(), iterator.epoch]
        state = iterator.get_state()
    with pipeline.resume(state) as iterator:
        found += [iterator.get_state(), iterator.epoch]
        found += [next(iterator, "no more") for _ in range(LENGTH * EPOCHS)]
        return [*found, iterator.get_state()]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("first", MOVES)
@pytest.mark.parametrize("second", MOVES)
def test_states_items_and_epochs_are_those_of_epochs_begun_one_by_one(
    name: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = PIPELINES[name]()
    assert pipeline.stage.alike == (name != "shuffled")  # type: ignore[attr-defined]
    pairs = product(range(LENGTH * 2 + 1), range(LENGTH + 2))
    every = thinned(pairs, 6, (name, first, second))
    looked_up = [walk(pipeline, first, second, counts) for counts in every]
    monkeypatch.setattr(Repeat, "alike", False)
    one_by_one = PIPELINES[name]()
    assert looked_up == [walk(one_by_one, first, second, counts) for counts in every]


@pytest.mark.parametrize("source", [rs.range(3), rs.range(4).filter(bool)])
def test_fewer_epochs_than_were_begun_are_refused(source: rs.Pipeline[int]) -> None:
    with iter(source.repeat(5)) as iterator:
        for _ in range(7):
            next(iterator)
        state = iterator.get_state()
    assert len(list(source.repeat(3).resume(state))) == 2
    with pytest.raises(rs.StateMismatch, match="saved pass=2 lies beyond the last of 2 epochs"):
        source.repeat(2).resume(state)
