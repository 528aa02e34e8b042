"""What the iterators of a process need next, as far as each of them has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from file_cache.remote import PART, File, OneEpoch, Order, some_files

import resumable as rs
from resumable.core.foreseen import PartUses, foreseeing
from resumable.file_cache import foresight as foresight_module
from resumable.file_cache.foresight import Foresight
from resumable.file_cache.part_file import HEADER, PartName

COUNT = 8
ALL = np.arange(COUNT)


@pytest.fixture(autouse=True)
def nothing_else_is_foreseen() -> None:
    foreseeing.clear()


@pytest.fixture
def cache(tmp_path: Path) -> rs.FileCache:
    return rs.FileCache(tmp_path, 2 * COUNT * (PART + HEADER.size), PART)


def in_order(cache: rs.FileCache, file: File) -> OneEpoch:
    """An iterator that reads the parts of ``file`` one after another."""
    return OneEpoch(Order(cache, [file], [ALL]), ALL, COUNT)


def next_uses(foresight: Foresight, file: File) -> list[int]:
    """When each part of ``file`` is needed; -1 where that is not known."""
    codes = [PartName(file.content_name, number).code for number in range(COUNT)]
    found: list[int] = foresight.next_uses().of(np.array(codes, np.uint64)).tolist()
    return found


def test_each_iterator_is_as_far_as_it_has_gone_itself(cache: rs.FileCache) -> None:
    files = some_files(COUNT * PART, COUNT * PART)
    fast, slow = (in_order(cache, file) for file in files)
    foresight = Foresight(cache)
    foresight.look()
    fast.position, slow.position = 5, 1
    assert next_uses(foresight, files[0]) == [-1] * 5 + [0, 1, 2]
    assert next_uses(foresight, files[1]) == [-1, *range(COUNT - 1)]
    upcoming = list(foresight.upcoming(4 * PART))
    assert [needed.at for needed in upcoming] == [0, 0, 1, 1]
    assert {(needed.file.path, needed.number) for needed in upcoming} == {
        (files[0].path, 5), (files[1].path, 1), (files[0].path, 6), (files[1].path, 2),
    }  # fmt: skip


def test_what_an_iterator_needed_that_is_dropped_is_needed_by_nobody(cache: rs.FileCache) -> None:
    files = some_files(COUNT * PART, COUNT * PART)
    iterators = [in_order(cache, file) for file in files]
    foresight = Foresight(cache)
    assert next_uses(foresight, files[0]) == [*range(COUNT)]
    del iterators[0]
    assert next_uses(foresight, files[0]) == [-1] * COUNT
    assert next_uses(foresight, files[1]) == [*range(COUNT)]


def test_it_is_looked_anew_after_half_of_what_an_iterator_was_asked_for(
    cache: rs.FileCache,
) -> None:
    class OfBatches(OneEpoch):
        def horizon(self, most: int) -> int:
            return 4

    (file,) = some_files(COUNT * PART)
    iterator = OfBatches(Order(cache, [file], [ALL]), ALL, COUNT)
    foresight = Foresight(cache)
    first = foresight.look()
    iterator.position = 2
    assert foresight.look() is first
    assert next_uses(foresight, file) == [-1, -1, 0, 1, -1, -1, -1, -1]
    iterator.position = 3
    assert foresight.look() is not first
    assert next_uses(foresight, file) == [-1, -1, -1, 0, 1, 2, 3, -1]


def test_an_iterator_that_cannot_be_foreseen_hides_no_other_one(
    cache: rs.FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Damaged(OneEpoch):
        def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
            yield from super().foreseen(start, min(stop, 3))
            raise rs.MalformedItem("its index is damaged")

    files = some_files(COUNT * PART, COUNT * PART)
    damaged = Damaged(Order(cache, files[:1], [ALL]), ALL, COUNT)
    iterators = [damaged, in_order(cache, files[1])]
    monkeypatch.setattr(foresight_module, "members", lambda _: iterators)
    foresight = Foresight(cache)
    assert next_uses(foresight, files[0]) == [0, 1, 2] + [-1] * (COUNT - 3)
    assert next_uses(foresight, files[1]) == [*range(COUNT)]
