"""Sequences: indexed, many at once where they can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Torchlike

import resumable as rs


def test_many_items_are_asked_for_at_once_where_the_sequence_can_do_that() -> None:
    asked: list[list[int]] = []

    class Noting(Torchlike):
        def __getitems__(self, indices: list[int]) -> list[dict[str, int]]:
            asked.append(indices)
            return super().__getitems__(indices)

    dataset: Any = Noting()
    list(rs.from_sequence(dataset).shuffle(0).batch(8))
    assert [len(indices) for indices in asked] == [8, 8, 7]
    assert all(type(index) is int for indices in asked for index in indices)


def test_a_list_that_has_become_shorter_is_an_error() -> None:
    items = list(range(10))
    batches = iter(rs.from_sequence(items).batch(4))
    next(batches)
    del items[6:]
    with pytest.raises(IndexError):
        next(batches)


@pytest.mark.parametrize("kind", [list, tuple, range])
def test_batches_of_built_in_sequences_hold_their_items(kind: Any) -> None:
    items = range(7) if kind is range else kind("abcdefg")
    batches = list(rs.from_sequence(items).batch(3, collate=list))
    assert batches == [list(items[:3]), list(items[3:6]), list(items[6:])]


def test_a_memmap_stays_on_disk_and_is_not_changed_through_an_item(tmp_path: Path) -> None:
    array = np.arange(20, dtype=np.float32).reshape(10, 2)
    np.save(tmp_path / "data.npy", array)
    mapped: Any = np.load(tmp_path / "data.npy", mmap_mode="r+")
    for pipeline in (rs.from_sequence(mapped), rs.from_arrays(mapped)):
        for item in pipeline:
            item += 1
        (batch,) = pipeline.batch(10)
        batch += 1
    assert (np.load(tmp_path / "data.npy") == array).all()
    assert (batch == array + 1).all()


def test_repr_says_what_it_is() -> None:
    assert repr(rs.from_sequence([1, 2])) == "Pipeline(FromSequence(list of 2 items, by index))"


class Dropping(list[int]):
    """Leaves out what it takes for damaged."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices if index % 4]


def test_fewer_items_than_indices_are_refused() -> None:
    with (
        iter(rs.from_sequence(Dropping(range(20))).batch(4)) as iterator,
        pytest.raises(rs.MalformedItem, match="an item for each of 4 indices, got 3"),
    ):
        next(iterator)
